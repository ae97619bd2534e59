//! Resolves the types in the declarations of a description.
//!
//! In: declarations in order; a type is known after its declaration. Out: libraries, or the name
//! that is not declared.

use super::call::{
    BufferLength, DerefPath, Direction, Member, Parameter, Signature, StructType, ValueType, Width,
};
use super::parse::{self, Declaration, Prototype, TypeName};
use super::value_names::{NameTarget, NamedValue, ValueNames};
use monitor_model::name::matches_pattern;
use std::{collections::HashMap, sync::Arc};

/// The functions of a library, or of some versions of it.
#[derive(Debug)]
pub struct LibrarySignatures {
    /// Names of files that are it; `*` stands for any letters.
    pub files: Vec<String>,
    /// A name that only it defines, by which it is known inside a static program.
    pub mark: Option<String>,
    /// By name.
    pub calls: HashMap<String, Arc<Signature>>,
}

impl LibrarySignatures {
    /// Whether a file of this name is the library.
    pub fn is_file(&self, file: &str) -> bool {
        self.files.iter().any(|it| matches_pattern(it.as_bytes(), file.as_bytes()))
    }
}

/// The types so far, of one file.
#[derive(Default)]
struct Types(HashMap<String, ValueType>);

/// The libraries of a file.
pub fn libraries(items: Vec<Declaration>) -> Result<Vec<LibrarySignatures>, String> {
    let mut types = Types::default();
    let mut libraries: Vec<LibrarySignatures> = Vec::new();
    for item in items {
        match item {
            Declaration::Library(files, mark) => {
                libraries.push(LibrarySignatures { files, mark, calls: HashMap::new() });
            }
            Declaration::Function(function) => {
                let library = libraries.last_mut();
                let library =
                    library.ok_or_else(|| format!("no `library` precedes {}", function.name))?;
                let call = types.call(&function)?;
                if library.calls.insert(function.name.clone(), Arc::new(call)).is_some() {
                    return Err(format!("{} is declared twice", function.name));
                }
            }
            other => types.declare(other)?,
        }
    }
    Ok(libraries)
}

impl Types {
    fn declare(&mut self, item: Declaration) -> Result<(), String> {
        let (name, kind) = match item {
            Declaration::Alias(it, name) => (name, self.kind(&it)?),
            Declaration::Names { name, base, are_flags, rows } => {
                let base = base.map(|base| self.kind(&base)).transpose()?;
                (name, named(rows, are_flags, base)?)
            }
            Declaration::Record(name, members) => {
                let members = members.into_iter().map(|it| self.member(it));
                let members = members.collect::<Result<_, _>>()?;
                (name, ValueType::Record(Arc::new(StructType { members })))
            }
            Declaration::Library(..) | Declaration::Function(_) => return Ok(()),
        };
        _ = self.0.insert(name, kind);
        Ok(())
    }

    fn member(&self, it: parse::ParsedMember) -> Result<Member, String> {
        let (name, kind) = (it.name, self.kind(&it.kind)?);
        if matches!(kind, ValueType::Record(_) | ValueType::Void) {
            return Err(format!("the member {name} must be a number, a text or an address"));
        }
        let far = |step: u64| u32::try_from(step).map_err(|_| format!("{name} is too far behind"));
        let less = far(it.less.unwrap_or(0))?;
        let mut steps = it.offsets.into_iter().map(far);
        let offset = steps.next().transpose()?.unwrap_or(0);
        let next = [steps.next().transpose()?, steps.next().transpose()?];
        drop(steps);
        Ok(Member { name, kind, path: DerefPath { offset, next }, subtract: less })
    }

    /// The resolved type of a name.
    fn kind(&self, it: &TypeName) -> Result<ValueType, String> {
        let is_text = it.name == "char" && it.stars == 1 && it.is_const;
        match (it.name.as_str(), it.stars) {
            _ if is_text => Ok(ValueType::Text),
            ("string", 0) => Ok(ValueType::Text),
            (_, 1..) => Ok(ValueType::Address),
            (name, _) => {
                let known = base(name).or_else(|| self.0.get(name).cloned());
                known.ok_or_else(|| format!("unknown type {name}: declare it before its use"))
            }
        }
    }

    fn call(&self, function: &Prototype) -> Result<Signature, String> {
        let in_function = |error| format!("{}: {error}", function.name);
        let result = self.kind(&function.result).map_err(in_function)?;
        let parameters = function.parameters.iter().enumerate();
        let parameters = parameters.map(|(at, _)| self.parameter(function, at));
        let parameters = parameters.collect::<Result<Vec<_>, _>>().map_err(in_function)?;
        let is_by_value = |kind: &ValueType| matches!(kind, ValueType::Record(_));
        if is_by_value(&result)
            || parameters.iter().any(|it| is_by_value(&it.kind) && !it.is_pointed)
        {
            return Err(in_function("a structure can only be read behind a pointer".into()));
        }
        let fails = function.fails.map(u64::cast_signed);
        Ok(Signature { name: function.name.clone(), result, parameters, fails })
    }

    fn parameter(&self, function: &Prototype, at: usize) -> Result<Parameter, String> {
        let it = &function.parameters[at];
        let name = it.name.clone().unwrap_or_else(|| format!("arg{at}"));
        let direct = self.kind(&it.kind)?;
        let is_marked_pointer = it.kind.stars > 0 && it.way.is_some();
        let length = it.length.as_deref().map(|words| length(words, function)).transpose()?;
        let (kind, is_pointed) = if length.is_some() {
            // The bytes themselves; of `void` nothing is known but where they are.
            (if it.kind.name == "char" { ValueType::Text } else { ValueType::Address }, false)
        } else if is_marked_pointer && direct != ValueType::Text {
            let pointee = TypeName { stars: it.kind.stars - 1, ..it.kind.clone() };
            match self.kind(&pointee)? {
                ValueType::Void => (ValueType::Address, false),
                kind => (kind, true),
            }
        } else {
            (direct, false)
        };
        Ok(Parameter { name, direction: it.way.unwrap_or(Direction::In), kind, is_pointed, length })
    }
}

fn named(
    rows: Vec<parse::ParsedValueName>,
    are_flags: bool,
    base: Option<ValueType>,
) -> Result<ValueType, String> {
    let width = match base {
        None => Width { bytes: 4, is_signed: true },
        Some(ValueType::Number(width)) => width,
        Some(ValueType::Address) => Width { bytes: 8, is_signed: false },
        Some(_) => return Err("values with names are numbers or addresses".into()),
    };
    let row = |it: parse::ParsedValueName| {
        let number = it.number.map_or_else(NameTarget::AddressOf, NameTarget::Constant);
        let whole = match number {
            NameTarget::Constant(bits) if are_flags => bits,
            _ => u64::MAX,
        };
        NamedValue { name: it.name, number, mask: it.mask.unwrap_or(whole) }
    };
    let rows = rows.into_iter().map(row).collect();
    Ok(ValueType::Named(Arc::new(ValueNames { are_flags, rows }), width))
}

/// The types of C, as 64-bit Linux has them.
fn base(name: &str) -> Option<ValueType> {
    let (bytes, is_signed) = match name {
        "void" => return Some(ValueType::Void),
        "float" => return Some(ValueType::Float(4)),
        "double" => return Some(ValueType::Float(8)),
        "char" | "signed char" | "int8_t" => (1, true),
        "unsigned char" | "uint8_t" => (1, false),
        "short" | "short int" | "int16_t" => (2, true),
        "unsigned short" | "unsigned short int" | "uint16_t" | "in_port_t" => (2, false),
        "int" | "signed" | "signed int" | "int32_t" | "pid_t" | "key_t" | "clockid_t" => (4, true),
        "unsigned" | "unsigned int" | "uint32_t" | "uid_t" | "gid_t" | "mode_t" | "socklen_t" => {
            (4, false)
        }
        "long" | "long int" | "long long" | "long long int" | "int64_t" | "ssize_t" | "off_t"
        | "time_t" | "intptr_t" | "ptrdiff_t" => (8, true),
        "unsigned long" | "unsigned long int" | "unsigned long long" | "uint64_t" | "size_t"
        | "uintptr_t" | "nfds_t" | "pthread_t" => (8, false),
        _ => return None,
    };
    Some(ValueType::Number(Width { bytes, is_signed }))
}

/// `count`, `size * nmemb`, `*length`, `return` or a number.
fn length(words: &str, function: &Prototype) -> Result<BufferLength, String> {
    let words = words.trim();
    let parameter = |name: &str| {
        let found = function.parameters.iter().position(|it| it.name.as_deref() == Some(name));
        found.ok_or_else(|| format!("there is no parameter {name} to say how long a buffer is"))
    };
    if words == "return" {
        return Ok(BufferLength::Result);
    }
    if let Ok(bytes) = words.parse() {
        return Ok(BufferLength::Bytes(bytes));
    }
    match words.split_once('*') {
        Some(("", name)) => Ok(BufferLength::Pointee(parameter(name.trim())?)),
        Some((one, other)) => {
            Ok(BufferLength::Parameter(parameter(one.trim())?, Some(parameter(other.trim())?)))
        }
        None => Ok(BufferLength::Parameter(parameter(words)?, None)),
    }
}

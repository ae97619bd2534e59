//! The values that are traced at the entry and at the return of a call, and their text form.
//!
//! In: a call. Out: its values in the order of C, each with where it comes from: an argument, what
//! an argument points to, the result. The order is that of OMIS: `$2` of `pvm_send` is its first
//! input.

use super::call::{BufferLength, DerefPath, Direction, Parameter, Signature, ValueType};
use std::fmt::Write as _;

/// The name of the result.
pub const RESULT: &str = "result";
/// The name of the error number.
pub const ERRNO: &str = "errno";

/// A traced value.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedValue {
    /// The parameter, or a member of what it points to.
    pub name: String,
    /// Its type.
    pub kind: ValueType,
    /// Where it comes from.
    pub source: ValueSource,
    /// Length in bytes, if it is a buffer.
    pub length: Option<BufferLength>,
    /// Subtracted from the value that is read.
    pub subtract: u32,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The result of the function.
    Result,
    /// The error number.
    Errno,
    /// The argument with this index.
    Argument(usize),
    /// The value at this path from where the argument with this index points to.
    Pointee(usize, DerefPath),
}

impl Signature {
    /// The values at the entry: those that the caller writes.
    pub fn inputs(&self) -> Vec<TracedValue> {
        self.traced_values(Direction::is_input)
    }

    /// The values at the return: the result, the error number, and those that the function writes.
    pub fn outputs(&self) -> Vec<TracedValue> {
        let own = |name: &str, kind, from| TracedValue {
            name: name.into(),
            kind,
            source: from,
            length: None,
            subtract: 0,
        };
        let mut all = Vec::new();
        if self.result != ValueType::Void {
            all.push(own(RESULT, self.result.clone(), ValueSource::Result));
        }
        if self.fails.is_some() {
            let kind = ValueType::Number(super::call::Width { bytes: 4, is_signed: true });
            all.push(own(ERRNO, kind, ValueSource::Errno));
        }
        all.extend(self.traced_values(Direction::is_output));
        all
    }

    fn traced_values(&self, is_wanted: impl Fn(Direction) -> bool) -> Vec<TracedValue> {
        let wanted = self.parameters.iter().enumerate().filter(|(_, it)| is_wanted(it.direction));
        wanted.flat_map(|(index, it)| values(index, it)).collect()
    }
}

/// The values of a parameter: several, if it points to a structure.
fn values(index: usize, it: &Parameter) -> Vec<TracedValue> {
    let value = |name: String, kind: &ValueType, from| TracedValue {
        name,
        kind: kind.clone(),
        source: from,
        length: it.length.clone(),
        subtract: 0,
    };
    match &it.kind {
        ValueType::Record(record) => {
            let member = |member: &super::call::Member| {
                let name = format!("{}.{}", it.name, member.name);
                let value = value(name, &member.kind, ValueSource::Pointee(index, member.path));
                TracedValue { subtract: member.subtract, ..value }
            };
            record.members.iter().map(member).collect()
        }
        kind if it.is_pointed => {
            vec![value(it.name.clone(), kind, ValueSource::Pointee(index, DerefPath::at(0)))]
        }
        kind => vec![value(it.name.clone(), kind, ValueSource::Argument(index))],
    }
}

impl TracedValue {
    /// The number that these bits encode, for integers and addresses.
    pub fn number(&self, raw: u64) -> Option<i128> {
        match &self.kind {
            ValueType::Number(width) | ValueType::Named(_, width) => Some(width.number(raw)),
            ValueType::Address | ValueType::Text => Some(raw.into()),
            ValueType::Void | ValueType::Float(_) | ValueType::Record(_) => None,
        }
    }

    /// The value as text: names for numbers, quotes for strings.
    pub fn shown(&self, raw: u64, text: Option<&[u8]>) -> String {
        match &self.kind {
            ValueType::Void => String::new(),
            ValueType::Number(width) => width.number(raw).to_string(),
            ValueType::Named(names, width) => names
                .name(width.truncate(raw), width.bits())
                .unwrap_or_else(|| width.number(raw).to_string()),
            ValueType::Float(4) => f32::from_bits(raw as u32).to_string(),
            ValueType::Float(_) => f64::from_bits(raw).to_string(),
            ValueType::Text if text.is_some() => quoted(text.unwrap_or_default()),
            ValueType::Address | ValueType::Text | ValueType::Record(_) if raw == 0 => {
                "NULL".to_owned()
            }
            ValueType::Address | ValueType::Text | ValueType::Record(_) => format!("{raw:#x}"),
        }
    }
}

/// A text as C writes it.
fn quoted(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len() + 2);
    shown.push('"');
    for piece in text.utf8_chunks() {
        shown.extend(piece.valid().chars().flat_map(|it| match it {
            '"' | '\\' | '\n' | '\t' | '\r' => it.escape_default().collect::<Vec<_>>(),
            it if it.is_control() => format!("\\{:03o}", u32::from(it)).chars().collect(),
            it => vec![it],
        }));
        for byte in piece.invalid() {
            _ = write!(shown, "\\{byte:03o}");
        }
    }
    shown.push('"');
    shown
}

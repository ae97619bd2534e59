//! What a call has to tell as it begins, and as it returns; and how that is shown.
//!
//! In: a call. Out: its values in the order of C, each with where it comes from: an argument, what
//! an argument points to, the result. The order is that of OMIS: `$2` of `pvm_send` is its first
//! input.

use super::call::{Call, Kind, Length, Parameter, Reach, Way};
use std::fmt::Write as _;

/// The name of what a function gives.
pub const RESULT: &str = "result";
/// The name of why it failed.
pub const ERRNO: &str = "errno";

/// A value that is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The parameter, or a member of what it points to.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where it comes from.
    pub from: From,
    /// How many bytes there are, if it is a buffer.
    pub length: Option<Length>,
    /// How much less than what was read is told.
    pub less: u32,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// What the function gives.
    Result,
    /// Why it failed.
    Errno,
    /// The argument with this number.
    Argument(usize),
    /// What is reached from where the argument with this number points to.
    Pointee(usize, Reach),
}

impl Call {
    /// What is known as it begins: what the caller wrote.
    pub fn inputs(&self) -> Vec<Told> {
        self.told(Way::goes_in)
    }

    /// What is known as it returns: the result, why it failed, what it wrote.
    pub fn outputs(&self) -> Vec<Told> {
        let own =
            |name: &str, kind, from| Told { name: name.into(), kind, from, length: None, less: 0 };
        let mut all = Vec::new();
        if self.result != Kind::Nothing {
            all.push(own(RESULT, self.result.clone(), From::Result));
        }
        if self.fails.is_some() {
            let kind = Kind::Number(super::call::Width { bytes: 4, is_signed: true });
            all.push(own(ERRNO, kind, From::Errno));
        }
        all.extend(self.told(Way::comes_out));
        all
    }

    fn told(&self, is_wanted: impl Fn(Way) -> bool) -> Vec<Told> {
        let wanted = self.parameters.iter().enumerate().filter(|(_, it)| is_wanted(it.way));
        wanted.flat_map(|(index, it)| values(index, it)).collect()
    }
}

/// The values of a parameter: several, if it points to a structure.
fn values(index: usize, it: &Parameter) -> Vec<Told> {
    let told = |name: String, kind: &Kind, from| Told {
        name,
        kind: kind.clone(),
        from,
        length: it.length.clone(),
        less: 0,
    };
    match &it.kind {
        Kind::Record(record) => {
            let member = |member: &super::call::Member| {
                let name = format!("{}.{}", it.name, member.name);
                let told = told(name, &member.kind, From::Pointee(index, member.reach));
                Told { less: member.less, ..told }
            };
            record.members.iter().map(member).collect()
        }
        kind if it.is_pointed => {
            vec![told(it.name.clone(), kind, From::Pointee(index, Reach::at(0)))]
        }
        kind => vec![told(it.name.clone(), kind, From::Argument(index))],
    }
}

impl Told {
    /// The number that these bits are, of what is one; an address is.
    pub fn number(&self, raw: u64) -> Option<i128> {
        match &self.kind {
            Kind::Number(width) | Kind::Named(_, width) => Some(width.number(raw)),
            Kind::Address | Kind::Text => Some(raw.into()),
            Kind::Nothing | Kind::Float(_) | Kind::Record(_) => None,
        }
    }

    /// The value for people: names for numbers, quotes for texts.
    pub fn shown(&self, raw: u64, text: Option<&[u8]>) -> String {
        match &self.kind {
            Kind::Nothing => String::new(),
            Kind::Number(width) => width.number(raw).to_string(),
            Kind::Named(names, width) => names
                .of(width.cut(raw), width.bits())
                .unwrap_or_else(|| width.number(raw).to_string()),
            Kind::Float(4) => f32::from_bits(raw as u32).to_string(),
            Kind::Float(_) => f64::from_bits(raw).to_string(),
            Kind::Text if text.is_some() => quoted(text.unwrap_or_default()),
            Kind::Address | Kind::Text | Kind::Record(_) if raw == 0 => "NULL".to_owned(),
            Kind::Address | Kind::Text | Kind::Record(_) => format!("{raw:#x}"),
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

//! Attributes: keys with values, as data of this program.

use crate::kind;
use std::ffi::{CStr, CString};

/// `PMIX_RANK_WILDCARD`: all ranks of a namespace.
pub const WILDCARD: u32 = u32::MAX - 1;

/// A rank of a namespace, or all of them ([`WILDCARD`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcName {
    /// The namespace.
    pub nspace: String,
    /// The rank.
    pub rank: u32,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// None: that the key is there says it.
    Present,
    /// A plain number: its type and its bytes.
    Number(u16, u64),
    /// A time with microseconds: seconds, microseconds.
    Timeval(i64, i64),
    /// Text.
    Text(CString),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A rank of a namespace.
    Proc(ProcName),
    /// Attributes.
    Attributes(Vec<Attribute>),
    /// Ranks of namespaces.
    Procs(Vec<ProcName>),
    /// Texts.
    Texts(Vec<CString>),
    /// Numbers of one type.
    Numbers(u16, Vec<u64>),
    /// Processes of nodes.
    NodePids(Vec<NodePid>),
    /// A variable: name, value, and what is between two elements.
    Variable(CString, CString, u8),
    /// Lines of a process table.
    Table(Vec<TableLine>),
    /// Of another type, which is not read.
    Other(u16),
}

/// A process by its node and pid (`pmix_node_pid_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePid {
    /// The name of the node; without it, the number counts.
    pub host: Option<CString>,
    /// The number of the node.
    pub node: u32,
    /// The pid; -1 for all processes of the node.
    pub pid: i32,
}

/// A line of a process table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableLine {
    /// The rank.
    pub name: ProcName,
    /// Its node.
    pub host: CString,
    /// Its program.
    pub executable: CString,
    /// Its process.
    pub pid: i32,
    /// Its exit code.
    pub exit_code: i32,
    /// Its state (`pmix_proc_state_t`).
    pub state: u8,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The key, such as `pmix.job.size`.
    pub key: String,
    /// The value.
    pub value: Datum,
}

impl Datum {
    /// Text; what follows a NUL byte is left out.
    pub fn text(text: &str) -> Self {
        let bytes = text.bytes().take_while(|it| *it != 0).collect::<Vec<_>>();
        Self::Text(CString::new(bytes).unwrap_or_default())
    }

    /// A truth value.
    pub fn flag(flag: bool) -> Self {
        Self::Number(kind::BOOL, flag.into())
    }

    /// A float.
    pub fn float(number: f32) -> Self {
        Self::Number(kind::FLOAT, number.to_bits().into())
    }

    /// Whether it is set: present, or true.
    pub fn is_set(&self) -> bool {
        matches!(self, Self::Present | Self::Number(_, 1..))
    }

    /// As a number that is not negative.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(kind::INT, word) => {
                let number = i32::from_ne_bytes(word.to_ne_bytes()[..4].try_into().ok()?);
                u64::try_from(number).ok()
            }
            Self::Number(kind::FLOAT, _) => None,
            Self::Number(_, word) => Some(*word),
            _ => None,
        }
    }

    /// As text.
    pub fn as_text(&self) -> Option<&CStr> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As text that is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.as_text()?.to_str().ok()
    }
}

impl Attribute {
    /// An attribute.
    pub fn new(key: &str, value: Datum) -> Self {
        Self { key: key.to_owned(), value }
    }
}

/// The attributes of an event for these ranks of a namespace; for all of them, if there is none;
/// for all processes, if there is no namespace.
pub fn event_attributes(nspace: Option<&str>, ranks: &[u32], text: Option<&str>) -> Vec<Attribute> {
    let mut all = vec![Attribute::new("pmix.evnondef", Datum::flag(true))];
    if let Some(nspace) = nspace {
        let ranks = if ranks.is_empty() { &[WILDCARD] } else { ranks };
        let name = |rank: &u32| ProcName { nspace: nspace.to_owned(), rank: *rank };
        let names = ranks.iter().map(name).collect();
        all.push(Attribute::new("pmix.evrange", Datum::Procs(names)));
    }
    all.extend(text.map(|it| Attribute::new("pmix.evtext", Datum::text(it))));
    all
}

/// The value of a key.
pub fn find<'a>(attributes: &'a [Attribute], key: &str) -> Option<&'a Datum> {
    attributes.iter().find(|it| it.key == key).map(|it| &it.value)
}

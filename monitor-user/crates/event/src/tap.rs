//! A watched library function: its name, and entry or return.

/// A tap on a library function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tap {
    /// The function, as the request names it.
    pub name: String,
    /// Entry or return.
    pub edge: Edge,
    /// Whether returns are seen by a replaced return address: cheaper than at the function's own
    /// return instructions, and what unwinds through the function ends the process. Only on the
    /// word of the owner of the process.
    pub by_trampoline: bool,
}

impl Tap {
    /// A tap that puts no process at risk.
    pub fn new(name: impl Into<String>, edge: Edge) -> Self {
        Self { name: name.into(), edge, by_trampoline: false }
    }
}

/// The end of a call at which a tap reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// Entry.
    Start,
    /// Return.
    End,
}

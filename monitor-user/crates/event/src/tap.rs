//! A watched library function: its name, and entry or return.

/// A tap on a library function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tap {
    /// The function, as the request names it.
    pub name: String,
    /// Entry or return.
    pub edge: Edge,
}

/// The end of a call at which a tap reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// Entry.
    Start,
    /// Return.
    End,
}

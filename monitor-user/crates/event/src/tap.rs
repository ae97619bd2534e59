//! A watched library function: its name, and which end of its calls.

/// Which tap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tap {
    /// The function, as it was asked for.
    pub name: String,
    /// Which end of its calls.
    pub edge: Edge,
}

/// Which end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// It begins.
    Start,
    /// It returns.
    End,
}

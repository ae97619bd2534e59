//! How much of everything a line may hold; the parser looks before it allocates.
//!
//! A reply is longer than the request it answers: many nodes answer, with lists of processes.
//! An element as short as `1,` takes 32 bytes of memory, so the line bounds what all of them take.

/// The limits of one kind of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the line.
    pub line: usize,
    /// Basic requests or basic replies in it; an event is one of them.
    pub members: usize,
    /// Lists within lists.
    pub depth: usize,
    /// Elements of a list, of the parameters, or of a node list.
    pub elements: usize,
}

/// Bytes of a name: of a service, of a variable.
pub const NAME: usize = 64;

/// A request.
pub const REQUEST: Limits = Limits { line: 1 << 20, members: 256, depth: 8, elements: 65_536 };

/// A reply: `print` wraps what it was given in one more list.
pub const REPLY: Limits =
    Limits { line: 64 << 20, members: 1 << 20, depth: REQUEST.depth + 1, elements: 1 << 20 };

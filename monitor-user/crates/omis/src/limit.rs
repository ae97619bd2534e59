//! Limits of a line; the parser checks them before it allocates.
//!
//! The limits of a reply are larger: many nodes answer, with lists of processes.
//! An element as short as `1,` takes 32 bytes of memory, so the line length bounds the memory.

/// The limits of one kind of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLimits {
    /// Maximum bytes of the line.
    pub line: usize,
    /// Maximum basic requests or basic replies; an event counts as one.
    pub members: usize,
    /// Maximum nesting depth of lists.
    pub depth: usize,
    /// Maximum elements of a list, of a parameter list, or of a node list.
    pub elements: usize,
}

/// Maximum bytes of the name of a service or a variable.
pub const NAME: usize = 64;

/// Limits of a request.
pub const REQUEST: LineLimits =
    LineLimits { line: 1 << 20, members: 256, depth: 8, elements: 65_536 };

/// Limits of a reply: one level deeper, because `print` wraps its parameters in a list.
pub const REPLY: LineLimits =
    LineLimits { line: 64 << 20, members: 1 << 20, depth: REQUEST.depth + 1, elements: 1 << 20 };

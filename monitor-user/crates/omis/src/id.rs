//! Numbers of nodes and requests, and positions in a line.

use super::Int;

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

/// The number that a client gives a basic request, to recognize its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub Int);

/// A position in a line, in bytes from its beginning.
///
/// All positions are equal, so that requests that differ only in spacing are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytePos(pub usize);

impl PartialEq for BytePos {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for BytePos {}

impl std::hash::Hash for BytePos {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

//! Sets of nodes in the grammar of ClusterShell: `n[001-128/2],m3`, with `!`, `&` and `^`.
//!
//! In: the text of a user, names of nodes. Out: the names of a set, or the text that names a set in
//! the shortest form (`fold`). Which nodes there are is not known here: the caller gives what `@*`
//! stands for, and `resolve_groups` writes the nodes of other groups into a text, as a lookup of
//! the caller has them. Wildcards, as in `n*` and `n?`, match the nodes of `@*`.

mod expand;
mod fold;
mod group;
mod index;

pub use expand::{expand, expand_patterns, has_wildcard};
pub use fold::fold;
pub use group::{GroupLookup, resolve_groups};

use thiserror::Error;

/// The largest number of nodes in one set.
pub const MAX_NODES: usize = 65_536;

/// A text that is no set of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeSetError {
    /// An operator without a name on one side, or no name at all.
    #[error("a name is missing before {0:?}: write nodes as n[1-3],m7")]
    NameMissing(String),
    /// A bracket without its other one, or one inside another.
    #[error("{0:?}: a bracket is not closed, or closes none")]
    Bracket(String),
    /// What is in brackets is no list of ranges.
    #[error("{part:?} is no range: {why}")]
    Range {
        /// The part of the list.
        part: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A parenthesis without its other one, without an operator beside it, or too many in each
    /// other.
    #[error("{0:?}: a parenthesis is not closed, closes none, or an operator beside it is missing")]
    Parenthesis(String),
    /// A group where none are looked up.
    #[error("group {0:?} is not known here: only @* is, which is all members")]
    Group(String),
    /// A group that cannot be looked up.
    #[error("group {group:?}: {why}")]
    Lookup {
        /// The group, as it is written.
        group: String,
        /// Why, and what is near.
        why: String,
    },
    /// A character that no name has.
    #[error("{name:?}: {character:?} is in no name of a node")]
    Character {
        /// The name.
        name: String,
        /// The character.
        character: char,
    },
    /// Too many nodes.
    #[error("{0:?} has more than {MAX_NODES} nodes")]
    TooMany(String),
}

#[cfg(test)]
mod tests;

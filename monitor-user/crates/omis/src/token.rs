//! Typed names of objects, as in OMIS 2: `n_1` a node, `p_1_7` a process, `t_1_7` a thread.
//!
//! An extension: OMIS 1.0 names every object by a bare integer, which is the serial number here.
//! A token issued by a node has the number of the node; `p_7` leaves the node open.
//! A token may name no object, or one that has moved: its node checks that, not this module.

use super::Node;
use std::fmt;

/// The type of object that a token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenKind {
    /// A node.
    Node,
    /// A process.
    Process,
    /// A thread.
    Thread,
}

/// Every kind with its letter and its name.
pub const KINDS: &[(TokenKind, char, &str)] = &[
    (TokenKind::Node, 'n', "node"),
    (TokenKind::Process, 'p', "process"),
    (TokenKind::Thread, 't', "thread"),
];

/// The typed name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The type of the object.
    pub kind: TokenKind,
    /// The node that issued the token; `None` in the token of a node.
    pub node: Option<Node>,
    /// The number of the object on that node; never reused.
    pub serial: u64,
}

impl Token {
    /// Builds the token of a node.
    pub fn for_node(node: Node) -> Self {
        Self { kind: TokenKind::Node, node: None, serial: u64::from(node.0) }
    }

    /// Parses a token. Each object has one spelling, so leading zeros are refused.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split('_');
        let letter = parts.next()?;
        let (kind, ..) = KINDS.iter().find(|(_, own, _)| letter.chars().eq([*own]))?;
        let (node, serial) = match (parts.next(), parts.next(), parts.next()) {
            (Some(serial), None, None) => (None, decimal(serial)?),
            (Some(node), Some(serial), None) => {
                (Some(Node(u32::try_from(decimal(node)?).ok()?)), decimal(serial)?)
            }
            _ => return None,
        };
        let is_node = *kind == TokenKind::Node;
        let fits = !is_node || (node.is_none() && u32::try_from(serial).is_ok());
        fits.then_some(Self { kind: *kind, node, serial })
    }

    /// Returns the node that the token names. The object may have moved since.
    pub fn named_node(&self) -> Option<Node> {
        match self.kind {
            TokenKind::Node => u32::try_from(self.serial).ok().map(Node),
            TokenKind::Process | TokenKind::Thread => self.node,
        }
    }
}

fn decimal(text: &str) -> Option<u64> {
    let has_one_spelling =
        text == "0" || text.starts_with(|first: char| ('1'..='9').contains(&first));
    if has_one_spelling { text.parse().ok() } else { None }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = KINDS.iter().find(|(kind, ..)| *kind == self.kind).map_or('?', |row| row.1);
        match self.node {
            Some(Node(node)) => write!(f, "{letter}_{node}_{}", self.serial),
            None => write!(f, "{letter}_{}", self.serial),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_spelling() {
        for text in ["n_0", "p_7", "p_1_7", "t_4294967295_18446744073709551615"] {
            assert_eq!(
                Token::from_text(text).map(|token| token.to_string()).as_deref(),
                Some(text)
            );
        }
        let wrong =
            ["n", "n_", "n_1_2", "p_01", "p_+1", "p_1_2_3", "x_1", "pp_1", "n_4294967296", "_1"];
        for text in wrong {
            assert_eq!(Token::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_token_names_the_node_that_issued_it() {
        let node = |text| Token::from_text(text).unwrap().named_node();
        assert_eq!(node("n_3"), Some(Node(3)));
        assert_eq!(node("p_2_9"), Some(Node(2)));
        assert_eq!(node("p_9"), None);
    }
}

//! Typed names of objects, as in OMIS 2: `n_1` a node, `p_1_7` a process, `t_1_7` a thread.
//!
//! An extension: OMIS 1.0 names every object by a bare integer, which is the serial number here.
//! A token that was given out by a node has its number; `p_7` leaves the node open.
//! A token is a claim: whether there is such an object, and where by now, its node knows.

use super::request::Node;
use std::fmt;

/// What a token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenKind {
    /// A node.
    Node,
    /// A process.
    Process,
    /// A thread.
    Thread,
}

/// Every kind with its letter and its word.
pub const KINDS: &[(TokenKind, char, &str)] = &[
    (TokenKind::Node, 'n', "node"),
    (TokenKind::Process, 'p', "process"),
    (TokenKind::Thread, 't', "thread"),
];

/// The typed name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// What it names.
    pub kind: TokenKind,
    /// The node that gave it out; a node's own token has none.
    pub node: Option<Node>,
    /// Its number there, never given out twice.
    pub serial: u64,
}

impl Token {
    /// The token of a node.
    pub fn of_node(node: Node) -> Self {
        Self { kind: TokenKind::Node, node: None, serial: u64::from(node.0) }
    }

    /// Reads a token. One object has one spelling: no zeros in front.
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

    /// The node that the token itself names, which is not where the object is by now.
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
    fn a_token_names_the_node_that_gave_it() {
        let node = |text| Token::from_text(text).unwrap().named_node();
        assert_eq!(node("n_3"), Some(Node(3)));
        assert_eq!(node("p_2_9"), Some(Node(2)));
        assert_eq!(node("p_9"), None);
    }
}

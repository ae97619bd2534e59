//! Names and addresses of other nodes: `NAME=ADDRESS`.
//!
//! In: texts of the configuration or of `nodes/ctl`. Out: addresses, or what is wrong with them.

use monitor_remote::Address;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// Most nodes.
pub const MAX_NODES: usize = 1024;
/// Longest name, in bytes.
const MAX_NAME: usize = 64;
/// Names that files of `nodes/` have.
const TAKEN: [&str; 5] = ["changes", "ctl", "notify", "state", "state.sx"];

/// A node with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// Its name, which its directory has.
    pub name: String,
    /// Where it serves its files.
    pub address: Address,
}

impl NodeAddress {
    /// Parses `NAME=ADDRESS`, with blanks around both.
    ///
    /// # Errors
    ///
    /// Says what was expected.
    pub fn parse(written: &str) -> Result<Self, String> {
        let (name, address) = written
            .split_once('=')
            .ok_or_else(|| format!("{written:?}: expected NAME=ADDRESS, such as n1=/run/n1.9p"))?;
        let (name, address) = (name.trim(), address.trim().parse()?);
        check_node_name(name)?;
        Ok(Self { name: name.to_owned(), address })
    }

    /// The address, as it is written.
    pub fn written_address(&self) -> String {
        self.address.to_string()
    }
}

impl Display for NodeAddress {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.name, self.address)
    }
}

/// Checks the name of a node.
///
/// # Errors
///
/// Says what was expected.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_of_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_');
    let is_usual = name.starts_with(|it: char| it.is_ascii_alphanumeric());
    if !is_usual || name.len() > MAX_NAME || !name.chars().all(is_of_name) {
        return Err(format!(
            "{name:?} is no name of a node: expected letters, digits, '.', '-' and '_', at most \
             {MAX_NAME}, a letter or digit first"
        ));
    }
    Ok(())
}

/// Checks a name for a directory in `nodes/`.
///
/// # Errors
///
/// Says what was expected.
pub fn check_node_name(name: &str) -> Result<(), String> {
    check_name(name)?;
    if TAKEN.contains(&name) {
        return Err(format!("{name:?} is the name of a file in nodes/"));
    }
    Ok(())
}

/// Parses a list, in which each name is there once.
///
/// # Errors
///
/// Says what was expected.
pub fn parse_nodes<'a>(written: impl Iterator<Item = &'a str>) -> Result<Vec<NodeAddress>, String> {
    let nodes: Vec<NodeAddress> = written.map(NodeAddress::parse).collect::<Result<_, _>>()?;
    check_names(nodes.iter().map(|it| it.name.as_str()))?;
    Ok(nodes)
}

/// Checks that there are not too many nodes, and each name is there once.
///
/// # Errors
///
/// Says which name is there twice.
pub fn check_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), String> {
    if names.len() > MAX_NODES {
        return Err(format!("{} nodes; the limit is {MAX_NODES}", names.len()));
    }
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(format!("{name:?} is there twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_a_name_and_an_address() {
        let it = NodeAddress::parse(" n1 = /run/n1.9p ").expect("a node");
        assert_eq!((it.name.as_str(), it.written_address().as_str()), ("n1", "/run/n1.9p"));
        for odd in ["n1", "n1=", "=/run/a", "a/b=/run/a", ".=/a", "n 1=/a", "ctl=/a", "-a=/a"] {
            assert!(NodeAddress::parse(odd).is_err(), "{odd}");
        }
        assert!(NodeAddress::parse(&format!("{}=/a", "x".repeat(65))).is_err());
    }

    #[test]
    fn a_name_is_there_once() {
        assert_eq!(parse_nodes(["a=/a", "b=/b"].into_iter()).expect("two").len(), 2);
        let twice = parse_nodes(["a=/a", "a=/b"].into_iter());
        assert_eq!(twice, Err("\"a\" is there twice".to_owned()));
    }
}

//! From the text of a set of nodes to its names.
//!
//! ```text
//!  set      = operand { operator operand }     from left to right
//!  operator = ","  union | "!" without | "&" both | "^" one of the two
//!  operand  = pattern | "(" set ")" | "()"
//!  pattern  = { letters, digits, "-", "_", "." | "[" ranges "]" | "*" | "?" } | "@*"
//! ```
//!
//! A pattern with `*`, any characters, or `?`, any character, is those of all nodes that match one
//! of its texts; no node is an empty set.
//!
//! ClusterShell has no parentheses: `resolve_groups` writes them around the nodes of a group.

use super::index::indices;
use super::{MAX_NODES, NodeSetError};
use monitor_model::name::matches_mask;
use std::collections::BTreeSet;
use std::ops::Bound;

/// The group of all nodes.
pub const ALL: &str = "@*";

/// Parentheses within each other at most.
const MAX_DEPTH: usize = 16;

/// Bytes of masks that are compared with names at most.
const MAX_COMPARED: usize = 16 << 20;

/// What ends a pattern.
pub const ENDS: &[char] = &[',', '!', '&', '^', '(', ')'];

/// The names of a set of nodes; `all` are those of the group `@*`, and those that wildcards match.
///
/// # Errors
/// The text is no set of nodes, or has too many.
pub fn expand(text: &str, all: &BTreeSet<String>) -> Result<BTreeSet<String>, NodeSetError> {
    let (names, rest) = set(text, all, MAX_DEPTH)?;
    if rest.is_empty() { Ok(names) } else { Err(NodeSetError::Parenthesis(text.to_owned())) }
}

/// The names of the set that a text begins with, and what follows it: nothing, or `)`.
fn set<'t>(
    text: &'t str,
    all: &BTreeSet<String>,
    depth: usize,
) -> Result<(BTreeSet<String>, &'t str), NodeSetError> {
    let mut names = BTreeSet::new();
    let (mut rest, mut operator) = (text, ',');
    loop {
        let (operand, after) = operand(rest, all, depth)?;
        names = match operator {
            '!' => &names - &operand,
            '&' => &names & &operand,
            '^' => &names ^ &operand,
            _ => &names | &operand,
        };
        if names.len() > MAX_NODES {
            return Err(NodeSetError::TooMany(text.to_owned()));
        }
        match after.chars().next() {
            None | Some(')') => return Ok((names, after)),
            Some('(') => return Err(NodeSetError::Parenthesis(text.to_owned())),
            Some(found) => (operator, rest) = (found, &after[found.len_utf8()..]),
        }
    }
}

/// The names of the operand that a text begins with, and what follows it.
fn operand<'t>(
    text: &'t str,
    all: &BTreeSet<String>,
    depth: usize,
) -> Result<(BTreeSet<String>, &'t str), NodeSetError> {
    let unclosed = || NodeSetError::Parenthesis(text.to_owned());
    if let Some(inside) = text.trim_start().strip_prefix('(') {
        let depth = depth.checked_sub(1).ok_or_else(unclosed)?;
        let (names, after) = match inside.trim_start().starts_with(')') {
            true => (BTreeSet::new(), inside.trim_start()),
            false => set(inside, all, depth)?,
        };
        let after = after.strip_prefix(')').ok_or_else(unclosed)?.trim_start();
        let is_end = after.is_empty() || after.starts_with(ENDS);
        return if is_end { Ok((names, after)) } else { Err(unclosed()) };
    }
    let (pattern, after) = text.split_at(end_of_pattern(text, ENDS)?);
    if pattern.trim().is_empty() {
        return Err(NodeSetError::NameMissing(after.to_owned()));
    }
    let names = match pattern.trim() {
        ALL => all.clone(),
        group if group.starts_with('@') => return Err(NodeSetError::Group(group.to_owned())),
        pattern if has_wildcard(pattern) => matched(&of_pattern(pattern, check_mask)?, all)
            .ok_or_else(|| NodeSetError::TooMany(pattern.to_owned()))?,
        pattern => of_pattern(pattern, check_literal)?.into_iter().collect(),
    };
    Ok((names, after))
}

/// The texts of a list of patterns, such as `/run/n[1-3].sock,/run/m`, in the order in which it has
/// them. What is outside of brackets may be any text without a comma.
///
/// # Errors
/// A bracket is not closed, has no list of ranges, or there are too many texts.
pub fn expand_patterns(text: &str) -> Result<Vec<String>, NodeSetError> {
    let (mut all, mut rest) = (Vec::new(), text);
    loop {
        let (pattern, after) = rest.split_at(end_of_pattern(rest, &[','])?);
        if pattern.is_empty() {
            return Err(NodeSetError::NameMissing(after.to_owned()));
        }
        all.extend(of_pattern(pattern, |_, _| Ok(()))?);
        if all.len() > MAX_NODES {
            return Err(NodeSetError::TooMany(text.to_owned()));
        }
        let Some(next) = after.strip_prefix(',') else { return Ok(all) };
        rest = next;
    }
}

/// Where a pattern ends: at an operator outside of brackets.
pub fn end_of_pattern(text: &str, operators: &[char]) -> Result<usize, NodeSetError> {
    let bracket = || NodeSetError::Bracket(text.to_owned());
    let mut is_inside = false;
    for (place, character) in text.char_indices() {
        match (character, is_inside) {
            ('[', false) => is_inside = true,
            (']', true) => is_inside = false,
            ('[', true) | (']', false) => return Err(bracket()),
            (other, false) if operators.contains(&other) => return Ok(place),
            _ => {}
        }
    }
    if is_inside { Err(bracket()) } else { Ok(text.len()) }
}

/// The names of one pattern, whose brackets are closed, in its order.
///
/// # Errors
/// A list in brackets is no list of ranges, or `check` refuses the pattern for a text in it.
pub fn of_pattern(
    pattern: &str,
    check: impl Fn(&str, &str) -> Result<(), NodeSetError>,
) -> Result<Vec<String>, NodeSetError> {
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while !rest.is_empty() {
        let (literal, list) = match rest.split_once('[') {
            Some((literal, after)) => {
                let (list, after) = after.split_once(']').unwrap_or((after, ""));
                rest = after;
                (literal, Some(list))
            }
            None => (std::mem::take(&mut rest), None),
        };
        check(pattern, literal)?;
        names.iter_mut().for_each(|name| name.push_str(literal));
        let Some(list) = list else { continue };
        let found = indices(list)?;
        if names.len().saturating_mul(found.len()) > MAX_NODES {
            return Err(NodeSetError::TooMany(pattern.to_owned()));
        }
        let with_each = |name: &String| -> Vec<String> {
            found.iter().map(|index| format!("{name}{}", index.0)).collect()
        };
        names = names.iter().flat_map(with_each).collect();
    }
    Ok(names)
}

/// Whether a text has a wildcard, which stands for names that are not in it.
pub fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// The names that match one of these masks; nothing if they are too many to compare.
fn matched(masks: &[String], all: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let (mut names, mut n_left) = (BTreeSet::new(), MAX_COMPARED);
    for mask in masks {
        // Names that begin like the mask follow each other.
        let beginning = mask.split(['*', '?']).next().unwrap_or_default();
        let alike = all.range::<str, _>((Bound::Included(beginning), Bound::Unbounded));
        for name in alike.take_while(|name| name.starts_with(beginning)) {
            n_left = usize::checked_sub(n_left, mask.len())?;
            if matches_mask(mask.as_bytes(), name.as_bytes()) {
                names.insert(name.clone());
            }
        }
    }
    Some(names)
}

fn check_mask(name: &str, literal: &str) -> Result<(), NodeSetError> {
    literal.split(['*', '?']).try_for_each(|literal| check_literal(name, literal))
}

pub fn check_literal(name: &str, literal: &str) -> Result<(), NodeSetError> {
    let is_of_name = |it: &char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.' | ':');
    match literal.chars().find(|character| !is_of_name(character)) {
        Some(character) => Err(NodeSetError::Character { name: name.to_owned(), character }),
        None => Ok(()),
    }
}

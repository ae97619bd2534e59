//! From names of nodes to the text of their set: `n1`, `n2`, `n3` are `n[1-3]`.
//!
//! A number in a name is a dimension. Names with the same letters are folded along all dimensions,
//! by the rules of ClusterShell 1.9: the set of each part differs from that of another in one
//! dimension at most.

use super::index::{Index, ranges};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A part of a set: all names with an index of each dimension.
type Part = Vec<BTreeSet<Index>>;

/// The text of a set of nodes; `expand` returns the same names.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut patterns: BTreeMap<String, BTreeSet<Vec<Index>>> = BTreeMap::new();
    for name in names {
        let (pattern, indices) = split(name);
        patterns.entry(pattern).or_default().insert(indices);
    }
    let mut texts = Vec::new();
    for (pattern, vectors) in &patterns {
        texts.extend(parts(vectors).iter().map(|part| part_text(pattern, part)));
    }
    texts.join(",")
}

/// What stands for an index in a pattern: as in ClusterShell, by whose text patterns are ordered.
const MARK: &str = "%s";

/// The pattern of a name, and its indices.
fn split(name: &str) -> (String, Vec<Index>) {
    let (mut pattern, mut indices, mut rest) = (String::new(), Vec::new(), name);
    while let Some(start) = rest.find(|it: char| it.is_ascii_digit()) {
        let (literal, from) = rest.split_at(start);
        let end = from.find(|it: char| !it.is_ascii_digit()).unwrap_or(from.len());
        pattern += literal;
        pattern += MARK;
        indices.push(Index(from[..end].to_owned()));
        rest = &from[end..];
    }
    (pattern + rest, indices)
}

fn part_text(pattern: &str, part: &Part) -> String {
    let mut sets = part.iter();
    let mut text = String::new();
    for (place, literal) in pattern.split(MARK).enumerate() {
        if place > 0 {
            let set = sets.next().map(|set| (set.len(), ranges(set)));
            match set {
                Some((1, index)) => text += &index,
                Some((_, list)) => text += &format!("[{list}]"),
                None => {}
            }
        }
        text += literal;
    }
    text
}

/// The vectors as few parts.
fn parts(vectors: &BTreeSet<Vec<Index>>) -> Vec<Part> {
    let single = |vector: &Vec<Index>| -> Part {
        vector.iter().map(|index| BTreeSet::from([index.clone()])).collect()
    };
    let mut parts: Vec<Part> = vectors.iter().map(single).collect();
    let n_varying = varying_dimensions(vectors);
    if n_varying <= 1 {
        return parts.into_iter().reduce(union).into_iter().collect();
    }
    // First each part with those that follow it at once, then each with all others.
    let mut compares_all = false;
    loop {
        parts.sort_by_cached_key(order);
        let is_changed = merge_pass(&mut parts, compares_all);
        if !is_changed {
            if compares_all {
                return parts;
            }
            compares_all = true;
        }
    }
}

fn varying_dimensions(vectors: &BTreeSet<Vec<Index>>) -> usize {
    let first = vectors.first().map(Vec::as_slice).unwrap_or_default();
    let varies = |place: &usize| vectors.iter().any(|vector| vector[*place] != first[*place]);
    (0..first.len()).filter(varies).count()
}

/// Large parts first; then those with large dimensions, by the first and the last index.
fn order(part: &Part) -> (Reverse<usize>, Vec<DimensionOrder>) {
    let n_names = part.iter().map(BTreeSet::len).product();
    (Reverse(n_names), part.iter().map(DimensionOrder::new).collect())
}

/// How one dimension of a part is ordered; indices as text, as in ClusterShell.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DimensionOrder {
    n_indices: Reverse<usize>,
    first: String,
    last: String,
}

impl DimensionOrder {
    fn new(set: &BTreeSet<Index>) -> Self {
        let text = |index: Option<&Index>| index.map(|it| it.0.clone()).unwrap_or_default();
        let (first, last) = (text(set.first()), text(set.last()));
        Self { n_indices: Reverse(set.len()), first, last }
    }
}

/// Merges parts that differ in one dimension; returns whether there were any.
fn merge_pass(parts: &mut Vec<Part>, compares_all: bool) -> bool {
    let mut is_changed = false;
    let mut first = 0;
    while first + 1 < parts.len() {
        let mut second = first + 1;
        while second < parts.len() {
            if let Some(merged) = merged(&parts[first], &parts[second]) {
                is_changed = true;
                parts[first] = merged;
                drop(parts.remove(second));
            } else if compares_all {
                second += 1;
            } else {
                break;
            }
        }
        first += 1;
    }
    is_changed
}

/// Both parts as one, if they differ in one dimension at most.
fn merged(one: &Part, other: &Part) -> Option<Part> {
    let n_different = one.iter().zip(other).filter(|(one, other)| one != other).count();
    (n_different <= 1).then(|| union(one.clone(), other.clone()))
}

fn union(one: Part, other: Part) -> Part {
    one.into_iter().zip(other).map(|(one, other)| &one | &other).collect()
}

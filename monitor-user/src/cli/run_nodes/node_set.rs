//! Sets of nodes in the simple form of ClusterShell: `n[1-3,007],m`.
//!
//! In: the text of a user, names. Out: the names of a set, and names in the shortest form. Knows no
//! operators and no groups.

use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Most nodes of one set.
const MOST_NODES: usize = 4096;

/// The names of a set, in its order, each once.
///
/// # Errors
///
/// When the text is no set; the text says why.
pub fn expand(text: &str) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    for part in parts(text)? {
        let names = match part.split_once('[') {
            None => vec![part.to_owned()],
            Some((before, rest)) => bracket(part, before, rest)?,
        };
        all.extend(names.into_iter().filter(|it| !it.is_empty()));
        if all.len() > MOST_NODES {
            return Err(format!("{text:?} has more than {MOST_NODES} nodes"));
        }
    }
    let mut seen = HashSet::new();
    all.retain(|it| seen.insert(it.clone()));
    if all.is_empty() { Err(format!("{text:?} names no node")) } else { Ok(all) }
}

/// The parts between commas outside of brackets.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match (letter, is_inside) {
            ('[', false) | (']', true) => is_inside = !is_inside,
            ('[', true) | (']', false) => return Err(format!("{text:?}: a bracket is misplaced")),
            (',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err(format!("{text:?}: a bracket is not closed"));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// The names of a part with a list of ranges in brackets.
fn bracket(part: &str, before: &str, rest: &str) -> Result<Vec<String>, String> {
    let (list, after) = rest.split_once(']').unwrap_or((rest, ""));
    if after.contains('[') {
        return Err(format!("{part:?} has two brackets; write the names apart"));
    }
    let mut names = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |it: &str| {
            let is_number = !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
            is_number.then(|| it.parse::<usize>().ok()).flatten()
        };
        let bounds = number(first).zip(number(last)).filter(|(from, to)| from <= to);
        let Some((from, to)) = bounds.filter(|(from, to)| to - from < MOST_NODES) else {
            return Err(format!("{range:?} in {part:?} is no range: expected 1-3 or 7"));
        };
        let width = first.len();
        names.extend((from..=to).map(|it| format!("{before}{it:0width$}{after}")));
    }
    Ok(names)
}

/// A name whose last number is cut out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered<'n> {
    before: &'n str,
    /// The digits; empty if the name has no number.
    digits: &'n str,
    after: &'n str,
}

impl<'n> Numbered<'n> {
    fn from_name(name: &'n str) -> Self {
        let is_digit = |it: char| it.is_ascii_digit();
        let end = name.rfind(is_digit).map_or(0, |it| it + 1);
        let start = name[..end].trim_end_matches(is_digit).len();
        match name[start..end].parse::<usize>() {
            Ok(_) => {
                Self { before: &name[..start], digits: &name[start..end], after: &name[end..] }
            }
            Err(_) => Self { before: name, digits: "", after: "" },
        }
    }

    /// Whether its number has zeros in front.
    fn is_padded(&self) -> bool {
        self.digits.len() > 1 && self.digits.starts_with('0')
    }
}

/// Names as a set: those that differ in their last number share a bracket.
pub fn fold<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<Numbered<'n>> = names.into_iter().map(Numbered::from_name).collect();
    let with_width = |it: &Numbered<'n>| (it.before, it.digits.len(), it.after);
    let padded: BTreeSet<_> = names.iter().filter(|it| it.is_padded()).map(with_width).collect();
    // By what is around the number, and its width if one of that width is padded.
    let mut families: BTreeMap<(&str, usize, &str), BTreeSet<usize>> = BTreeMap::new();
    let mut order = Vec::new();
    for name in &names {
        let width = if padded.contains(&with_width(name)) { name.digits.len() } else { 0 };
        let family = (name.before, width, name.after);
        let numbers = families.entry(family).or_insert_with(|| {
            order.push(family);
            BTreeSet::new()
        });
        numbers.extend(name.digits.parse::<usize>().ok());
    }
    let folded = order.into_iter().map(|family| {
        let numbers: Vec<usize> = families.remove(&family).into_iter().flatten().collect();
        family_text(family, &numbers)
    });
    folded.collect::<Vec<_>>().join(",")
}

fn family_text((before, width, after): (&str, usize, &str), numbers: &[usize]) -> String {
    match numbers {
        [] => before.to_owned(),
        [one] => format!("{before}{one:0width$}{after}"),
        _ => {
            let runs = numbers.chunk_by(|one, next| one + 1 == *next);
            let run = |run: &[usize]| match run {
                [one] => format!("{one:0width$}"),
                [first, .., last] => format!("{first:0width$}-{last:0width$}"),
                [] => String::new(),
            };
            format!("{before}[{}]{after}", runs.map(run).collect::<Vec<_>>().join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, names: &[&str]) {
        assert_eq!(
            expand(text).as_deref(),
            Ok(&names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..])
        );
    }

    #[test]
    fn a_set_is_names_with_ranges() {
        check("n1", &["n1"]);
        check("n[1-3],m,n2", &["n1", "n2", "n3", "m"]);
        check("n[08-10,3]-ib", &["n08-ib", "n09-ib", "n10-ib", "n3-ib"]);
        for text in
            ["", ",", "n[", "n]", "n[1", "n[[1]]", "n[]", "n[3-1]", "n[a]", "n[1][2]", "n[0-9999]"]
        {
            assert!(expand(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_that_differ_in_a_number_are_folded() {
        for text in ["n[1-3]", "n[1-3,7],m", "a", "n[08-10]", "n1-ib", "r[1-2]-ib"] {
            let names = expand(text).expect("a set");
            assert_eq!(fold(names.iter().map(String::as_str)), text);
        }
        assert_eq!(fold(["n2", "n1", "n2"]), "n[1-2]");
        assert_eq!(fold([]), "");
    }
}

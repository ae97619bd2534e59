//! A number in the name of a node, with its zeros: `07` is another index than `7`.
//!
//! In: digits, or a list of ranges in brackets. Out: indices in the order of ClusterShell, which is
//! by length, then by text; and the list of ranges that a set of them makes.

use super::{MAX_NODES, NodeSetError};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The most digits of an index.
const MAX_DIGITS: usize = 18;

/// An index: digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Index(pub String);

impl Ord for Index {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl PartialOrd for Index {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Index {
    fn is_padded(&self) -> bool {
        self.0.len() > 1 && self.0.starts_with('0')
    }

    /// Its number; `None` for more digits than 64 bits hold.
    fn number(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Whether the range from `first` that ends before this index continues with it.
    fn continues(&self, first: &Self, last: &Self) -> bool {
        let is_next = match (last.number(), self.number()) {
            (Some(last), Some(own)) => own.checked_sub(1) == Some(last),
            _ => false,
        };
        let has_form = match first.is_padded() {
            true => self.0.len() == first.0.len(),
            false => !self.is_padded(),
        };
        is_next && has_form
    }
}

/// The indices of a list such as `001-128/2,7`, as it is in brackets.
///
/// # Errors
/// A part is no range, or there are too many indices.
pub fn indices(list: &str) -> Result<Vec<Index>, NodeSetError> {
    let mut all = Vec::new();
    for part in list.split(',').map(str::trim) {
        range(part, &mut all)?;
        if all.len() > MAX_NODES {
            return Err(NodeSetError::TooMany(list.to_owned()));
        }
    }
    Ok(all)
}

fn range(part: &str, out: &mut Vec<Index>) -> Result<(), NodeSetError> {
    let wrong = |why| NodeSetError::Range { part: part.to_owned(), why };
    let digits = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        match is_number && text.len() <= MAX_DIGITS {
            true => Ok(Index(text.to_owned())),
            false => Err(wrong("expected a number, or two with a hyphen between them")),
        }
    };
    let (bounds, step) = match part.split_once('/') {
        Some((bounds, step)) => (bounds, Some(digits(step.trim())?)),
        None => (part, None),
    };
    let Some((first, last)) = bounds.split_once('-') else {
        if step.is_some() {
            return Err(wrong("a step follows a range, such as 1-9/2"));
        }
        out.push(digits(bounds)?);
        return Ok(());
    };
    let (first, last) = (digits(first.trim())?, digits(last.trim())?);
    let is_padded = first.is_padded() || last.is_padded();
    if is_padded && first.0.len() != last.0.len() {
        return Err(wrong("numbers with leading zeros need the same number of digits"));
    }
    let width = if is_padded { first.0.len() } else { 0 };
    let number = |index: &Index| index.number().unwrap_or(u64::MAX);
    let step = step.as_ref().map_or(1, number);
    let (from, until) = (number(&first), number(&last));
    let step = usize::try_from(step).ok().filter(|step| *step > 0);
    let step = step.ok_or_else(|| wrong("a step is at least 1"))?;
    if from > until {
        return Err(wrong("the first number is larger than the last"));
    }
    // One more than permitted is enough to notice it.
    let numbers = (from..=until).step_by(step).take(MAX_NODES + 1);
    out.extend(numbers.map(|number| Index(format!("{number:0width$}"))));
    Ok(())
}

/// The list of ranges of a set of indices, without brackets.
pub fn ranges(set: &BTreeSet<Index>) -> String {
    let mut text = String::new();
    let mut all = set.iter().peekable();
    while let Some(first) = all.next() {
        let mut last = first;
        while let Some(next) = all.next_if(|next| next.continues(first, last)) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        text += comma;
        text += &first.0;
        if last != first {
            text.push('-');
            text += &last.0;
        }
    }
    text
}

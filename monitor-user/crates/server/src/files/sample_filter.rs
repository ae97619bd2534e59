//! What a client has written to `mon/push`: which samples it wants, what of them, and how often.
//!
//! In: `(filter (cat cpu net) (> node.load1 2) (every 500))`, each part at most once but for
//! conditions. Out: whether a sample passes, and which categories are written.

use super::sexpr::{SexprToken, tokens};
use monitor_model::field::{Field, Role};
use monitor_ninep::{Errno, FileError};
use serde_json::{Map, Value};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Most bytes of a filter.
pub const MAX_FILTER: usize = 4 << 10;
/// Most conditions of a filter.
const MAX_CONDITIONS: usize = 16;
/// The period without a filter.
pub const DEFAULT_PERIOD: Duration = Duration::from_secs(1);
/// The shortest period, in milliseconds, and the longest.
const PERIOD_MS: std::ops::RangeInclusive<u64> = 10..=3_600_000;

/// A category, with what its rows can have.
pub type CategoryFields = (&'static str, &'static [Field]);

/// A filter.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleFilter {
    /// The categories; all, if there are none.
    categories: Vec<String>,
    conditions: Vec<Condition>,
    /// The time between two samples.
    pub period: Duration,
}

impl Default for SampleFilter {
    fn default() -> Self {
        Self { categories: Vec::new(), conditions: Vec::new(), period: DEFAULT_PERIOD }
    }
}

/// A comparison of a number with a bound: it holds if it does for any row of the category.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The category.
    pub category: String,
    field: String,
    comparison: Comparison,
    bound: f64,
}

impl Display for Condition {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { comparison, bound, .. } = self;
        write!(out, "{} {} {bound}", self.number(), comparison.word())
    }
}

/// A row for which a condition holds.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldRow {
    /// Its name; empty for the node itself.
    pub name: String,
    /// The number.
    pub value: f64,
}

impl HeldRow {
    /// The first of these rows for which a condition holds; its name is in the field `label`.
    pub fn find<'s>(
        condition: &Condition,
        rows: impl Iterator<Item = &'s Map<String, Value>>,
        label: Option<&str>,
    ) -> Option<Self> {
        let (row, value) = condition.first(rows)?;
        let name = match label.and_then(|it| row.get(it)) {
            Some(Value::String(name)) => name.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        Some(Self { name, value })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
}

/// The comparisons with their words.
const COMPARISONS: [(Comparison, &str); 6] = [
    (Comparison::Greater, ">"),
    (Comparison::GreaterOrEqual, ">="),
    (Comparison::Less, "<"),
    (Comparison::LessOrEqual, "<="),
    (Comparison::Equal, "="),
    (Comparison::NotEqual, "!="),
];

impl Comparison {
    fn from_word(word: &str) -> Option<Self> {
        COMPARISONS.iter().find(|it| it.1 == word).map(|it| it.0)
    }

    fn word(self) -> &'static str {
        COMPARISONS.iter().find(|it| it.0 == self).map_or("", |it| it.1)
    }

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Equal => value == bound,
            Self::NotEqual => value != bound,
        }
    }
}

impl SampleFilter {
    /// All samples of this period, with these categories; all, if there are none.
    pub fn new(categories: &[&str], period: Duration) -> Self {
        let categories = categories.iter().map(|it| (*it).to_owned()).collect();
        Self { categories, period, ..Self::default() }
    }

    /// The same with what a client has written, for samples with these categories.
    ///
    /// # Errors
    ///
    /// When it is no filter, or names what samples do not have.
    pub fn with(self, written: &[u8], known: &[CategoryFields]) -> Result<Self, FileError> {
        let invalid = |why: String| FileError::new(Errno::Invalid, format!("filter: {why}"));
        if written.len() > MAX_FILTER {
            let why = format!("filter: more than {MAX_FILTER} bytes");
            return Err(FileError::new(Errno::TooLarge, why));
        }
        let text = std::str::from_utf8(written).map_err(|_| invalid("no UTF-8".to_owned()))?;
        let parts = parts(tokens(text).map_err(invalid)?).map_err(invalid)?;
        let mut filter = self;
        for part in &parts {
            filter.add(part, known).map_err(invalid)?;
        }
        Ok(filter)
    }

    fn add(&mut self, part: &[String], known: &[CategoryFields]) -> Result<(), String> {
        let words: Vec<&str> = part.iter().map(String::as_str).collect();
        match *words {
            ["cat", ref names @ ..] if !names.is_empty() => {
                if let Some(name) = names.iter().find(|it| !known.iter().any(|had| had.0 == **it)) {
                    return Err(format!("{name:?} is no category of mon/desc"));
                }
                self.categories = names.iter().map(|it| (*it).to_owned()).collect();
            }
            ["every", milliseconds] => {
                self.period = period(milliseconds).map_err(|why| format!("every {why}"))?;
            }
            [comparison, number, bound] => {
                if self.conditions.len() >= MAX_CONDITIONS {
                    return Err(format!("more than {MAX_CONDITIONS} conditions"));
                }
                self.conditions.push(Condition::parse((comparison, number, bound), known)?);
            }
            _ => return Err(format!("({}) is no part of a filter", words.join(" "))),
        }
        Ok(())
    }

    /// Whether a category is written.
    pub fn wants(&self, category: &str) -> bool {
        self.categories.is_empty() || self.categories.iter().any(|it| it == category)
    }

    /// Whether a sample with these rows passes.
    pub fn passes<'s, R>(&self, rows: impl Fn(&str) -> R) -> bool
    where
        R: Iterator<Item = &'s Map<String, Value>>,
    {
        self.conditions.iter().all(|it| it.first(rows(&it.category)).is_some())
    }
}

/// A period in milliseconds, as a word.
///
/// # Errors
///
/// When it is none that samples can have.
pub fn period(milliseconds: &str) -> Result<Duration, String> {
    let period = milliseconds.parse().ok().filter(|it| PERIOD_MS.contains(it));
    let (least, most) = (*PERIOD_MS.start(), *PERIOD_MS.end());
    let why = || format!("{milliseconds}: from {least} to {most} milliseconds");
    period.map(Duration::from_millis).ok_or_else(why)
}

impl Condition {
    /// The number that it is about: `CATEGORY.NUMBER`.
    pub fn number(&self) -> String {
        format!("{}.{}", self.category, self.field)
    }

    /// The first of these rows for which it holds, with the value.
    pub fn first<'s>(
        &self,
        mut rows: impl Iterator<Item = &'s Map<String, Value>>,
    ) -> Option<(&'s Map<String, Value>, f64)> {
        rows.find_map(|row| {
            let value = row.get(&self.field).and_then(Value::as_f64)?;
            self.comparison.holds(value, self.bound).then_some((row, value))
        })
    }

    /// A comparison, the number, and the bound, as words.
    ///
    /// # Errors
    ///
    /// When samples of these categories have no such number, or a word is none.
    pub fn parse(
        (comparison, number, bound): (&str, &str, &str),
        known: &[CategoryFields],
    ) -> Result<Self, String> {
        let comparison = Comparison::from_word(comparison)
            .ok_or_else(|| format!("{comparison:?}: expected >, >=, <, <=, = or !="))?;
        let is_known = |category: &str, field: &str| {
            let fields = known.iter().find(|it| it.0 == category).map_or(&[][..], |it| it.1);
            fields.iter().any(|it| it.name == field && !matches!(it.role, Role::RateOf(_)))
        };
        let (category, field) = number
            .split_once('.')
            .filter(|(category, field)| is_known(category, field))
            .ok_or_else(|| format!("{number:?}: expected CATEGORY.NUMBER of mon/desc"))?;
        let bound = bound.parse().ok().filter(|it: &f64| it.is_finite());
        let bound = bound.ok_or_else(|| format!("{number}: the bound is no number"))?;
        Ok(Self { category: category.to_owned(), field: field.to_owned(), comparison, bound })
    }
}

/// The words of each part of `(filter (…) …)`.
fn parts(tokens: Vec<SexprToken>) -> Result<Vec<Vec<String>>, String> {
    let wrong = || "expected (filter (cat NAME …) (every MS) (> CATEGORY.NUMBER BOUND) …)";
    let mut rest = tokens.into_iter();
    let head = [rest.next(), rest.next()];
    if head != [Some(SexprToken::Open), Some(SexprToken::Word("filter".to_owned()))] {
        return Err(wrong().to_owned());
    }
    let mut all = Vec::new();
    let mut open: Option<Vec<String>> = None;
    loop {
        match (rest.next(), &mut open) {
            (Some(SexprToken::Open), None) => open = Some(Vec::new()),
            (Some(SexprToken::Word(word)), Some(words)) => words.push(word),
            (Some(SexprToken::Close), Some(_)) => all.extend(open.take()),
            (Some(SexprToken::Close), None) => break,
            _ => return Err(wrong().to_owned()),
        }
    }
    if rest.next().is_some() { Err(wrong().to_owned()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::{Category, CpuField, NodeField};
    use serde_json::json;

    const KNOWN: [CategoryFields; 2] = [("node", NodeField::FIELDS), ("cpu", CpuField::FIELDS)];

    fn parse(text: &str) -> Result<SampleFilter, String> {
        SampleFilter::default().with(text.as_bytes(), &KNOWN).map_err(|it| it.explanation)
    }

    #[test]
    fn a_filter_has_categories_conditions_and_a_period() {
        let it = parse("(filter (cat cpu) (> node.load1 2.5) (every 500))\n").expect("a filter");
        assert_eq!(it.period, Duration::from_millis(500));
        assert!(it.wants("cpu") && !it.wants("node"));
        let passes = |load: f64| {
            let row = json!({"load1": load});
            it.passes(|category| row.as_object().filter(|_| category == "node").into_iter())
        };
        assert!(passes(2.6) && !passes(2.5));
        // What was not read passes no condition.
        assert!(!it.passes(|_| std::iter::empty()));
        let all = parse("(filter)").expect("a filter");
        assert_eq!(all, SampleFilter::default());
        assert!(all.wants("node") && all.passes(|_| std::iter::empty()));
    }

    #[test]
    fn a_condition_holds_for_any_row() {
        let rows = [json!({"busy_ns": 3}), json!({"busy_ns": 5})];
        for (text, holds) in
            [("> cpu.busy_ns 4", true), (">= cpu.busy_ns 6", false), ("= cpu.busy_ns 3", true)]
        {
            let it = parse(&format!("(filter ({text}))")).expect("a filter");
            assert_eq!(it.passes(|_| rows.iter().filter_map(Value::as_object)), holds, "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "expected (filter"),
            ("(filter", "expected (filter"),
            ("(filter) x", "expected (filter"),
            ("(filter (cat (cpu)))", "expected (filter"),
            ("(filter (cat))", "(cat) is no part"),
            ("(filter (cat gpu))", "\"gpu\" is no category"),
            ("(filter (every 1))", "from 10 to 3600000"),
            ("(filter (every -5))", "from 10 to 3600000"),
            ("(filter (~ node.load1 2))", "expected >, >="),
            ("(filter (> load1 2))", "expected CATEGORY.NUMBER"),
            ("(filter (> node.odd 2))", "expected CATEGORY.NUMBER"),
            ("(filter (> node.load1 nan))", "no number"),
            ("(filter 'a)", "a quotation mark"),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(why), "{text:?}: {refused}");
        }
        let many = format!("(filter {})", "(> node.load1 2)".repeat(17));
        assert!(parse(&many).expect_err("too many").contains("16 conditions"));
        let long =
            SampleFilter::default().with(&[b' '; MAX_FILTER + 1], &KNOWN).map_err(|it| it.errno);
        assert_eq!(long, Err(Errno::TooLarge));
    }
}

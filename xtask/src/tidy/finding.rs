//! What checks find: violations and notes of rules, and findings that are only counted.

/// What a rule found in one file.
pub struct Finding {
    pub line: usize,
    pub what: String,
    pub why: &'static str,
    pub todo: &'static str,
    pub weight: Weight,
}

/// Whether a finding is an error.
#[derive(Clone, Copy, PartialEq)]
pub enum Weight {
    Warns,
    Fails,
}

/// A violation.
pub fn finding(line: usize, what: String, why: &'static str, todo: &'static str) -> Finding {
    Finding { line, what, why, todo, weight: Weight::Fails }
}

/// Something to think about.
pub fn warning(line: usize, what: String, why: &'static str, todo: &'static str) -> Finding {
    Finding { weight: Weight::Warns, ..finding(line, what, why, todo) }
}

/// A finding of a check that is counted (`counted.rs`).
pub struct CountedFinding {
    pub path: String,
    /// What a summary counts it as.
    pub key: String,
    /// The lines to print.
    pub text: String,
}

//! What a run found: a verdict for each sentence, and how many there are of each kind.

use super::case::{Case, Evidence, Sentence};

/// What was expected of an implementation, and what it replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The line of the case whose reply is not as expected.
    pub line: usize,
    /// The reply that the case demands, a pattern.
    pub expected: String,
    /// What was received instead.
    pub received: String,
}

/// Whether a sentence holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its case passed.
    Holds,
    /// Its case did not pass.
    Fails(Mismatch),
    /// Its case was not run, because it needs this.
    NotRun(String),
    /// The monitor deviates from it, for this reason; no case is run.
    Deviates(String),
}

impl Verdict {
    /// The word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Holds => "ok",
            Self::Fails(_) => "FAILED",
            Self::NotRun(_) => "not run",
            Self::Deviates(_) => "deviates",
        }
    }
}

/// A sentence and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file of its case.
    pub file: String,
    /// The sentence.
    pub sentence: Sentence,
    /// The verdict.
    pub verdict: Verdict,
}

/// The number of sentences of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Those that hold.
    pub holds: usize,
    /// Those that do not.
    pub failed: usize,
    /// Those whose case was not run.
    pub not_run: usize,
    /// Those that the monitor deviates from.
    pub deviate: usize,
}

impl Summary {
    /// Counts the verdicts.
    pub fn from_findings(findings: &[Finding]) -> Self {
        let mut it = Self::default();
        for finding in findings {
            match finding.verdict {
                Verdict::Holds => it.holds += 1,
                Verdict::Fails(_) => it.failed += 1,
                Verdict::NotRun(_) => it.not_run += 1,
                Verdict::Deviates(_) => it.deviate += 1,
            }
        }
        it
    }
}

/// The findings of a case whose requests had this result.
pub fn findings(case: &Case, verdict: &Verdict) -> Vec<Finding> {
    let finding = |sentence: &Sentence| Finding {
        file: case.file.clone(),
        sentence: sentence.clone(),
        verdict: match &sentence.evidence {
            Evidence::Case => verdict.clone(),
            Evidence::Test(test) => Verdict::NotRun(format!("the test {test}")),
            Evidence::Deviation(reason) => Verdict::Deviates(reason.clone()),
        },
    };
    case.sentences.iter().map(finding).collect()
}

//! What came out of a check: how many things passed, and what each failure said.
//!
//! In: outcomes of chores, and what `harness` heard of tests. Out: one count and one list.

use crate::Outcome;

/// The sum of what was checked so far.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub passed: usize,
    /// One line for each thing that failed.
    pub failures: Vec<String>,
}

impl Verdict {
    /// A check that either passes or says why not.
    pub fn of(name: &str, outcome: Outcome) -> Verdict {
        match outcome {
            Ok(()) => Verdict { passed: 1, failures: Vec::new() },
            Err(message) => Verdict { passed: 0, failures: vec![format!("{name}: {message}")] },
        }
    }

    /// Adds what another check found.
    pub fn add(&mut self, other: Verdict) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
    }

    /// Prints all failures and, as the last line, the count.
    pub fn report(&self) -> Outcome {
        println!();
        for failure in &self.failures {
            println!("FAILED  {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failures.len());
        // The count has to be the last line, so there is no message.
        if self.failures.is_empty() { Ok(()) } else { Err(String::new()) }
    }
}

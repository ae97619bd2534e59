//! The result of checks: how many passed, and the message of each failure.
//!
//! In: outcomes of commands, and the results of tests that `harness` reads. Out: one count and one
//! list.

/// The error is printed: what happened, why, and what to do; empty if it is printed already.
pub type Outcome = Result<(), String>;

/// The sum of the checks so far.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub passed: usize,
    /// One line for each failure.
    pub failures: Vec<String>,
}

impl Verdict {
    /// One check, with its message if it failed.
    pub fn from_outcome(name: &str, outcome: Outcome) -> Verdict {
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

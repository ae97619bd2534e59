//! What came out of a check: how many things passed, and what each failure said.
//!
//! In: outcomes of chores and the output of Rust's test harness. Out: one count and one list.

use crate::{Outcome, step};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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

    /// Runs `cargo test`, passes its output on, and reads the results in it.
    pub fn of_tests(command: &mut Command) -> Verdict {
        let line = step::line(command);
        eprintln!("$ {line}");
        let mut verdict = Verdict::default();
        let succeeded = run(command, |line| {
            println!("{line}");
            verdict.read(line);
        });
        match succeeded {
            Ok(true) => {}
            Ok(false) if !verdict.failures.is_empty() => {}
            Ok(false) => verdict.failures.push(format!("`{line}` failed before any test did")),
            Err(error) => verdict.failures.push(format!("cannot run `{line}`: {error}")),
        }
        verdict
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

    /// `test a::b ... FAILED` or `test result: ok. 3 passed; 0 failed; …`.
    fn read(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some(name) = rest.strip_suffix(" ... FAILED") {
            self.failures.push(format!("test {name}"));
        }
        if let Some((_, counts)) = rest.strip_prefix("result: ").and_then(|it| it.split_once(". "))
        {
            let passed = counts.split(' ').next().and_then(|count| count.parse::<usize>().ok());
            self.passed += passed.unwrap_or_default();
        }
    }
}

fn run(command: &mut Command, mut each: impl FnMut(&str)) -> std::io::Result<bool> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().expect("it was piped in the line above");
    for line in BufReader::new(output).split(b'\n') {
        each(&String::from_utf8_lossy(&line?));
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_is_read_line_by_line() {
        let mut verdict = Verdict::default();
        let output = "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\
                      test result: FAILED. 2 passed; 1 failed; 0 ignored; finished in 0.1s\n\
                      test result: ok. 4 passed; 0 failed; 0 ignored; finished in 0.1s";
        output.lines().for_each(|line| verdict.read(line));
        assert_eq!(verdict, Verdict { passed: 6, failures: vec!["test a::c".to_owned()] });
    }
}

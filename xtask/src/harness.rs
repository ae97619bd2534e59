//! `cargo test`: prints its output, and reads the results of the tests in it.
//!
//! In: the command. Out: a verdict; tests that took long, by name.
//! A test that never ends would block all later ones, and no list would name it: when no test has
//! ended for `TEST_TIMEOUT`, the program of tests is killed and that is a failure. Compiling has no
//! limit.

use crate::step;
use crate::verdict::Verdict;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than any test takes: each of its waits has a deadline of a minute.
const TEST_TIMEOUT: Duration = Duration::from_secs(300);
/// A test that takes longer is printed with its time, where tests run one after the other.
const LONG_TEST: Duration = Duration::from_secs(10);
/// How often cargo's status is polled, because a process that a test has left can hold the pipe
/// open.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs `cargo test`, prints its output, and reads the results in it.
pub fn verdict(command: &mut Command) -> Verdict {
    let line = step::line(command);
    eprintln!("$ {line}");
    let mut log = TestLog::default();
    match run(command, &mut log) {
        Ok(true) => {}
        Ok(false) if !log.verdict.failures.is_empty() => {}
        Ok(false) => log.verdict.failures.push(format!("`{line}` failed before any test did")),
        Err(error) => log.verdict.failures.push(format!("cannot run `{line}`: {error}")),
    }
    log.verdict
}

fn run(command: &mut Command, log: &mut TestLog) -> std::io::Result<bool> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().expect("it was piped in the line above");
    let lines = lines(output);
    let mut since = Instant::now();
    loop {
        match lines.recv_timeout(POLL_INTERVAL) {
            Ok(line) => {
                println!("{line}");
                log.read(&line, since.elapsed());
                since = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?.success()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(status.success());
                }
                if log.testing && since.elapsed() > TEST_TIMEOUT {
                    log.give_up();
                    kill_children(&child);
                }
            }
        }
    }
}

/// Each line of it, from a thread that ends with it.
fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Kills the program of tests that cargo waits for; cargo reports that and runs the next one.
fn kill_children(cargo: &Child) {
    let kill = format!("kill -KILL $(cat /proc/{}/task/*/children)", cargo.id());
    let _ = step::run(step::fresh("sh").args(["-c", &kill]));
}

/// The results so far.
#[derive(Debug, Default)]
struct TestLog {
    verdict: Verdict,
    /// Between `running 3 tests` and their result.
    testing: bool,
    last: String,
}

impl TestLog {
    /// A line, and how long it was waited for: `running 2 tests`, `test a::b ... FAILED` or
    /// `test result: ok. 3 passed; 0 failed; …`.
    fn read(&mut self, line: &str, after: Duration) {
        self.testing |= line.starts_with("running ");
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some(result) = rest.strip_prefix("result: ") {
            self.testing = false;
            let counts = result.split_once(". ").map(|(_, counts)| counts);
            let passed = counts.and_then(|it| it.split(' ').next()?.parse::<usize>().ok());
            self.verdict.passed += passed.unwrap_or_default();
            return;
        }
        let Some((name, outcome)) = rest.rsplit_once(" ... ") else { return };
        if outcome == "FAILED" {
            self.verdict.failures.push(format!("test {name}"));
        }
        if after > LONG_TEST {
            println!("    {:.0} s", after.as_secs_f64());
        }
        name.clone_into(&mut self.last);
    }

    fn give_up(&mut self) {
        self.testing = false;
        let last = if self.last.is_empty() { "none" } else { &self.last };
        let seconds = TEST_TIMEOUT.as_secs();
        self.verdict.failures.push(format!(
            "no test ended for {seconds} s, so the program was killed; the last that did: {last}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(output: &str) -> TestLog {
        let mut log = TestLog::default();
        output.lines().for_each(|line| log.read(line, Duration::ZERO));
        log
    }

    #[test]
    fn the_harness_is_read_line_by_line() {
        let log = log_of(
            "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored; finished in 0.1s\n\
             test result: ok. 4 passed; 0 failed; 0 ignored; finished in 0.1s",
        );
        let failures = vec!["test a::c".to_owned()];
        assert_eq!(log.verdict, Verdict { passed: 6, failures });
        assert!(!log.testing);
    }

    #[test]
    fn a_test_that_never_ends_is_named_by_the_one_before() {
        let mut log = log_of("running 3 tests\ntest a::b ... ok");
        assert!(log.testing);
        log.give_up();
        assert_eq!(log.verdict.failures.len(), 1);
        assert!(log.verdict.failures[0].ends_with("the last that did: a::b"));
    }
}

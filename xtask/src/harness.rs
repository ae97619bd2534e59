//! `cargo test`, as it is heard: its output is passed on, and what failed is read in it.
//!
//! In: the command. Out: a verdict; tests that took long, by name.
//! A test that never ends would hold everything after it for ever, and its name would be in no
//! list: when no test has ended for `PATIENCE`, the program of tests is killed and that is a
//! failure. What compiles may take as long as it likes.

use crate::step;
use crate::verdict::Verdict;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than any test takes: each of its waits has a deadline of a minute.
const PATIENCE: Duration = Duration::from_secs(300);
/// From here on a test is named with its time, where tests run one after the other.
const LONG: Duration = Duration::from_secs(10);
/// How often cargo is asked whether it is still there, because what a test left behind can hold
/// the pipe open.
const GLANCE: Duration = Duration::from_secs(1);

/// Runs `cargo test`, passes its output on, and reads the results in it.
pub fn verdict(command: &mut Command) -> Verdict {
    let line = step::line(command);
    eprintln!("$ {line}");
    let mut heard = Heard::default();
    match run(command, &mut heard) {
        Ok(true) => {}
        Ok(false) if !heard.verdict.failures.is_empty() => {}
        Ok(false) => heard.verdict.failures.push(format!("`{line}` failed before any test did")),
        Err(error) => heard.verdict.failures.push(format!("cannot run `{line}`: {error}")),
    }
    heard.verdict
}

fn run(command: &mut Command, heard: &mut Heard) -> std::io::Result<bool> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().expect("it was piped in the line above");
    let lines = lines(output);
    let mut since = Instant::now();
    loop {
        match lines.recv_timeout(GLANCE) {
            Ok(line) => {
                println!("{line}");
                heard.read(&line, since.elapsed());
                since = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?.success()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(status.success());
                }
                if heard.testing && since.elapsed() > PATIENCE {
                    heard.give_up();
                    kill_children(&child);
                }
            }
        }
    }
}

/// Each line of it, from a thread that ends with it.
fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if tell.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    told
}

/// Kills the program of tests that cargo waits for; cargo says so and goes on with the next.
fn kill_children(cargo: &Child) {
    let kill = format!("kill -KILL $(cat /proc/{}/task/*/children)", cargo.id());
    let _ = step::run(step::fresh("sh").args(["-c", &kill]));
}

/// What was heard so far.
#[derive(Debug, Default)]
struct Heard {
    verdict: Verdict,
    /// Between `running 3 tests` and their result.
    testing: bool,
    last: String,
}

impl Heard {
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
        if after > LONG {
            println!("    {:.0} s", after.as_secs_f64());
        }
        name.clone_into(&mut self.last);
    }

    fn give_up(&mut self) {
        self.testing = false;
        let last = if self.last.is_empty() { "none" } else { &self.last };
        let seconds = PATIENCE.as_secs();
        self.verdict.failures.push(format!(
            "no test ended for {seconds} s, so the program was killed; the last that did: {last}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(output: &str) -> Heard {
        let mut heard = Heard::default();
        output.lines().for_each(|line| heard.read(line, Duration::ZERO));
        heard
    }

    #[test]
    fn the_harness_is_read_line_by_line() {
        let heard = heard(
            "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored; finished in 0.1s\n\
             test result: ok. 4 passed; 0 failed; 0 ignored; finished in 0.1s",
        );
        let failures = vec!["test a::c".to_owned()];
        assert_eq!(heard.verdict, Verdict { passed: 6, failures });
        assert!(!heard.testing);
    }

    #[test]
    fn who_never_ends_is_named_by_who_ended_before() {
        let mut heard = heard("running 3 tests\ntest a::b ... ok");
        assert!(heard.testing);
        heard.give_up();
        assert_eq!(heard.verdict.failures.len(), 1);
        assert!(heard.verdict.failures[0].ends_with("the last that did: a::b"));
    }
}

//! What a case has started: a launcher, or the command that launches.
//!
//! In: a command. Out: what its ranks print, its notices, and its exit code, also of one that was
//! killed.

use super::text::{Names, matches};
use crate::deadline::until;
use crate::root::workload::Guarded;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ChildStderr, Command, Stdio};

/// A running job.
pub struct StartedJob {
    command: Guarded,
    notices: BufReader<ChildStderr>,
    /// Lines that ranks print next, in any order.
    pub wants: Vec<String>,
}

impl StartedJob {
    pub fn new(command: &mut Command) -> Self {
        let mut command = Guarded::run(command.stderr(Stdio::piped()));
        let notices = BufReader::new(command.0.stderr.take().unwrap());
        Self { command, notices, wants: Vec::new() }
    }

    /// Compares the lines that ranks print with those that are wanted.
    pub fn check_outputs(&mut self) {
        for _ in 0..self.wants.len() {
            let line = self.command.line();
            let wanted = self.wants.iter().position(|it| *it == line);
            let Some(wanted) = wanted else { panic!("{line:?}, not one of {:?}", self.wants) };
            let _line = self.wants.remove(wanted);
        }
    }

    /// Waits for a notice.
    pub fn notice(&mut self, pattern: &str, names: &mut Names) {
        let mut others = Vec::new();
        loop {
            let mut line = String::new();
            let bytes = self.notices.read_line(&mut line).unwrap();
            assert!(bytes > 0, "only {others:?}");
            if matches(pattern, &line, names) {
                return;
            }
            others.push(line);
        }
    }

    /// Fails with what it has said, if it has ended already.
    #[track_caller]
    pub fn check_that_it_runs(&mut self) {
        if let Some(status) = self.command.0.try_wait().unwrap() {
            let mut notices = String::new();
            self.notices.read_to_string(&mut notices).unwrap();
            panic!("{status} before it was found: {notices}");
        }
    }

    pub fn kill(&mut self) {
        self.command.0.kill().unwrap();
        let _status = self.command.0.wait().unwrap();
    }

    /// Waits for its end; its exit code, or minus the signal. Its standard input stays open: Hydra
    /// fails if that ends together with the ranks.
    pub fn ends(&mut self) -> i32 {
        let status = until(|| self.command.0.try_wait().unwrap());
        status.code().unwrap_or_else(|| -status.signal().unwrap())
    }
}

//! The program of a session: how far it is, and what `wait` says of its end.

use crate::session::message::Ending;
use rustix::io::Errno;
use std::fmt::Write as _;

/// How far the program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It was not executed.
    #[default]
    Ready,
    /// It is being executed.
    Starting,
    /// It runs, as this process.
    Running(u32),
    /// It has ended.
    Ended(ProcessEnd),
}

/// How a session came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, or by a signal.
    Ended(Ending),
    /// It was wiped; with the end of its program, if that ran.
    Wiped(Option<Ending>),
}

/// The program of a session.
#[derive(Debug, Default)]
pub struct Program {
    phase: Phase,
    /// How the last `exec` failed.
    failed: Option<i32>,
}

impl Program {
    /// How far it is.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether it was never executed, or the last `exec` has failed.
    pub const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Whether it runs, or soon will.
    pub const fn runs(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Running(_))
    }

    /// The launcher is asked to execute it.
    pub const fn starting(&mut self) {
        self.phase = Phase::Starting;
    }

    /// It was executed, as this process.
    pub const fn started(&mut self, pid: u32) {
        // Its end may have been reported before the answer to `exec`: never, but for a launcher
        // that its user has changed.
        if matches!(self.phase, Phase::Starting) {
            self.phase = Phase::Running(pid);
            self.failed = None;
        }
    }

    /// It was not executed, with this number of an error.
    pub const fn not_started(&mut self, error: i32) {
        if matches!(self.phase, Phase::Starting) {
            self.phase = Phase::Ready;
            self.failed = Some(error);
        }
    }

    /// It has ended, or does not come to run: the first end counts.
    pub const fn ended(&mut self, end: ProcessEnd) {
        if !matches!(self.phase, Phase::Ended(_)) {
            self.phase = Phase::Ended(end);
        }
    }

    /// What `wait` says, when it has ended or was not executed.
    pub fn wait_text(&self) -> Option<String> {
        match (self.phase, self.failed) {
            (Phase::Ended(end), _) => Some(end_text(end)),
            (Phase::Ready, Some(number)) => {
                let code = if number == Errno::NOENT.raw_os_error() { 127 } else { 126 };
                Some(format!("{code} execfail {number} 0 0 0 0\n"))
            }
            _ => None,
        }
    }
}

/// `<code> <kind> <n> <utime_ms> <stime_ms> <real_ms> <maxrss_kb>`.
fn end_text(end: ProcessEnd) -> String {
    let (it, kind) = match end {
        ProcessEnd::Ended(it) if it.signal.is_some() => (it, "signal"),
        ProcessEnd::Ended(it) => (it, "exit"),
        ProcessEnd::Wiped(it) => (it.unwrap_or_default(), "wiped"),
    };
    let number = it.signal.or(it.code).unwrap_or(0);
    let code = it.signal.map_or(it.code.unwrap_or(0), |signal| 128 + signal);
    let mut out = format!("{code} {kind} {number}");
    for value in [it.user_ms, it.system_ms, it.real_ms, it.max_rss_kib] {
        let _ = write!(out, " {value}");
    }
    out.push('\n');
    out
}

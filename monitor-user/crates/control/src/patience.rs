//! How long an act may wait, and what ends the wait before: nobody listens any more.
//!
//! A hand that waits for one process must still notice at once that it has to undo everything.

use super::trouble::Trouble;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The first pause; a running thread stops within it as a rule.
const FIRST: Duration = Duration::from_micros(30);
const LONGEST: Duration = Duration::from_millis(1);

/// A wait.
pub struct Patience<'a> {
    until: Instant,
    pause: Duration,
    line: Option<BorrowedFd<'a>>,
}

impl<'a> Patience<'a> {
    /// So long, while the other end of the line is there.
    pub fn new(most: Duration, line: Option<BorrowedFd<'a>>) -> Self {
        Self { until: Instant::now() + most, pause: FIRST, line }
    }

    /// Waits a little; `what` has not happened yet.
    pub fn wait(&mut self, what: &str) -> Result<(), Trouble> {
        if Instant::now() >= self.until {
            return Err(Trouble::Late(what.to_owned()));
        }
        let nanoseconds = i64::try_from(self.pause.as_nanos()).unwrap_or(0);
        let pause = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let line = self.line.as_ref();
        let mut fds: Vec<_> =
            line.map(|fd| PollFd::new(fd, PollFlags::RDHUP)).into_iter().collect();
        let woken = poll(&mut fds, Some(&pause));
        self.pause = LONGEST.min(self.pause * 2);
        match woken {
            Ok(1..) => Err(Trouble::HandLost),
            _ => Ok(()),
        }
    }
}

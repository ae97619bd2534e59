//! Polling waits with a deadline, interrupted when the peer closes its socket.
//!
//! In: a limit and the socket. Out: `TimedOut` or `WorkerLost`. A user worker that waits for one
//! process must notice at once that the daemon is gone, because it has to undo everything then.

use super::ControlError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The first pause, within which a running thread usually stops.
const FIRST: Duration = Duration::from_micros(30);
const LONGEST: Duration = Duration::from_millis(1);

/// A sequence of growing pauses until a deadline.
pub struct DeadlineWait<'a> {
    until: Instant,
    pause: Duration,
    peer: Option<BorrowedFd<'a>>,
}

impl<'a> DeadlineWait<'a> {
    /// Waits for at most `limit`, and only while the peer is connected.
    pub fn new(limit: Duration, peer: Option<BorrowedFd<'a>>) -> Self {
        Self { until: Instant::now() + limit, pause: FIRST, peer }
    }

    /// Pauses once; `what` names the awaited event in the timeout error.
    pub fn wait(&mut self, what: &str) -> Result<(), ControlError> {
        if Instant::now() >= self.until {
            return Err(ControlError::TimedOut(what.to_owned()));
        }
        let nanoseconds = i64::try_from(self.pause.as_nanos()).unwrap_or(0);
        let pause = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let peer = self.peer.as_ref();
        let mut fds: Vec<_> =
            peer.map(|fd| PollFd::new(fd, PollFlags::RDHUP)).into_iter().collect();
        let woken = poll(&mut fds, Some(&pause));
        self.pause = LONGEST.min(self.pause * 2);
        match woken {
            Ok(1..) => Err(ControlError::WorkerLost),
            _ => Ok(()),
        }
    }
}

/// Whether the peer has closed its socket.
pub fn has_closed(peer: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&peer, PollFlags::RDHUP)], Some(&now)), Ok(1..))
}

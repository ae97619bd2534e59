//! Signals that end this program, kept pending while it must not end in between.
//!
//! In: the time between creation and drop, on a thread that is the only one. Out: whether one of
//! the signals is pending. At drop the kernel delivers it, as if it came then, unless it was taken.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The signals: keys of the terminal, kill(1), the end of the terminal.
const END_SIGNALS: [Signal; 4] = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];

/// Keeps the signals pending until it is dropped.
#[derive(Debug)]
pub struct PendingSignals {
    /// What was blocked before.
    before: SigSet,
    /// Readable while one is pending.
    pending: SignalFd,
}

impl PendingSignals {
    /// Begins to keep them, for the calling thread.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn keep() -> io::Result<Self> {
        let ends: SigSet = END_SIGNALS.into_iter().collect();
        let pending = SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { before: ends.thread_swap_mask(SigmaskHow::SIG_BLOCK)?, pending })
    }

    /// Whether one of them has come.
    pub fn has_come(&self) -> bool {
        let mut fds = [PollFd::new(&self.pending, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }

    /// Takes one of them, which then ends nothing; whether one had come.
    pub fn take(&self) -> bool {
        matches!(self.pending.read_signal(), Ok(Some(_)))
    }
}

/// Readable while one is pending.
impl AsFd for PendingSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pending.as_fd()
    }
}

impl Drop for PendingSignals {
    fn drop(&mut self) {
        // It fails for no mask that the kernel has returned.
        let _delivered = self.before.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pidfd::tgkill;
    use rustix::process::getpid;
    use rustix::thread::gettid;

    #[test]
    fn a_signal_waits_until_the_end() {
        // On a thread of its own: the mask of the others stays as it is.
        let waited = std::thread::spawn(|| {
            let kept = PendingSignals::keep().unwrap();
            let before = kept.has_come();
            let [process, thread] = [getpid(), gettid()].map(|it| it.as_raw_nonzero().get());
            tgkill(process, thread, Signal::SIGQUIT as i32).unwrap();
            let waited = kept.has_come();
            // It would end the tests.
            let taken = kept.take();
            (before, waited, taken, kept.has_come())
        });
        assert_eq!(waited.join().unwrap(), (false, true, true, false));
    }
}

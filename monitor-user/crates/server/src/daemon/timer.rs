//! Timers of the loops.
//!
//! Ticks use a timerfd: the timer of tokio counts milliseconds and rounds up twice, and a late
//! tick has less time left to share its reading with other monitors.

use monitor_model::Ns;
use monitor_sys::{clock, readable, timer};
use std::{io, os::fd::OwnedFd, time::Duration};
use tokio::io::unix::AsyncFd;

/// A timerfd that is set only when its deadline changes.
pub struct Timer {
    timer: AsyncFd<OwnedFd>,
    due: Option<Ns>,
}

impl Timer {
    /// A timer without a deadline.
    pub fn new() -> io::Result<Self> {
        Ok(Self { timer: readable::readable(timer::new()?)?, due: None })
    }

    /// Waits until this time of `CLOCK_BOOTTIME`; forever, without one. Cancel-safe.
    pub async fn until(&mut self, due: Option<Ns>) {
        match self.wait(due).await {
            Ok(()) => self.due = None,
            // The kernel refuses no deadline; if it did, a spurious tick is harmless.
            Err(error) => tracing::error!("the timer of the daemon: {error}"),
        }
    }

    async fn wait(&mut self, due: Option<Ns>) -> io::Result<()> {
        if self.due != due {
            timer::set(self.timer.get_ref(), due)?;
            self.due = due;
        }
        loop {
            let mut ready = self.timer.readable().await?;
            let taken = timer::acknowledge(self.timer.get_ref());
            // Nothing is left to read until the next expiration.
            ready.clear_ready();
            // `WouldBlock`: it was set again after it expired.
            if !taken.as_ref().is_err_and(|it| it.kind() == io::ErrorKind::WouldBlock) {
                return taken;
            }
        }
    }
}

/// Waits until about this time, up to two milliseconds late; forever, without one.
pub async fn sleep_until(due: Option<Ns>) {
    match due {
        Some(due) => tokio::time::sleep(Duration::from_nanos(due.since(clock::boot()).0)).await,
        None => std::future::pending().await,
    }
}

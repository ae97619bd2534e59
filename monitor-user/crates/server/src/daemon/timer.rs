//! When a loop is woken because time has passed.
//!
//! For ticks by a timer of the kernel: that of tokio counts milliseconds and rounds up twice, and
//! what a tick is late by that, it cannot wait for others who could share its reading.

use monitor_model::id::Ns;
use monitor_sys::{clock, readable, timer};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// A timer that is set only when it is to ring at another time.
pub struct Timer {
    timer: AsyncFd<OwnedFd>,
    set: Option<Ns>,
}

impl Timer {
    /// One that does not ring.
    pub fn new() -> io::Result<Self> {
        Ok(Self { timer: readable::readable(timer::new()?)?, set: None })
    }

    /// Until this time of `CLOCK_BOOTTIME`; for ever, without one. It may be given up and called
    /// again.
    pub async fn until(&mut self, due: Option<Ns>) {
        match self.rings(due).await {
            Ok(()) => self.set = None,
            // The kernel refuses no time; if it did, looking too often would do less harm.
            Err(error) => tracing::error!("the timer of the service: {error}"),
        }
    }

    async fn rings(&mut self, due: Option<Ns>) -> io::Result<()> {
        if self.set != due {
            timer::set(self.timer.get_ref(), due)?;
            self.set = due;
        }
        loop {
            let mut ready = self.timer.readable().await?;
            let taken = timer::take(self.timer.get_ref());
            // Nothing is left to read, so it is not looked at again before it rings.
            ready.clear_ready();
            // It may have been set anew since it rang.
            if !taken.as_ref().is_err_and(|it| it.kind() == io::ErrorKind::WouldBlock) {
                return taken;
            }
        }
    }
}

/// Until about this time, for what may be a millisecond or two late; for ever, without one.
pub async fn about(due: Option<Ns>) {
    match due {
        Some(due) => tokio::time::sleep(Duration::from_nanos(due.since(clock::boot()).0)).await,
        None => std::future::pending().await,
    }
}

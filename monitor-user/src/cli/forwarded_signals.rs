//! The signals by which a user ends a command, for commands that pass them on.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Numbers of the signals (signal(7)).
pub const HANG_UP: u32 = 1;
/// See [`HANG_UP`].
pub const INTERRUPT: u32 = 2;
/// See [`HANG_UP`].
pub const QUIT: u32 = 3;
/// See [`HANG_UP`].
pub const TERMINATE: u32 = 15;

/// What waits for them; this process does not end by them while it is there.
pub struct ForwardedSignals {
    hang_up: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

impl ForwardedSignals {
    /// Begins to wait for them.
    ///
    /// # Errors
    ///
    /// When the kernel refuses a handler.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The number of the next one.
    pub async fn next(&mut self) -> u32 {
        tokio::select! {
            _ = self.hang_up.recv() => HANG_UP,
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.quit.recv() => QUIT,
            _ = self.terminate.recv() => TERMINATE,
        }
    }
}

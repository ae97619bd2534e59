//! A word for who waits, on standard error where that is a terminal; it goes when the work is done.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};

/// Somebody waits.
pub struct Waiting {
    is_seen: bool,
    has_said: Cell<bool>,
}

impl Waiting {
    /// Nothing is said yet.
    pub fn new() -> Self {
        Self { is_seen: std::io::stderr().is_terminal(), has_said: Cell::new(false) }
    }

    /// Says this in the place of what was said before.
    pub fn say(&self, text: &str) {
        if self.is_seen {
            self.has_said.set(true);
            // Who does not listen misses nothing.
            let _ = write!(std::io::stderr().lock(), "\r{text}\x1b[K");
        }
    }

    /// Takes away what was said.
    pub fn end(&self) {
        if self.has_said.take() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}

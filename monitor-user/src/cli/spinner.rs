//! A progress text on standard error, if that is a terminal; erased when the work is done.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};

/// The progress text; erased on drop.
pub struct Spinner {
    is_terminal: bool,
    has_shown: Cell<bool>,
}

impl Spinner {
    /// Shows nothing yet.
    pub fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), has_shown: Cell::new(false) }
    }

    /// Replaces the text.
    pub fn show(&self, text: &str) {
        if self.is_terminal {
            self.has_shown.set(true);
            // A closed standard error is ignored.
            let _ = write!(std::io::stderr().lock(), "\r{text}\x1b[K");
        }
    }

    /// Erases the text.
    pub fn clear(&self) {
        if self.has_shown.take() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.clear();
    }
}

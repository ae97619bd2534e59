//! The last error of a connection, as its file `err` explains it.

use crate::lock::lock;
use bytes::Bytes;
use monitor_ninep::FileError;
use std::sync::Mutex;

/// Longest explanation that is kept, in bytes.
const MAX_EXPLANATION: usize = 1024;

/// The explanation of the last error, and how many there were.
#[derive(Default)]
pub struct LastError(Mutex<(Bytes, u32)>);

impl LastError {
    /// The explanation, and how many errors there were.
    pub fn text(&self) -> (Bytes, u32) {
        lock(&self.0).clone()
    }

    /// Keeps the explanation of a further error.
    pub fn set(&self, error: &FileError) {
        // It quotes what the client has sent, and each open of the file keeps it.
        let length = error.explanation.floor_char_boundary(MAX_EXPLANATION);
        let text = format!("{}\n", &error.explanation[..length]);
        let mut last = lock(&self.0);
        *last = (text.into(), last.1.wrapping_add(1));
    }
}

//! Lines of a `ctl`, of a session or of the node: a line may come in several writes.
//!
//! In: pieces of what is written, each up to the end of a line or of the write. Out: lines.

use monitor_control::session::{Refusal, SessionError};

/// The beginning of a line without its end.
pub struct ControlLines {
    begun: Vec<u8>,
    /// Most bytes of a line.
    most: usize,
}

impl ControlLines {
    /// Lines of at most this number of bytes.
    pub const fn new(most: usize) -> Self {
        Self { begun: Vec::new(), most }
    }

    /// Carries out the lines of a write, in their order.
    ///
    /// # Errors
    ///
    /// As the first line that fails; the rest is dropped, also that without its end.
    pub fn carry_out(
        &mut self,
        content: &[u8],
        mut execute: impl FnMut(&[u8]) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let mut line = 0;
        for piece in content.split_inclusive(|it| *it == b'\n') {
            let done = self.add(piece).and_then(|whole| {
                let Some(command) = whole else { return Ok(()) };
                line += 1;
                execute(&command).map_err(|it| it.in_line(line))
            });
            done.inspect_err(|_| self.clear())?;
        }
        Ok(())
    }

    /// Adds a piece; the line that it ends, without its line break.
    ///
    /// # Errors
    ///
    /// When the line is too long: it is dropped.
    pub fn add(&mut self, piece: &[u8]) -> Result<Option<Vec<u8>>, SessionError> {
        if self.begun.len() + piece.len() > self.most {
            self.begun.clear();
            let why = format!("a line of ctl has more than {} bytes", self.most);
            return Err(SessionError::new(Refusal::TooLarge, why));
        }
        self.begun.extend_from_slice(piece);
        let has_ended = self.begun.pop_if(|it| *it == b'\n').is_some();
        Ok(has_ended.then(|| std::mem::take(&mut self.begun)))
    }

    /// Drops the line without its end.
    pub fn clear(&mut self) {
        self.begun.clear();
    }
}

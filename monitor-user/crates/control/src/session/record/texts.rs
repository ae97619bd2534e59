//! The texts of a session that clients write in parts: arguments, environment, a free one.

use crate::session::error::{Refusal, SessionError};
use crate::session::{MAX_LABEL, MAX_TEXT};

/// Which text of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFile {
    /// The arguments.
    Argv,
    /// The environment.
    Env,
    /// A free text.
    State,
}

/// The texts of a session.
#[derive(Debug, Default)]
pub struct TextFiles {
    argv: Text,
    env: Text,
    label: Text,
}

#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    version: u32,
}

impl TextFiles {
    /// Those of a session with this environment.
    pub fn with_env(env: &[u8]) -> Self {
        Self { env: Text { bytes: env.to_vec(), version: 0 }, ..Self::default() }
    }

    /// The bytes of a text.
    pub fn bytes(&self, file: TextFile) -> &[u8] {
        &self.text(file).bytes
    }

    /// How often a text was changed; it wraps.
    pub const fn version(&self, file: TextFile) -> u32 {
        self.text(file).version
    }

    /// Replaces a text.
    pub fn replace(&mut self, file: TextFile, bytes: Vec<u8>) {
        let text = self.text_mut(file);
        text.bytes = bytes;
        text.version = text.version.wrapping_add(1);
    }

    /// Writes a part of a text; a gap before it has NULs.
    ///
    /// # Errors
    ///
    /// When it would be longer than it may be.
    pub fn write(&mut self, file: TextFile, at: u64, part: &[u8]) -> Result<(), SessionError> {
        let most = if file == TextFile::State { MAX_LABEL } else { MAX_TEXT };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let Some(end) = at.checked_add(part.len()).filter(|it| *it <= most) else {
            let why = format!("the text would have more than {most} bytes");
            return Err(SessionError::new(Refusal::TooLarge, why));
        };
        let text = self.text_mut(file);
        if text.bytes.len() < end {
            text.bytes.resize(end, 0);
        }
        text.bytes[at..end].copy_from_slice(part);
        text.version = text.version.wrapping_add(1);
        Ok(())
    }

    const fn text(&self, file: TextFile) -> &Text {
        match file {
            TextFile::Argv => &self.argv,
            TextFile::Env => &self.env,
            TextFile::State => &self.label,
        }
    }

    const fn text_mut(&mut self, file: TextFile) -> &mut Text {
        match file {
            TextFile::Argv => &mut self.argv,
            TextFile::Env => &mut self.env,
            TextFile::State => &mut self.label,
        }
    }
}

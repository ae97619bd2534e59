//! The texts of a node that an administrator writes: `env` and `state`.

use crate::lock::lock;
use bytes::Bytes;
use monitor_ninep::{Errno, FileError};
use std::sync::Mutex;

/// The environment of sessions before one is written.
const DEFAULT_ENV: &[u8] = b"PATH=/usr/local/bin:/usr/bin:/bin\n";
/// Most bytes of `env`, which is an argument list of execve(2), and of `state`.
const MAX_BYTES: [usize; 2] = [128 << 10, 4 << 10];

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeText {
    /// The environment that sessions begin with.
    Env,
    /// The state of the node; empty means up.
    State,
}

/// Both texts.
pub struct NodeTexts(Mutex<[(Bytes, u32); 2]>);

impl Default for NodeTexts {
    fn default() -> Self {
        Self(Mutex::new([(Bytes::from_static(DEFAULT_ENV), 0), (Bytes::new(), 0)]))
    }
}

impl NodeTexts {
    /// A text, and how often it was changed.
    pub fn get(&self, text: NodeText) -> (Bytes, u32) {
        lock(&self.0)[text as usize].clone()
    }

    /// Writes a part of a text; a gap before it has NULs.
    ///
    /// # Errors
    ///
    /// When it would be longer than it may be.
    pub fn write(&self, text: NodeText, at: u64, part: &[u8]) -> Result<(), FileError> {
        let most = MAX_BYTES[text as usize];
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let Some(end) = at.checked_add(part.len()).filter(|it| *it <= most) else {
            let why = format!("the text would have more than {most} bytes");
            return Err(FileError::new(Errno::TooLarge, why));
        };
        let mut all = lock(&self.0);
        let (bytes, version) = &mut all[text as usize];
        let mut new = bytes.to_vec();
        new.resize(end.max(new.len()), 0);
        new[at..end].copy_from_slice(part);
        (*bytes, *version) = (new.into(), version.wrapping_add(1));
        Ok(())
    }

    /// Empties a text.
    pub fn clear(&self, text: NodeText) {
        let (bytes, version) = &mut lock(&self.0)[text as usize];
        (*bytes, *version) = (Bytes::new(), version.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_in_parts_within_its_limit() {
        let texts = NodeTexts::default();
        assert_eq!(&texts.get(NodeText::Env).0[..], DEFAULT_ENV);
        texts.write(NodeText::State, 0, b"ab").expect("room");
        texts.write(NodeText::State, 3, b"c").expect("room");
        assert_eq!(texts.get(NodeText::State), (Bytes::from_static(b"ab\0c"), 2));
        texts.clear(NodeText::State);
        assert_eq!(texts.get(NodeText::State), (Bytes::new(), 3));
        for at in [4 << 10, u64::MAX] {
            assert!(texts.write(NodeText::State, at, b"x").is_err());
        }
    }
}

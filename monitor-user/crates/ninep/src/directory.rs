//! An open directory: its entries as bytes, and where the next read must begin.
//!
//! A read returns whole entries, and begins at 0 or where the previous one ended (read(5) of Plan
//! 9). The entries are those of the moment of the read at 0.

use crate::error::{Errno, FileError};
use crate::limits::DIRECTORY_BYTES;
use crate::stat::Stat;

/// The entries of an open directory.
#[derive(Debug, Default)]
pub struct DirectoryCursor {
    bytes: Vec<u8>,
    /// Where the next read must begin.
    position: usize,
}

impl DirectoryCursor {
    /// A cursor over these entries, of at most `room` bytes.
    pub fn new(entries: impl Iterator<Item = Stat>, room: usize) -> Result<Self, FileError> {
        let mut bytes = Vec::new();
        for entry in entries {
            entry.put(&mut bytes);
            if bytes.len() > room {
                let why = format!(
                    "open directories have {DIRECTORY_BYTES} bytes of entries, the limit of a \
                     connection: clunk some"
                );
                return Err(FileError::new(Errno::TryAgain, why));
            }
        }
        Ok(Self { bytes, position: 0 })
    }

    /// Bytes of its entries.
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The whole entries that fit into `count` bytes, from `offset`.
    pub fn read(&mut self, offset: u64, count: usize) -> Result<&[u8], FileError> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if start != 0 && start != self.position {
            let why = format!(
                "a directory is read from 0 or from {}, where the previous read ended",
                self.position
            );
            return Err(FileError::new(Errno::BadDirectoryOffset, why));
        }
        let mut end = start;
        while let Some(next) = self.entry_end(end).filter(|next| next - start <= count) {
            end = next;
        }
        if end == start && start < self.bytes.len() {
            let why = format!("the next entry of the directory is longer than {count} bytes");
            return Err(FileError::new(Errno::Invalid, why));
        }
        self.position = end;
        Ok(&self.bytes[start..end])
    }

    /// Where the entry that begins at `start` ends.
    fn entry_end(&self, start: usize) -> Option<usize> {
        let length = self.bytes.get(start..)?.first_chunk::<2>()?;
        Some(start + 2 + usize::from(u16::from_le_bytes(*length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor() -> DirectoryCursor {
        let named = |name: &str| Stat { name: name.to_owned(), ..Stat::default() };
        DirectoryCursor::new(["arch", "env", "procs"].map(named).into_iter(), 4096).unwrap()
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        Stat::entries(bytes).unwrap().into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn a_read_of_a_directory_returns_whole_entries() {
        let mut it = cursor();
        let first = it.read(0, 110).unwrap().to_vec();
        assert_eq!(names(&first), ["arch", "env"].map(String::from)[..names(&first).len()]);
        assert!(first.len() <= 110);
        let rest = it.read(first.len() as u64, 4096).unwrap().to_vec();
        assert_eq!(names(&first).len() + names(&rest).len(), 3);
        let end = (first.len() + rest.len()) as u64;
        assert_eq!(it.read(end, 4096).unwrap(), b"");
    }

    #[test]
    fn the_offset_is_zero_or_the_previous_end() {
        let mut it = cursor();
        let end = it.read(0, 4096).unwrap().len() as u64;
        assert_eq!(it.read(1, 4096).unwrap_err().errno, Errno::BadDirectoryOffset);
        assert_eq!(it.read(end + 1, 4096).unwrap_err().errno, Errno::BadDirectoryOffset);
        assert_eq!(it.read(u64::MAX, 4096).unwrap_err().errno, Errno::BadDirectoryOffset);
        assert_eq!(it.read(0, 4096).unwrap().len() as u64, end);
    }

    #[test]
    fn entries_beyond_the_room_are_refused() {
        let entries = std::iter::repeat_n(Stat::default(), 10);
        assert_eq!(DirectoryCursor::new(entries, 400).unwrap_err().errno, Errno::TryAgain);
    }

    #[test]
    fn a_count_below_the_next_entry_is_refused() {
        assert_eq!(cursor().read(0, 20).unwrap_err().errno, Errno::Invalid);
        assert_eq!(DirectoryCursor::default().read(0, 0).unwrap(), b"");
    }
}

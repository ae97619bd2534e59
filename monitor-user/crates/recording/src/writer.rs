//! Writes a recording so that a crash loses no sample.
//!
//! In: samples. Out: a file in which each sample is written immediately as a frame; the samples of
//! about a minute then become one compressed block.
//!
//! ```text
//!  header  block  list  block  list  sample sample sample
//!                                    ^ the open block
//! ```
//!
//! When the open block is full, its compressed form is written after it, then over it, then the
//! rest is truncated. At any time one of the two forms is complete. The file is flushed between the
//! steps, so that this holds for a power loss too.

use super::frame::{self, FrameKind, PAYLOAD_BYTES, SampleRange};
use super::index::{BlockIndex, IndexEntry};
use super::{BlockLimits, Error, Header, block::OpenBlock, codec::Encoder};
use monitor_model::Sample;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result as Answer};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What to do with an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep it and fail.
    Keep,
    /// Remove it first.
    Replace,
}

/// Writes one file. One that is dropped before it has a sample is removed: it would only be in the
/// way of the next recording.
pub struct Writer {
    path: PathBuf,
    file: File,
    /// Whether the file is kept without a sample.
    is_finished: bool,
    encoder: Encoder,
    block: OpenBlock,
    index: BlockIndex,
    /// Start of the open block.
    block_start: u64,
    /// End of the file.
    file_end: u64,
    /// The number of the next sample.
    seq: u64,
    /// Length of the longest sample frame.
    longest_frame: u64,
    frame: Vec<u8>,
}

impl Writer {
    /// Creates the file, readable by its owner only. Symbolic links are not followed.
    pub fn create(path: &Path, existing: Existing, header: &Header) -> Result<Self, Error> {
        let file = create(path, existing)?;
        let encoder = Encoder::default();
        let open = OpenBlock::new(BlockLimits::default(), encoder.streams());
        let mut writer = Self {
            path: path.to_owned(),
            file,
            is_finished: false,
            encoder,
            block: open,
            index: BlockIndex::default(),
            block_start: 0,
            file_end: 0,
            seq: 0,
            longest_frame: 0,
            frame: header.bytes(),
        };
        writer.append_frame()?;
        writer.block_start = writer.file_end;
        Ok(writer)
    }

    /// Uses other block limits.
    pub fn with_limits(mut self, limits: BlockLimits) -> Self {
        self.block = OpenBlock::new(limits, self.encoder.streams());
        self
    }

    /// Length of the file.
    pub const fn bytes(&self) -> u64 {
        self.file_end
    }

    /// Maximum temporary length of the file with one more sample of similar size.
    pub const fn max_bytes_next(&self) -> u64 {
        let journal = self.file_end - self.block_start + 2 * self.longest_frame;
        self.file_end + journal + self.index.next_bytes()
    }

    /// Whether the file has as many blocks as a reader accepts.
    pub const fn is_full(&self) -> bool {
        self.index.is_full()
    }

    /// Number of samples.
    pub const fn samples(&self) -> u64 {
        self.seq
    }

    /// Appends a sample. If it fails, all earlier samples are in the file.
    pub fn append(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.block.is_empty() {
            self.encoder.reset();
        }
        let piece = match self.encoder.encode(sample) {
            Ok(piece) if piece.len() < PAYLOAD_BYTES / 2 => piece,
            Ok(piece) => return Err(Error::TooLarge { bytes: piece.len() }),
            Err(error) => return Err(error),
        };
        let kind = if self.block.is_empty() { FrameKind::Full } else { FrameKind::Delta };
        let mut payload = Vec::with_capacity(piece.len() + 256);
        piece.write(&mut payload);
        self.frame.clear();
        frame::write(kind, &SampleRange::one(self.seq, sample.at), &payload, &mut self.frame);
        self.block.push(self.seq, sample.at, piece);
        if let Err(error) = self.append_frame() {
            // Earlier samples stay in the file; the next sample is encoded in full.
            self.block.clear();
            self.block_start = self.file_end;
            return Err(error);
        }
        self.longest_frame = self.longest_frame.max(self.frame.len() as u64);
        self.seq += 1;
        if self.block.is_full() { self.compact() } else { Ok(()) }
    }

    /// Compresses the open block; returns the length of the file. If it fails, all samples stay
    /// readable.
    pub fn finish(mut self) -> Result<u64, Error> {
        if !self.block.is_empty() {
            self.compact()?;
        }
        self.sync()?;
        self.is_finished = true;
        Ok(self.file_end)
    }

    /// Appends `frame` to the file; truncates a partial write.
    fn append_frame(&mut self) -> Result<(), Error> {
        match self.file.write_all_at(&self.frame, self.file_end) {
            Ok(()) => {
                self.file_end += self.frame.len() as u64;
                Ok(())
            }
            Err(source) => {
                // If this fails too, the reader skips the partial frame.
                let _ = self.file.set_len(self.file_end);
                Err(self.file_error("write", source))
            }
        }
    }

    fn compact(&mut self) -> Result<(), Error> {
        let (range, journal) = (*self.block.range(), self.file_end - self.block_start);
        self.frame.clear();
        let compressed = self.block.close(&mut self.frame);
        compressed.map_err(|source| self.file_error("compress", source))?;
        let block = self.frame.len() as u64;
        let behind = self.file_end;
        self.append_frame()?;
        self.sync()?;
        // The copy over the samples must not overwrite the block after them.
        let fits = block + self.index.next_bytes() <= journal;
        let offset = if fits { self.block_start } else { behind };
        let entry = IndexEntry { offset, kind: FrameKind::Block, range };
        self.index.write(entry, offset + block, &mut self.frame);
        let written = self.file.write_all_at(&self.frame, offset);
        let end = offset + self.frame.len() as u64;
        written.map_err(|source| self.file_error("write", source))?;
        if fits {
            self.sync()?;
            let cut = self.file.set_len(end);
            cut.map_err(|source| self.file_error("truncate", source))?;
        }
        (self.block_start, self.file_end) = (end, end);
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|source| self.file_error("flush", source))
    }

    fn file_error(&self, act: &'static str, source: std::io::Error) -> Error {
        Error::File { act, path: self.path.clone(), source }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.seq == 0 && !self.is_finished {
            remove(&self.path, &self.file);
        }
    }
}

/// Removes a file that could not be written, unless the path names another file by now.
pub fn remove(path: &Path, file: &File) {
    let id = |it: std::fs::Metadata| (it.dev(), it.ino());
    let ours = file.metadata().map(id);
    let there = std::fs::symlink_metadata(path).map(id);
    if let (Ok(ours), Ok(there)) = (ours, there)
        && ours == there
    {
        // If this fails, the next run says that the file exists.
        let _ = std::fs::remove_file(path);
    }
}

/// Creates a file that only its owner can read; replaces an existing one only if requested.
pub fn create(path: &Path, existing: Existing) -> Result<File, Error> {
    let failure = |act, source| Error::File { act, path: path.to_owned(), source };
    if existing == Existing::Replace {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failure("replace", error));
            }
            _ => {}
        }
    }
    create_new(path).map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => failure("create", source),
    })
}

/// `O_EXCL` already refuses symbolic links; `O_NOFOLLOW` states it explicitly.
fn create_new(path: &Path) -> Answer<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
}

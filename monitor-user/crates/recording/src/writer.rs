//! Writing a recording so that it survives us.
//!
//! In: samples. Out: a file in which each sample is a frame of its own at once, and about a minute
//! of them become one compressed block.
//!
//! ```text
//!  header  block  list  block  list  sample sample sample
//!                                    ^ the open block
//! ```
//!
//! When the open block is full, its compressed form is written behind it, then over it, then the
//! rest is cut off. Whenever we are killed, one of the forms is whole. Between the steps the file
//! is flushed, so that this holds for a loss of power too.

use super::block::{Limits, Open};
use super::codec::Encoder;
use super::error::Error;
use super::frame::{self, Kind, PAYLOAD_BYTES, Stretch};
use super::header::Header;
use super::index::{Chapters, Entry};
use monitor_model::sample::Sample;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result as Answer};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and nothing is written.
    Keep,
    /// It is taken away first.
    Replace,
}

/// Writes one file.
pub struct Writer {
    path: PathBuf,
    file: File,
    encoder: Encoder,
    open: Open,
    chapters: Chapters,
    /// Where the open block begins, and the file ends.
    begins: u64,
    ends: u64,
    /// The number of the next sample.
    seq: u64,
    /// The longest frame of a sample.
    longest: u64,
    frame: Vec<u8>,
}

impl Writer {
    /// Makes the file, for its owner only. A link in its place is not followed.
    pub fn create(path: &Path, existing: Existing, header: &Header) -> Result<Self, Error> {
        let file = create(path, existing)?;
        let encoder = Encoder::default();
        let open = Open::new(Limits::default(), encoder.streams());
        let mut it = Self {
            path: path.to_owned(),
            file,
            encoder,
            open,
            chapters: Chapters::default(),
            begins: 0,
            ends: 0,
            seq: 0,
            longest: 0,
            frame: header.bytes(),
        };
        it.append_frame()?;
        it.begins = it.ends;
        Ok(it)
    }

    /// With blocks of another size.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.open = Open::new(limits, self.encoder.streams());
        self
    }

    /// Bytes of the file until now.
    pub const fn bytes(&self) -> u64 {
        self.ends
    }

    /// The most that the file takes for a moment with one sample more like the last.
    pub const fn most_bytes_next(&self) -> u64 {
        let journal = self.ends - self.begins + 2 * self.longest;
        self.ends + journal + self.chapters.next_bytes()
    }

    /// Samples until now.
    pub const fn samples(&self) -> u64 {
        self.seq
    }

    /// Appends a sample. If that fails, all samples before it are in the file.
    pub fn append(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.open.is_empty() {
            self.encoder.begin();
        }
        let piece = match self.encoder.encode(sample) {
            Ok(piece) if piece.len() < PAYLOAD_BYTES / 2 => piece,
            Ok(piece) => return Err(Error::TooLarge { bytes: piece.len() }),
            Err(error) => return Err(error),
        };
        let kind = if self.open.is_empty() { Kind::Whole } else { Kind::Change };
        let mut payload = Vec::with_capacity(piece.len() + 256);
        piece.write(&mut payload);
        self.frame.clear();
        frame::write(kind, &Stretch::one(self.seq, sample.at), &payload, &mut self.frame);
        self.open.push(self.seq, sample.at, piece);
        if let Err(error) = self.append_frame() {
            // What is in the file stays; the next sample does not build on this one.
            self.open.clear();
            self.begins = self.ends;
            return Err(error);
        }
        self.longest = self.longest.max(self.frame.len() as u64);
        self.seq += 1;
        if self.open.is_full() { self.compact() } else { Ok(()) }
    }

    /// Compresses what is open, and says how many bytes the file has then. What was written stays
    /// readable if this fails.
    pub fn finish(mut self) -> Result<u64, Error> {
        if !self.open.is_empty() {
            self.compact()?;
        }
        self.sync()?;
        Ok(self.ends)
    }

    /// Writes what is in `frame` at the end; cuts off what could be written of it, if not all can.
    fn append_frame(&mut self) -> Result<(), Error> {
        match self.file.write_all_at(&self.frame, self.ends) {
            Ok(()) => {
                self.ends += self.frame.len() as u64;
                Ok(())
            }
            Err(source) => {
                // If this fails too, the reader finds the end by itself.
                let _ = self.file.set_len(self.ends);
                Err(self.refused("write", source))
            }
        }
    }

    fn compact(&mut self) -> Result<(), Error> {
        let (stretch, journal) = (*self.open.stretch(), self.ends - self.begins);
        self.frame.clear();
        let packed = self.open.close(&mut self.frame);
        packed.map_err(|source| self.refused("compress", source))?;
        let block = self.frame.len() as u64;
        let behind = self.ends;
        self.append_frame()?;
        self.sync()?;
        // What is written over the samples must not reach into the block behind them.
        let fits = block + self.chapters.next_bytes() <= journal;
        let offset = if fits { self.begins } else { behind };
        let entry = Entry { offset, kind: Kind::Block, stretch };
        self.chapters.write(entry, offset + block, &mut self.frame);
        let written = self.file.write_all_at(&self.frame, offset);
        let end = offset + self.frame.len() as u64;
        written.map_err(|source| self.refused("write", source))?;
        if fits {
            self.sync()?;
            let cut = self.file.set_len(end);
            cut.map_err(|source| self.refused("shorten", source))?;
        }
        (self.begins, self.ends) = (end, end);
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|source| self.refused("flush", source))
    }

    fn refused(&self, act: &'static str, source: std::io::Error) -> Error {
        Error::File { act, path: self.path.clone(), source }
    }
}

/// Makes a file for its owner only, in place of what is there or not at all.
pub fn create(path: &Path, existing: Existing) -> Result<File, Error> {
    let refused = |act, source| Error::File { act, path: path.to_owned(), source };
    if existing == Existing::Replace {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(refused("replace", error));
            }
            _ => {}
        }
    }
    create_new(path).map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => refused("create", source),
    })
}

/// `O_EXCL` alone does not follow a link; that no flag of ours may ever do, is said twice.
fn create_new(path: &Path) -> Answer<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(path)
}

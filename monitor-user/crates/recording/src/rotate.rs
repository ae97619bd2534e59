//! Rotation: consecutive recordings under one name, each within limits.
//!
//! In: samples. Out: `FILE`, and older ones in `FILE.1`, `FILE.2` and so on; the oldest are
//! deleted. Each file is self-contained. Without rotation, the first limit ends the recording.

use super::{Error, Existing, Header, Writer};
use monitor_model::{Ns, Sample};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Path and limits.
#[derive(Clone, Debug)]
pub struct RotateOptions {
    /// The newest file.
    pub path: PathBuf,
    /// What to do with an existing file.
    pub existing: Existing,
    /// Maximum bytes of a file, unless its first sample alone is larger.
    pub max_bytes: Option<u64>,
    /// Maximum time from the first to the last sample of a file.
    pub max_time: Option<Ns>,
    /// Number of older files to keep; with `None`, a limit ends the recording.
    pub kept: Option<u32>,
}

/// The result of appending a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The sample was written.
    Appended,
    /// A limit was reached; the recording is finished.
    LimitReached,
}

/// Writes recordings with rotation.
pub struct RotatingWriter {
    options: RotateOptions,
    header: Header,
    /// `None` after a limit ended the recording.
    writer: Option<Writer>,
    /// Time of the first sample of the file.
    began: Option<Ns>,
    /// Samples and bytes in earlier files.
    finished: (u64, u64),
}

impl RotatingWriter {
    /// Creates the first file.
    pub fn create(options: RotateOptions, header: Header) -> Result<Self, Error> {
        let writer = Writer::create(&options.path, options.existing, &header)?;
        Ok(Self { options, header, writer: Some(writer), began: None, finished: (0, 0) })
    }

    /// Samples and bytes written to all files.
    pub fn written(&self) -> (u64, u64) {
        let (samples, bytes) = self.finished;
        let own = self.writer.as_ref().map_or((0, 0), |it| (it.samples(), it.bytes()));
        (samples + own.0, bytes + own.1)
    }

    /// Appends a sample, to a new file if it exceeds a limit of this one.
    pub fn append(&mut self, sample: &Sample) -> Result<WriteOutcome, Error> {
        let Some(writer) = &mut self.writer else { return Ok(WriteOutcome::LimitReached) };
        let began = *self.began.get_or_insert(sample.at.boot);
        let long = self.options.max_time.is_some_and(|most| sample.at.boot.since(began) >= most);
        let large = self.options.max_bytes.is_some_and(|most| writer.max_bytes_next() > most);
        let large = large || writer.is_full();
        if writer.samples() > 0 && (long || large) {
            self.rotate(sample)?;
        }
        match &mut self.writer {
            Some(writer) => writer.append(sample).map(|()| WriteOutcome::Appended),
            None => Ok(WriteOutcome::LimitReached),
        }
    }

    /// Finishes the current file.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.finished = self.written();
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let bytes = writer.bytes();
        self.finished.1 = self.finished.1 - bytes + writer.finish()?;
        Ok(())
    }

    /// Finishes the file. With rotation, renames it and the older ones and creates a new one.
    fn rotate(&mut self, next: &Sample) -> Result<(), Error> {
        self.finish()?;
        let Some(kept) = self.options.kept else { return Ok(()) };
        for place in (0..kept).rev() {
            let (from, to) = (self.name(place), self.name(place + 1));
            match std::fs::rename(&from, &to) {
                Err(source) if source.kind() != ErrorKind::NotFound => {
                    return Err(Error::File { act: "rename", path: from, source });
                }
                _ => {}
            }
        }
        self.header.started_unix_ns = next.at.unix.0;
        // If no older files are kept, the file itself is replaced.
        let writer = Writer::create(&self.options.path, Existing::Replace, &self.header)?;
        (self.writer, self.began) = (Some(writer), Some(next.at.boot));
        Ok(())
    }

    /// The name of an older file; 0 is the newest.
    fn name(&self, place: u32) -> PathBuf {
        rotated_path(&self.options.path, place)
    }
}

/// The name of an older file.
pub fn rotated_path(path: &Path, place: u32) -> PathBuf {
    if place == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{place}"));
    name.into()
}

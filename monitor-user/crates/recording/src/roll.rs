//! Recordings that follow each other under one name, each within its limits.
//!
//! In: samples. Out: `FILE`, and before it `FILE.1`, `FILE.2` and so on, the oldest of which go.
//! Each can be read alone. Without a number of files to keep, the first limit ends it.

use super::error::Error;
use super::header::Header;
use super::writer::{Existing, Writer};
use monitor_model::id::Ns;
use monitor_model::sample::Sample;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where, and within which limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// The newest file.
    pub path: PathBuf,
    /// What becomes of one that is there.
    pub existing: Existing,
    /// Most bytes of a file, if its first sample does not take more.
    pub most_bytes: Option<u64>,
    /// Longest time from the first sample of a file to its last.
    pub most_time: Option<Ns>,
    /// How many older files stay; if none is said, a limit ends the recording.
    pub kept: Option<u32>,
}

/// Whether there is room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Left,
    /// A limit was reached, and all is finished.
    Over,
}

/// Writes recordings.
pub struct Roll {
    options: Options,
    header: Header,
    /// Absent once a limit ended it.
    writer: Option<Writer>,
    /// When the first sample of the file was taken.
    began: Option<Ns>,
    /// What was written into files before this one.
    before: (u64, u64),
}

impl Roll {
    /// Makes the first file.
    pub fn create(options: Options, header: Header) -> Result<Self, Error> {
        let writer = Writer::create(&options.path, options.existing, &header)?;
        Ok(Self { options, header, writer: Some(writer), began: None, before: (0, 0) })
    }

    /// Samples and bytes of all files until now.
    pub fn written(&self) -> (u64, u64) {
        let (samples, bytes) = self.before;
        let own = self.writer.as_ref().map_or((0, 0), |it| (it.samples(), it.bytes()));
        (samples + own.0, bytes + own.1)
    }

    /// Appends a sample, in a new file if it has no room in this one.
    pub fn append(&mut self, sample: &Sample) -> Result<Room, Error> {
        let Some(writer) = &mut self.writer else { return Ok(Room::Over) };
        let began = *self.began.get_or_insert(sample.at.boot);
        let long = self.options.most_time.is_some_and(|most| sample.at.boot.since(began) >= most);
        let large = self.options.most_bytes.is_some_and(|most| writer.most_bytes_next() > most);
        if writer.samples() > 0 && (long || large) {
            self.turn(sample)?;
        }
        match &mut self.writer {
            Some(writer) => writer.append(sample).map(|()| Room::Left),
            None => Ok(Room::Over),
        }
    }

    /// Compresses what is open.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.before = self.written();
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let bytes = writer.bytes();
        self.before.1 = self.before.1 - bytes + writer.finish()?;
        Ok(())
    }

    /// Ends the file; moves it and those before it one place on, and begins another, if files
    /// are to be kept.
    fn turn(&mut self, next: &Sample) -> Result<(), Error> {
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
        // Where none are kept, the file itself gives way.
        let writer = Writer::create(&self.options.path, Existing::Replace, &self.header)?;
        (self.writer, self.began) = (Some(writer), Some(next.at.boot));
        Ok(())
    }

    /// The name of an older file; 0 is the newest.
    fn name(&self, place: u32) -> PathBuf {
        older(&self.options.path, place)
    }
}

/// The name of an older file.
pub fn older(path: &Path, place: u32) -> PathBuf {
    if place == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{place}"));
    name.into()
}

//! A recording that is read.
//!
//! In: a file. Out: its samples in order, from wherever somebody seeks. What is damaged is left
//! out, and the sample after it says how many are missing.

use super::block::unpack;
use super::codec::Decoder;
use super::error::Error;
use super::frame::{Kind, Stretch};
use super::header::{Beginning, HEADER_BYTES, Header, PREAMBLE_BYTES, VERSION, beginning};
use super::index::{self, Entry};
use super::scan::{self, Found};
use super::stream::Inputs;
use monitor_model::id::Ns;
use monitor_model::sample::{Instant, Note, Sample};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often a file is looked through that becomes shorter meanwhile; a recorder ends a block once
/// a minute.
const ATTEMPTS: usize = 100;

/// From when to when a recording goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// When its first sample was taken.
    pub first: Instant,
    /// When its last.
    pub last: Instant,
    /// How many there are, damaged ones not counted as far as that is known.
    pub samples: u64,
}

/// A recording.
pub struct Recording {
    path: PathBuf,
    file: File,
    header: Header,
    /// Frames by the numbers of their samples; of two with the same, blocks first.
    entries: Vec<Entry>,
    cut_at: Option<u64>,
    /// The number after the last sample that a list of blocks tells of.
    told: u64,
    decoder: Decoder,
    /// The next frame.
    next: usize,
    /// The frame that is being read, and how many samples are left in it.
    reading: Option<(Inputs, u32)>,
    /// The number of the sample that the decoder holds.
    held: Option<u64>,
    /// The number of the next sample, if nothing is missing.
    due: u64,
    /// Samples left out since the last that was given.
    missing: u64,
}

impl Recording {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::of(opened(path)?, path)
    }

    /// Of a file that is open; `path` is what it is called.
    pub fn of(file: File, path: &Path) -> Result<Self, Error> {
        let (header, samples_at) = read_header(&file, path, length_of(&file, path)?)?;
        let decoder = Decoder::new(&header.sheets).ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: "its header names sheets that cannot be".into(),
        })?;
        let found = find(&file, path, samples_at)?;
        let mut it = Self {
            path: path.to_owned(),
            file,
            header,
            told: found.told,
            cut_at: found.cut_at,
            entries: found.entries,
            decoder,
            next: 0,
            reading: None,
            held: None,
            due: 0,
            missing: 0,
        };
        it.due = it.header.first;
        it.entries.sort_by_key(|it| (it.stretch.seq, it.kind != Kind::Block));
        Ok(it)
    }

    /// Whose it is and what is in it.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Which file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From when to when it goes; nothing, if it has no sample.
    pub fn span(&self) -> Option<Span> {
        let first = self.entries.first()?.stretch.first;
        let last = self.entries.iter().max_by_key(|it| it.stretch.end())?.stretch.last;
        let (mut samples, mut end) = (0, 0);
        for Entry { stretch, .. } in &self.entries {
            samples += stretch.end().saturating_sub(end.max(stretch.seq));
            end = end.max(stretch.end());
        }
        Some(Span { first, last, samples })
    }

    /// Whether its last samples are not in a block yet: somebody writes it, or was killed.
    pub fn at_work(&self) -> bool {
        self.entries.last().is_none_or(|it| it.kind != Kind::Block)
    }

    /// What is missing behind the last sample, once that was given.
    pub fn at_end(&self) -> Vec<Note> {
        let path = self.path.display();
        let end = self.entries.iter().map(|it| it.stretch.end());
        let end = end.chain([self.told, self.due]).max().unwrap_or(0);
        let damaged = end.saturating_sub(self.due);
        let damaged = (damaged > 0)
            .then(|| Note::missing(format!("the last {damaged} samples are damaged in {path}")));
        let cut = self
            .cut_at
            .map(|at| Note::missing(format!("{path} is cut or damaged from byte {at} on")));
        damaged.into_iter().chain(cut).collect()
    }

    /// The next sample. Its rates are not set.
    #[expect(clippy::should_implement_trait, reason = "it can fail, and can be wound back")]
    pub fn next(&mut self) -> Result<Option<Sample>, Error> {
        if !self.advance()? {
            return Ok(None);
        }
        let mut sample = self.decoder.sample();
        match std::mem::take(&mut self.missing) {
            0 => {}
            missing => sample.notes.push(Note::missing(format!(
                "{missing} samples before this one are damaged in {}",
                self.path.display()
            ))),
        }
        Ok(Some(sample))
    }

    /// Goes to a time on the realtime clock: the next sample is the last one at or before it, or
    /// the first there is.
    pub fn seek(&mut self, at: Ns) -> Result<(), Error> {
        let begins = |it: &Entry| it.kind != Kind::Change && it.stretch.first.unix <= at;
        let Some(place) = self.entries.iter().rposition(begins) else {
            self.rewind(0);
            return Ok(());
        };
        self.rewind(place);
        let mut before = 0_u64;
        while self.advance()? && self.decoder.at().unix <= at {
            before += 1;
        }
        self.rewind(place);
        for _ in 1..before {
            let _there = self.advance()?;
        }
        self.missing = 0;
        Ok(())
    }

    fn rewind(&mut self, place: usize) {
        self.next = place;
        (self.reading, self.held, self.missing) = (None, None, 0);
        self.due = match place {
            0 => self.header.first,
            _ => self.entries.get(place).map_or(0, |it| it.stretch.seq),
        };
    }

    /// Has the decoder hold the next sample that can be read.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if let Some((inputs, left)) = &mut self.reading {
                *left -= 1;
                let whole = self.decoder.advance(inputs).is_ok();
                let over = *left == 0 || !whole;
                if over {
                    self.reading = None;
                }
                if whole {
                    self.held = self.held.map_or(Some(self.due), |held| Some(held + 1));
                    self.due += 1;
                    return Ok(true);
                }
                self.held = None;
                continue;
            }
            let Some(entry) = self.entries.get(self.next).copied() else { return Ok(false) };
            self.next += 1;
            self.begin(&entry)?;
        }
    }

    /// Begins to read a frame, if it has samples that are still due and is whole.
    fn begin(&mut self, entry: &Entry) -> Result<(), Error> {
        let Stretch { seq, count, .. } = entry.stretch;
        // A block that was read in part before it turned out to be damaged is not read twice.
        if seq < self.due || count == 0 {
            return Ok(());
        }
        let follows = seq.checked_sub(1).is_some_and(|before| self.held == Some(before));
        if entry.kind == Kind::Change && !follows {
            return Ok(());
        }
        let Some(inputs) = self.load(entry) else { return Ok(()) };
        if entry.kind != Kind::Change {
            self.decoder.begin();
        }
        self.missing += seq - self.due;
        self.due = seq;
        self.held = seq.checked_sub(1);
        self.reading = Some((inputs, count));
        Ok(())
    }

    fn load(&self, entry: &Entry) -> Option<Inputs> {
        let (head, payload) = index::read(&self.file, entry.offset)?;
        let streams = self.decoder.streams();
        match head.kind {
            Kind::Block => unpack(&payload, streams).ok(),
            _ => Inputs::new(payload, streams).ok(),
        }
    }
}

fn opened(path: &Path) -> Result<File, Error> {
    // Whoever opens a pipe without this waits for its other end.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    file.map_err(|it| unread(path, it))
}

/// The length of a regular file. No pipe: it cannot be seeked in.
fn length_of(file: &File, path: &Path) -> Result<u64, Error> {
    let about = file.metadata().map_err(|it| unread(path, it))?;
    if !about.is_file() {
        let why = "it is not a regular file";
        return Err(Error::Foreign { path: path.to_owned(), why });
    }
    Ok(about.len())
}

/// Its frames. A recorder that ends a block puts a shorter one in the place of its frames, so the
/// file may be shorter than it was a moment ago: then it is looked through anew.
fn find(file: &File, path: &Path, samples_at: u64) -> Result<Found, Error> {
    let mut attempts = ATTEMPTS;
    loop {
        let bytes = length_of(file, path)?;
        if let Some(entries) = index::load(file, bytes) {
            return Ok(Found { entries, ..Found::default() });
        }
        match scan::scan(file, samples_at, bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && attempts > 0 => attempts -= 1,
            found => return found.map_err(|it| unread(path, it)),
        }
    }
}

fn unread(path: &Path, source: std::io::Error) -> Error {
    Error::File { act: "read", path: path.to_owned(), source }
}

/// The header, and where the samples begin.
fn read_header(file: &File, path: &Path, length: u64) -> Result<(Header, u64), Error> {
    let path = || path.to_owned();
    let mut bytes = [0; PREAMBLE_BYTES];
    let known = match file.read_exact_at(&mut bytes, 0).map(|()| beginning(&bytes)) {
        Ok(Beginning::Version(version)) if version > VERSION => {
            return Err(Error::Newer { path: path(), version, known: VERSION });
        }
        Ok(Beginning::Version(_)) => true,
        _ => false,
    };
    let mut at = PREAMBLE_BYTES as u64;
    for _ in 0..2 {
        let frame = index::read(file, at).filter(|(head, _)| head.kind == Kind::Header);
        let header = frame.and_then(|(_, payload)| Header::from_json(&payload));
        if let Some(header) = header {
            return Ok((header, at));
        }
        at = scan::next_mark(file, at + 1, length.min(HEADER_BYTES as u64))
            .map_err(|it| unread(&path(), it))?;
    }
    Err(match known {
        true => Error::Damaged { path: path(), what: "its header is cut or damaged".into() },
        false => Error::Foreign { path: path(), why: "it does not begin as one" },
    })
}

//! The files of `agg/`: names, attributes, and how each is opened.

use super::super::event_file::EventFile;
use super::control::AggregatorControlFile;
use super::fan_in::FanIn;
use super::fresh::{CountedText, FreshFile};
use super::table::{Aggregator, EventReaderGuard};
use super::text;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_ninep::stat::{Attributes, Qid};
use monitor_ninep::tree::{OpenMode, ReadRange};
use monitor_ninep::{Errno, FileError, User};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The name of the directory.
pub const AGG: &str = "agg";
/// The bit of a qid path that says: a file of `agg/`.
const AGG_BIT: u64 = 1 << 59;

/// A file of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregatorFile {
    /// The directory.
    Directory,
    /// Commands.
    Control,
    /// Which numbers the records of children have.
    Desc,
    /// The next events of children, once for each open.
    Event,
    /// The records of a round that is made for the read.
    Fresh,
    /// The last record of each child.
    Pull,
    /// Records of children as they arrive.
    Push,
    /// What is known of each child.
    Tree,
}

/// The files in the order in which they are listed.
const FILES: [(AggregatorFile, &str); 7] = [
    (AggregatorFile::Control, "ctl"),
    (AggregatorFile::Desc, "desc"),
    (AggregatorFile::Event, "event"),
    (AggregatorFile::Fresh, "fresh"),
    (AggregatorFile::Pull, "pull"),
    (AggregatorFile::Push, "push"),
    (AggregatorFile::Tree, "tree"),
];

/// An open file.
pub enum OpenAggregatorFile {
    /// A text, made by a read from 0.
    Text(Arc<Aggregator>, AggregatorFile, CountedText),
    /// Commands, and what is set.
    Control(AggregatorControlFile, Bytes),
    /// The next events.
    Event(AggregatedEvents),
    /// A round for each read from 0.
    Fresh(FreshFile),
    /// Records as they arrive.
    Push(PushReader),
}

/// A reader of `event`.
pub struct AggregatedEvents {
    file: EventFile,
    /// While it is there, events of children are followed.
    _reader: EventReaderGuard,
}

/// A reader of `push`, until it is dropped.
pub struct PushReader {
    aggregator: Arc<Aggregator>,
    queue: Arc<FanIn>,
}

impl Drop for PushReader {
    fn drop(&mut self) {
        self.aggregator.remove_reader(&self.queue);
    }
}

/// The file of this name; `None` for the parent of the directory.
///
/// # Errors
///
/// When there is none.
pub fn walk(from: AggregatorFile, name: &str) -> Result<Option<AggregatorFile>, FileError> {
    let absent = || FileError::new(Errno::NotFound, format!("there is no file {name:?}"));
    match from {
        AggregatorFile::Directory if name == ".." => Ok(None),
        AggregatorFile::Directory => {
            let found = FILES.iter().find(|it| it.1 == name).map(|it| it.0);
            found.map(Some).ok_or_else(absent)
        }
        _ => Err(absent()),
    }
}

/// The attributes of a file; `base` has the owner, and when the service began.
pub fn attributes(file: AggregatorFile, of: &Aggregator, base: &Attributes) -> Attributes {
    let listed = (1..).zip(&FILES).find(|it| it.1.0 == file);
    let (qid, name) = match listed {
        Some((at, (_, name))) => (Qid::file(AGG_BIT | at), *name),
        None => (Qid::directory(AGG_BIT), AGG),
    };
    let permissions = match file {
        AggregatorFile::Directory => 0o555,
        AggregatorFile::Control => 0o644,
        _ => 0o444,
    };
    let length = text(of, file).len() as u64;
    Attributes { qid, permissions, length, name: name.to_owned(), ..base.clone() }
}

/// The attributes of the files of a directory.
pub fn entries(directory: AggregatorFile, of: &Aggregator, base: &Attributes) -> Vec<Attributes> {
    if directory != AggregatorFile::Directory {
        return Vec::new();
    }
    FILES.map(|it| attributes(it.0, of, base)).to_vec()
}

/// Whether it is the file of commands.
pub fn is_control(file: AggregatorFile) -> bool {
    file == AggregatorFile::Control
}

/// Opens a file.
///
/// # Errors
///
/// When it cannot be opened so, or too many are.
pub fn open(
    aggregator: &Arc<Aggregator>,
    (user, share): (&User, &Arc<UserShare>),
    file: AggregatorFile,
    mode: OpenMode,
) -> Result<OpenAggregatorFile, FileError> {
    if (mode.write || mode.truncate) && !is_control(file) {
        // Root passes the permission bits.
        return Err(FileError::new(Errno::NotPermitted, "this file is only read"));
    }
    let own = || Arc::clone(aggregator);
    Ok(match file {
        AggregatorFile::Control => OpenAggregatorFile::Control(
            AggregatorControlFile::new(aggregator, user.uid),
            Bytes::new(),
        ),
        AggregatorFile::Event => {
            let places = aggregator.places.user_places(user.uid);
            let events = EventFile::new(&aggregator.events, (places, None), None);
            OpenAggregatorFile::Event(AggregatedEvents {
                file: events,
                _reader: aggregator.event_reader(),
            })
        }
        AggregatorFile::Fresh => {
            OpenAggregatorFile::Fresh(FreshFile::new(own(), Arc::clone(share)))
        }
        AggregatorFile::Push => {
            let why = "too many files agg/push are open: close one";
            let refused = || FileError::new(Errno::TryAgain, why);
            let queue = aggregator.add_reader(user.uid).ok_or_else(refused)?;
            OpenAggregatorFile::Push(PushReader { aggregator: own(), queue })
        }
        file => OpenAggregatorFile::Text(own(), file, CountedText::new(Arc::clone(share))),
    })
}

/// The text of a file that is read at once.
fn text(of: &Aggregator, file: AggregatorFile) -> Bytes {
    match file {
        AggregatorFile::Control => text::settings(of).into(),
        AggregatorFile::Desc => text::description(of).into(),
        AggregatorFile::Pull => text::last_records(of).into(),
        AggregatorFile::Tree => text::tree(of).into(),
        // Those that wait, and the directory.
        AggregatorFile::Directory
        | AggregatorFile::Event
        | AggregatorFile::Fresh
        | AggregatorFile::Push => Bytes::new(),
    }
}

impl OpenAggregatorFile {
    /// The bytes of a range.
    pub fn poll_read(
        &mut self,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        match self {
            Self::Text(aggregator, file, kept) => {
                let kept = kept.read(range.offset, || text(aggregator, *file));
                Poll::Ready(kept.map(|it| range.part(&it)))
            }
            Self::Control(control, kept) => {
                if range.offset == 0 {
                    *kept = control.text();
                }
                Poll::Ready(Ok(range.part(kept)))
            }
            Self::Event(events) => events.file.poll_read(range, context).map(Ok),
            Self::Fresh(file) => file.poll(range.offset, context).map_ok(|it| range.part(&it)),
            Self::Push(reader) => reader.queue.poll(range.count, context).map(Ok),
        }
    }

    /// Carries out commands.
    ///
    /// # Errors
    ///
    /// As the first that fails; when the file has none.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        match self {
            Self::Control(control, _) => control.write(content),
            _ => Err(FileError::new(Errno::NotPermitted, "this file is only read")),
        }
    }

    /// A transfer is not waited for any longer.
    pub fn abandon(&mut self) {
        if let Self::Fresh(file) = self {
            file.abandon();
        }
    }
}

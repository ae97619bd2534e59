//! The files of `mon/` that wait for what happens: `event`, `log` and `push`, of the node and of a
//! session, as one connection has them.
//!
//! In: opens, reads, and filters. Out: lines of the log of events, or samples. What is followed for
//! a session is shared by all connections, what is followed for the node by those of a user.

use super::event_feed::{EventFeed, FeedSource, NodeFeed};
use super::event_log::EventReader;
use super::followed_event::NODE_EVENTS;
use super::identity::user_peer;
use super::mon_file::MonFile;
use super::node::NodeFiles;
use super::push_file::{PushFile, PushSource};
use super::session::{LiveSession, file_error};
use crate::lock::lock;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_control::session::SessionHold;
use monitor_ninep::tree::{Deferred, OpenMode, ReadRange};
use monitor_ninep::{Errno, FileError, User};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// How long a reader that opens the file again and again leaves it closed.
const REOPEN_TIME: Duration = Duration::from_secs(2);
/// Most places that are kept for a next open: those of readers that have left.
const MAX_FREE_PLACES: usize = 16;

/// Whose events: those of the node, for a user, or those of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventsOf {
    Node(u32),
    Session(u32),
}

/// The places of a connection that no open file has.
type FreePlaces = Arc<Mutex<BTreeMap<EventsOf, Vec<FreePlace>>>>;

/// The place of an open file that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreePlace {
    /// The number of the first event that it has not had.
    from: u64,
    since: Instant,
}

/// The place of a new open: that which was left last, so that a reader that opens the file again
/// continues where it was, whatever others do. Of several that were left a moment ago, any may be
/// that of this reader: it begins with the oldest event of theirs, and loses none.
fn take_place(free: &mut Vec<FreePlace>, now: Instant) -> Option<u64> {
    let is_recent = |it: &FreePlace| now.saturating_duration_since(it.since) < REOPEN_TIME;
    let recent = || free.iter().enumerate().filter(|it| is_recent(it.1));
    let oldest = recent().map(|it| it.1.from).min();
    // The place that is taken away is the newest: the others still need theirs.
    let newest = recent().max_by_key(|it| it.1.from).map(|it| it.0);
    let last = free.remove(newest.or(free.len().checked_sub(1))?);
    Some(oldest.unwrap_or(last.from))
}

/// The files of one connection.
pub struct MonitorFiles {
    node: Arc<NodeFiles>,
    pid: u32,
    share: Arc<UserShare>,
    /// What is followed of the node, by the uid of the attach: while this connection is there.
    feeds: BTreeMap<u32, Arc<NodeFeed>>,
    free: FreePlaces,
}

impl MonitorFiles {
    /// Those of a connection of this process.
    pub fn new(node: Arc<NodeFiles>, pid: u32, share: Arc<UserShare>) -> Self {
        Self { node, pid, share, feeds: BTreeMap::new(), free: Arc::default() }
    }

    /// Opens a file of the node.
    pub fn open_node(
        &mut self,
        user: &Arc<User>,
        file: MonFile,
        mode: OpenMode,
    ) -> Deferred<OpenMonitorFile> {
        if let Err(error) = check(file, mode) {
            return Deferred::Now(Err(error));
        }
        if file == MonFile::Push {
            let push = PushFile::new(self.push_source(user, None), None);
            return Deferred::Now(Ok(OpenMonitorFile::Push(push)));
        }
        let feed = self.feeds.entry(user.uid).or_insert_with(|| self.node.feeds.feed(user));
        let feed = Arc::clone(feed);
        let source = FeedSource {
            requests: self.node.requests.clone(),
            node: self.node.number,
            peer: user_peer(user, self.pid),
            share: Arc::clone(&self.share),
            events: NODE_EVENTS,
            launcher: None,
        };
        let (of, free) = (EventsOf::Node(user.uid), Arc::clone(&self.free));
        Deferred::Later(Box::pin(async move {
            let feed = feed.get_or_try_init(|| EventFeed::start(source)).await?;
            Ok(opened(file, feed, (&free, of), None))
        }))
    }

    /// Opens a file of a session.
    pub fn open_session(
        &self,
        user: &Arc<User>,
        (session, file): (&Arc<LiveSession>, MonFile),
        mode: OpenMode,
    ) -> Deferred<OpenMonitorFile> {
        let hold = check(file, mode).and_then(|()| session.record.hold().map_err(file_error));
        let hold = match hold {
            Ok(hold) => hold,
            Err(error) => return Deferred::Now(Err(error)),
        };
        let number = session.record.number;
        if file == MonFile::Push {
            let push = PushFile::new(self.push_source(user, Some(Arc::clone(session))), Some(hold));
            return Deferred::Now(Ok(OpenMonitorFile::Push(push)));
        }
        self.forget_ended();
        let (requests, node) = (self.node.requests.clone(), self.node.number);
        let share = Arc::clone(&self.share);
        let (session, free) = (Arc::clone(session), Arc::clone(&self.free));
        Deferred::Later(Box::pin(async move {
            let feed = session.events(requests, (node, share)).await?;
            Ok(opened(file, feed, (&free, EventsOf::Session(number)), Some(hold)))
        }))
    }

    fn push_source(&self, user: &Arc<User>, session: Option<Arc<LiveSession>>) -> PushSource {
        let (node, user) = (Arc::clone(&self.node), Arc::clone(user));
        PushSource { node, user, pid: self.pid, share: Arc::clone(&self.share), session }
    }

    /// Forgets where the connection was in the events of sessions that have ended.
    fn forget_ended(&self) {
        lock(&self.free).retain(|of, _| match of {
            EventsOf::Node(_) => true,
            EventsOf::Session(number) => self.node.sessions.get(*number).is_some(),
        });
    }
}

/// Only a filter is written. A shell that writes truncates, too; there is nothing to be removed.
fn check(file: MonFile, mode: OpenMode) -> Result<(), FileError> {
    // Root passes the permission bits.
    if file != MonFile::Push && (mode.write || mode.truncate) {
        return Err(FileError::new(Errno::NotPermitted, "this file is only read"));
    }
    Ok(())
}

fn opened(
    file: MonFile,
    feed: &EventFeed,
    (free, of): (&FreePlaces, EventsOf),
    hold: Option<SessionHold>,
) -> OpenMonitorFile {
    let reader = feed.log.reader();
    if file == MonFile::Log {
        let begin = feed.log.first_at();
        return OpenMonitorFile::Log(LogFile { reader, begin, _hold: hold });
    }
    // One that no earlier open has left a place for begins with what follows it.
    let place = take_place(lock(free).entry(of).or_default(), Instant::now());
    let from = place.unwrap_or_else(|| feed.log.end());
    let free = (Arc::clone(free), of);
    OpenMonitorFile::Event(EventFile { reader, from, free, text: None, _hold: hold })
}

/// An open file.
pub enum OpenMonitorFile {
    /// `mon/event`
    Event(EventFile),
    /// `mon/log`
    Log(LogFile),
    /// `mon/push`
    Push(PushFile),
}

/// An open `mon/event`.
pub struct EventFile {
    reader: EventReader,
    /// The event that the next batch begins with.
    from: u64,
    /// Where its place goes for a next open of the connection.
    free: (FreePlaces, EventsOf),
    /// The batch that was read.
    text: Option<Bytes>,
    _hold: Option<SessionHold>,
}

impl Drop for EventFile {
    fn drop(&mut self) {
        let (free, of) = &self.free;
        let mut free = lock(free);
        let places = free.entry(*of).or_default();
        if places.len() >= MAX_FREE_PLACES {
            let _oldest = places.remove(0);
        }
        places.push(FreePlace { from: self.from, since: Instant::now() });
    }
}

/// An open `mon/log`.
pub struct LogFile {
    reader: EventReader,
    /// The byte that offset 0 is.
    begin: u64,
    _hold: Option<SessionHold>,
}

impl OpenMonitorFile {
    /// The bytes of a range.
    pub fn poll_read(
        &mut self,
        range: ReadRange,
        context: &Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        match self {
            Self::Event(file) => file.poll_read(range, context).map(Ok),
            Self::Log(file) => {
                let at = file.begin.saturating_add(range.offset);
                let kept = ready!(file.reader.poll_bytes(at, range.count, context));
                let why = "these events are not kept any longer: open the file again";
                Poll::Ready(kept.ok_or_else(|| FileError::new(Errno::Invalid, why)))
            }
            Self::Push(file) => file.poll_read(range.count, context),
        }
    }

    /// Sets a filter.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        match self {
            Self::Push(file) => file.write(content),
            Self::Event(_) | Self::Log(_) => {
                Err(FileError::new(Errno::NotPermitted, "this file is only read"))
            }
        }
    }
}

impl EventFile {
    /// A read from 0 waits for events, reads from other offsets continue in what that has found.
    /// Events are taken with the reply alone: a flushed read leaves them for the next open.
    fn poll_read(&mut self, range: ReadRange, context: &Context<'_>) -> Poll<Bytes> {
        if range.count == 0 {
            return Poll::Ready(Bytes::new());
        }
        if range.offset == 0 || self.text.is_none() {
            let batch = ready!(self.reader.poll_batch(self.from, range.count, context));
            self.from = batch.next;
            self.text = Some(batch.text);
        }
        let text = self.text.clone().unwrap_or_default();
        let start = usize::try_from(range.offset).unwrap_or(usize::MAX).min(text.len());
        let end = start.saturating_add(range.count).min(text.len());
        Poll::Ready(text.slice(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_opens_again_continues_where_it_was_and_none_loses_an_event() {
        let now = Instant::now();
        let place = |from, age| FreePlace { from, since: now - Duration::from_secs(age) };
        let taken = |free: &[FreePlace]| {
            let mut free = free.to_vec();
            let from = take_place(&mut free, now);
            (from, free)
        };
        assert_eq!(taken(&[]), (None, vec![]));
        // Those that have left before are not in the way.
        let left = place(3, 60);
        assert_eq!(taken(&[left, place(7, 0)]), (Some(7), vec![left]));
        assert_eq!(taken(&[left, place(7, 50)]), (Some(7), vec![left]));
        // Two at a time: each may be either.
        let both = [place(7, 1), place(6, 0)];
        assert_eq!(taken(&both), (Some(6), vec![both[1]]));
        assert_eq!(taken(&[both[1]]), (Some(6), vec![]));
    }
}

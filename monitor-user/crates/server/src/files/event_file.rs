//! Open files that read an [`EventLog`]: the next events once for each open, all that are kept, or
//! those that follow as a stream.
//!
//! In: a log, and the places that earlier opens have left. Out: lines. Each open has a place of its
//! own, so that readers at a time do not disturb each other.

use super::event_log::{EventLog, EventReader};
use crate::lock::lock;
use bytes::{Buf, Bytes};
use monitor_control::session::SessionHold;
use monitor_ninep::tree::ReadRange;
use monitor_ninep::{Errno, FileError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// How long a reader that opens the file again and again leaves it closed.
const REOPEN_TIME: Duration = Duration::from_secs(2);
/// Most places that are kept for a next open: those of readers that have left.
const MAX_FREE_PLACES: usize = 16;

/// Users whose places are kept.
const MAX_USERS: usize = 1024;

/// The places that no open file has, in the order in which they were left.
pub type FreePlaces = Arc<Mutex<Vec<FreePlace>>>;

/// Those that each user has left, on whichever connection.
#[derive(Default)]
pub struct UserPlaces(Mutex<BTreeMap<u32, FreePlaces>>);

impl UserPlaces {
    /// Those of a user.
    pub fn user_places(&self, uid: u32) -> FreePlaces {
        let mut all = lock(&self.0);
        if all.len() >= MAX_USERS && !all.contains_key(&uid) {
            all.clear();
        }
        Arc::clone(all.entry(uid).or_default())
    }
}

/// The place of an open file that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreePlace {
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

/// An open file that returns the next events, once for each open: `event` and `notify`.
pub struct EventFile {
    reader: EventReader,
    /// The event that the next batch begins with.
    from: u64,
    /// What the events begin with that it has; all, if it is none.
    begin: Option<String>,
    /// Where its place goes for a next open.
    free: FreePlaces,
    /// The batch that was read.
    text: Option<Bytes>,
    _hold: Option<SessionHold>,
}

impl EventFile {
    /// Opened; with `begin`, for the events whose content begins so.
    pub fn new(
        log: &Arc<EventLog>,
        (free, begin): (FreePlaces, Option<String>),
        hold: Option<SessionHold>,
    ) -> Self {
        // One that no earlier open has left a place for begins with what follows it.
        let place = take_place(&mut lock(&free), Instant::now());
        let from = place.unwrap_or_else(|| log.end());
        Self { reader: log.reader(), from, begin, free, text: None, _hold: hold }
    }

    /// A read from 0 waits for events, reads from other offsets continue in what that has found.
    /// Events are taken with the reply alone: a flushed read leaves them for the next open.
    pub fn poll_read(&mut self, range: ReadRange, context: &Context<'_>) -> Poll<Bytes> {
        if range.count == 0 {
            return Poll::Ready(Bytes::new());
        }
        if range.offset == 0 || self.text.is_none() {
            self.text = Some(ready!(self.poll_batch(range.count, context)));
        }
        Poll::Ready(self.text.as_ref().map(|it| range.part(it)).unwrap_or_default())
    }

    /// The next lines that it has; none at the end.
    fn poll_batch(&mut self, most: usize, context: &Context<'_>) -> Poll<Bytes> {
        loop {
            let begin = self.begin.as_deref();
            let batch = ready!(self.reader.poll_batch((self.from, begin), most, context));
            let has_skipped = batch.text.is_empty() && batch.next > self.from;
            self.from = batch.next;
            if !has_skipped {
                return Poll::Ready(batch.text);
            }
        }
    }
}

impl Drop for EventFile {
    fn drop(&mut self) {
        let mut places = lock(&self.free);
        if places.len() >= MAX_FREE_PLACES {
            let _oldest = places.remove(0);
        }
        places.push(FreePlace { from: self.from, since: Instant::now() });
    }
}

/// An open file that returns what is kept, by offsets: `log`.
pub struct LogFile {
    reader: EventReader,
    /// The byte that offset 0 is.
    begin: u64,
    _hold: Option<SessionHold>,
}

impl LogFile {
    /// Opened, at the oldest event that is kept.
    pub fn new(log: &Arc<EventLog>, hold: Option<SessionHold>) -> Self {
        Self { reader: log.reader(), begin: log.first_at(), _hold: hold }
    }

    /// The bytes of a range.
    pub fn poll_read(
        &self,
        range: ReadRange,
        context: &Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        let at = self.begin.saturating_add(range.offset);
        let kept = ready!(self.reader.poll_bytes(at, range.count, context));
        let why = "these events are not kept any longer: open the file again";
        Poll::Ready(kept.ok_or_else(|| FileError::new(Errno::Invalid, why)))
    }
}

/// An open file that returns what follows its open, one read after another: `changes`.
pub struct StreamFile {
    reader: EventReader,
    /// The event that follows what was read.
    from: u64,
    /// The rest of what was longer than a read.
    rest: Bytes,
}

impl StreamFile {
    /// Opened.
    pub fn new(log: &Arc<EventLog>) -> Self {
        Self { reader: log.reader(), from: log.end(), rest: Bytes::new() }
    }

    /// Lines that have not been read, at most this number of bytes.
    pub fn poll_read(&mut self, most: usize, context: &Context<'_>) -> Poll<Bytes> {
        if self.rest.is_empty() {
            let batch = ready!(self.reader.poll_batch((self.from, None), most, context));
            (self.from, self.rest) = (batch.next, batch.text);
        }
        let part = self.rest.slice(..most.min(self.rest.len()));
        self.rest.advance(part.len());
        Poll::Ready(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_reader_that_opens_again_continues_where_it_was_and_none_loses_an_event() {
        let now = Instant::now() + Duration::from_secs(100);
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

    #[test]
    fn a_file_of_a_category_has_its_events_alone() {
        let log = Arc::new(EventLog::default());
        let context = Context::from_waker(Waker::noop());
        let begin = Some("(threshold (number cpu.".to_owned());
        let mut file = EventFile::new(&log, (FreePlaces::default(), begin), None);
        let range = ReadRange { offset: 0, count: 1000 };
        for content in ["(state x)", "(threshold (number net.a))"] {
            log.add(5, content);
            assert!(file.poll_read(range, &context).is_pending());
        }
        log.add(5, "(threshold (number cpu.a))");
        log.add(5, "(state y)");
        let line = "(event (seq 2) (time 5) (threshold (number cpu.a)))\n";
        assert_eq!(
            file.poll_read(range, &context),
            Poll::Ready(Bytes::from_static(line.as_bytes()))
        );
        assert!(file.poll_read(range, &context).is_pending());
    }

    #[test]
    fn a_stream_has_each_line_once_and_goes_on_within_one() {
        let log = Arc::new(EventLog::default());
        log.add_line(|_| "before\n".to_owned());
        let mut file = StreamFile::new(&log);
        let mut read = |most| match file.poll_read(most, &Context::from_waker(Waker::noop())) {
            Poll::Ready(it) => Some(it),
            Poll::Pending => None,
        };
        assert_eq!(read(9), None);
        for line in ["a b\n", "c d\n"] {
            log.add_line(|_| line.to_owned());
        }
        let parts: Vec<_> = [3, 9, 9].into_iter().map(&mut read).collect();
        assert_eq!(parts, ["a b", "\n", "c d\n"].map(|it| Some(Bytes::from(it))));
        assert_eq!(read(9), None);
    }
}

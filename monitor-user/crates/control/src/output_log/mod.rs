//! What processes have written, kept for readers that come later.
//!
//! In: bytes with their source, from threads. Out: the same bytes, in order, to each reader. The
//! newest bytes are kept, up to a limit; older ones are dropped and counted, unless a reader has
//! not had them yet: then the processes wait, as at a pipe. Lines of the program itself do not
//! wait; where they have no room, they are counted and not in the log.

mod merged;
mod polled;

pub use merged::{MergedPart, MergedReader};
pub use polled::OutputAt;

use crate::waker_list::{WaitPlace, WakerList};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most of the output of a job that is kept, bytes.
pub const KEPT_OUTPUT: usize = 16 << 20;
/// How long readers may read nothing, after the end of a job.
pub const READERS_LEAVE: Duration = Duration::from_secs(5);
/// How often it is seen whether they have.
pub const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Bytes that a part needs besides its text.
const OVERHEAD: usize = 64;

/// Which process has written something, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputSource {
    /// The group of the process, such as a namespace.
    pub group: Arc<str>,
    /// Its number in the group; `None` for the process that has started it.
    pub rank: Option<u32>,
    /// Whether it is its standard error.
    pub is_error: bool,
}

/// What a process has written at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPart {
    /// The process.
    pub source: OutputSource,
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// The number of bytes before it, of all processes.
    pub at: u64,
    /// The same of all logs of its order.
    pub order: u64,
}

/// What processes have written.
#[derive(Debug)]
pub struct OutputLog {
    limit: usize,
    kept: Mutex<Kept>,
    /// A part was added or read, or a reader has gone.
    changed: Condvar,
    /// The tasks that wait for the same.
    tasks: WakerList,
}

/// What a process does whose output has no room, while there is no reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It goes on, and the oldest bytes are dropped.
    #[default]
    DropOldest,
    /// It waits for a reader.
    Wait,
}

/// The order of what several logs have: the number of bytes that were added to all of them. Taken
/// with the lock of one of them, so that with all locks it is the sum of what they have had.
#[derive(Clone, Debug, Default)]
struct OutputOrder(Arc<AtomicU64>);

impl OutputOrder {
    /// The place of this number of bytes.
    fn take(&self, bytes: u64) -> u64 {
        self.0.fetch_add(bytes, Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Kept {
    parts: VecDeque<OutputPart>,
    /// Bytes of the parts.
    bytes: usize,
    /// Number of parts that were dropped, and their bytes.
    dropped: (u64, u64),
    /// Number of bytes that were added.
    end: u64,
    order: OutputOrder,
    /// The number of the next part of each reader, by its id.
    readers: BTreeMap<u64, u64>,
    /// The id of the next reader.
    next_id: u64,
    is_closed: bool,
    /// Whether what is added is counted only.
    is_discarding: bool,
    when_full: WhenFull,
    /// Number of threads that wait for room.
    waiting: usize,
    /// Number of parts that readers have had.
    taken: u64,
}

/// Reads a log from a position.
#[derive(Debug)]
pub struct OutputReader {
    end: OutputEnd,
    /// Where a task of it waits.
    place: WaitPlace,
    /// Its position, which may be within a part.
    from: u64,
    /// Bytes that were dropped after its position, before it came.
    pub lost: u64,
}

/// How long a reader waits for a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputWait {
    /// Not at all.
    No,
    /// Until this time.
    Until(Instant),
    /// Until the log is closed.
    ToTheEnd,
}

/// Ends a reader, from another thread.
#[derive(Clone, Debug)]
pub struct OutputEnd {
    log: Arc<OutputLog>,
    id: u64,
}

impl OutputLog {
    /// A log that keeps at most this number of bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Self::continued(limit, 0)
    }

    /// A log that keeps at most this number of bytes, after this number that were dropped: another
    /// one has had them.
    pub fn continued(limit: usize, dropped: u64) -> Arc<Self> {
        let order = OutputOrder(Arc::new(AtomicU64::new(dropped)));
        let kept = Kept { dropped: (0, dropped), end: dropped, order, ..Kept::default() };
        Self::from_kept(limit, kept)
    }

    /// A log that keeps at most this number of bytes, with what happens while there is neither room
    /// nor a reader.
    pub fn with_policy(limit: usize, when_full: WhenFull) -> Arc<Self> {
        Self::from_kept(limit, Kept { when_full, ..Kept::default() })
    }

    /// Two logs with one order, such as those of output and errors of a program: a
    /// [`MergedReader`] reads both as one.
    pub fn pair(limit: usize, when_full: WhenFull) -> [Arc<Self>; 2] {
        let order = OutputOrder::default();
        let log = |order| Self::from_kept(limit, Kept { when_full, order, ..Kept::default() });
        [log(order.clone()), log(order)]
    }

    fn from_kept(limit: usize, kept: Kept) -> Arc<Self> {
        let kept = Mutex::new(kept);
        Arc::new(Self { limit, kept, changed: Condvar::new(), tasks: WakerList::default() })
    }

    /// Sets what happens while there is neither room nor a reader.
    pub fn set_when_full(&self, to: WhenFull) {
        self.lock().when_full = to;
        self.notify();
    }

    fn notify(&self) {
        self.changed.notify_all();
        self.tasks.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // It holds what was appended, whichever thread has panicked.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'k>(&self, kept: MutexGuard<'k, Kept>) -> MutexGuard<'k, Kept> {
        self.changed.wait(kept).unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes. Waits while there is no room and a reader has not had the oldest ones.
    pub fn append(&self, source: &OutputSource, bytes: &[u8]) {
        let mut kept = self.lock();
        kept.waiting += 1;
        while kept.bytes + bytes.len() + OVERHEAD > self.limit && !kept.parts.is_empty() {
            if kept.is_discarding {
                break;
            }
            if kept.is_awaited() {
                kept = self.wait(kept);
            } else {
                kept.drop_oldest();
            }
        }
        kept.waiting -= 1;
        if kept.is_discarding {
            kept.count_dropped(bytes.len());
        } else {
            kept.push(source, bytes);
        }
        self.notify();
    }

    /// Keeps nothing that is added from now on, but counts it: threads that wait for room go on,
    /// and readers get what is there.
    pub fn discard_new(&self) {
        self.lock().is_discarding = true;
        self.notify();
    }

    /// The same for the program that serves the readers: it does not wait, and up to twice the
    /// limit is kept for readers; what does not fit then is counted as dropped. Whether it is kept.
    pub fn append_at_once(&self, source: &OutputSource, bytes: &[u8]) -> bool {
        let mut kept = self.lock();
        let size = bytes.len() + OVERHEAD;
        while kept.bytes + size > self.limit && !kept.parts.is_empty() && !kept.is_awaited() {
            kept.drop_oldest();
        }
        let has_room = kept.bytes + size <= 2 * self.limit;
        if has_room {
            kept.push(source, bytes);
        } else {
            kept.count_dropped(bytes.len());
        }
        self.notify();
        has_room
    }

    /// Nothing will be added but by those that wait for room.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.notify();
    }

    /// Number of bytes that were added, and of threads that wait for room.
    pub fn added(&self) -> (u64, usize) {
        let kept = self.lock();
        (kept.end, kept.waiting)
    }

    /// Number of readers, and of the parts that all of them have had.
    pub fn readers(&self) -> (usize, u64) {
        let kept = self.lock();
        (kept.readers.len(), kept.taken)
    }

    /// Begins to read at a position: the number of bytes before it.
    pub fn reader_from(self: &Arc<Self>, from: u64) -> OutputReader {
        let mut kept = self.lock();
        let is_before = |it: &OutputPart| it.end() <= from;
        let skipped = kept.parts.iter().take_while(|it| is_before(it)).count();
        let first = kept.parts.front().map_or(kept.end, |it| it.at);
        let lost = if from == 0 { kept.dropped.1 } else { first.saturating_sub(from) };
        let id = kept.next_id;
        kept.next_id += 1;
        let next = kept.dropped.0 + u64::try_from(skipped).unwrap_or(u64::MAX);
        kept.readers.insert(id, next);
        let end = OutputEnd { log: Arc::clone(self), id };
        OutputReader { end, place: self.tasks.add_place(), from, lost }
    }
}

impl OutputPart {
    /// The number of bytes before its end.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }

    /// What follows a position.
    fn after(self, from: u64) -> Self {
        let skipped = usize::try_from(from.saturating_sub(self.at)).unwrap_or(usize::MAX);
        match self.bytes.get(skipped..) {
            Some(rest) if skipped > 0 => {
                let order = self.order.saturating_add(from - self.at);
                Self { bytes: rest.into(), at: from, order, ..self }
            }
            _ => self,
        }
    }
}

impl Kept {
    fn push(&mut self, source: &OutputSource, bytes: &[u8]) {
        self.bytes += bytes.len() + OVERHEAD;
        let order = self.order.take(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let part = OutputPart { source: source.clone(), bytes: bytes.into(), at: self.end, order };
        self.end = part.end();
        self.parts.push_back(part);
    }

    fn count_dropped(&mut self, length: usize) {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.dropped.1 += length;
        self.end += length;
        let _place = self.order.take(length);
    }

    /// Whether a reader has not had the oldest part, or one is waited for.
    fn is_awaited(&self) -> bool {
        let is_unread = self.when_full == WhenFull::Wait && self.readers.is_empty();
        is_unread || self.readers.values().any(|next| *next <= self.dropped.0)
    }

    fn drop_oldest(&mut self) {
        if let Some(part) = self.parts.pop_front() {
            self.bytes -= part.bytes.len() + OVERHEAD;
            self.dropped.0 += 1;
            self.dropped.1 += u64::try_from(part.bytes.len()).unwrap_or(u64::MAX);
        }
    }

    /// The next part of a reader, if it is there.
    fn take(&mut self, id: u64) -> Option<OutputPart> {
        let next = self.readers.get_mut(&id)?;
        let at = usize::try_from(*next - self.dropped.0).ok()?;
        let part = self.parts.get(at)?.clone();
        *next += 1;
        self.taken += 1;
        Some(part)
    }
}

impl OutputReader {
    /// The next part; waits for it, unless the log is closed, or the reader is ended.
    pub fn next_part(&self, wait: OutputWait) -> Option<OutputPart> {
        let OutputEnd { log, id } = &self.end;
        let mut kept = log.lock();
        loop {
            let part = kept.take(*id);
            if part.is_some() {
                log.notify();
            }
            let is_complete = kept.is_closed && kept.waiting == 0;
            if part.is_some() || is_complete || !kept.readers.contains_key(id) {
                return part.map(|it| it.after(self.from));
            }
            kept = match wait {
                OutputWait::No => return None,
                OutputWait::ToTheEnd => log.wait(kept),
                OutputWait::Until(until) => {
                    let left = until.checked_duration_since(Instant::now())?;
                    let waited = log.changed.wait_timeout(kept, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// What ends it.
    pub fn end(&self) -> OutputEnd {
        self.end.clone()
    }
}

impl OutputEnd {
    /// Ends the reader: no process waits for it any more.
    pub fn end(&self) {
        self.log.lock().readers.remove(&self.id);
        self.log.notify();
    }
}

impl Drop for OutputReader {
    fn drop(&mut self) {
        self.end.end();
    }
}

#[cfg(test)]
mod tests;

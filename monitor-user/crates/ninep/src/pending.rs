//! Requests that wait: the table of their tags, and what wakes them.
//!
//! A request is in the table from the moment when it must wait until its reply is queued, or its
//! Tflush is. One owner does both, so a flushed request cannot be answered any more.

use crate::stat::Attributes;
use crate::tree::{Later, OpenMode, ReadRange};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A request that waits.
pub struct Pending<F> {
    /// Its tag.
    pub tag: u16,
    /// The fid that it is about.
    pub fid: u32,
    /// What it waits for.
    pub operation: Operation<F>,
    /// Whether the tree knows of it: it does not wait behind another.
    pub begun: bool,
}

impl<F> Pending<F> {
    /// A request that is not begun.
    pub const fn new(tag: u16, fid: u32, operation: Operation<F>) -> Self {
        Self { tag, fid, operation, begun: false }
    }
}

/// What a request waits for.
pub enum Operation<F> {
    /// The file to be open.
    Open(Later<F>, OpenMode),
    /// The attributes.
    Stat(Later<Attributes>),
    /// Something to read.
    Read(ReadRange),
    /// Room for what is written.
    Write {
        /// Where.
        offset: u64,
        /// The bytes.
        content: Bytes,
    },
}

impl<F> Operation<F> {
    /// Bytes that it holds.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Write { content, .. } => content.len(),
            Self::Open(..) | Self::Stat(_) | Self::Read(_) => 0,
        }
    }

    /// Whether this is a transfer in the same direction: those of one fid happen in their order.
    const fn shares_order(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Read(_), Self::Read(_)) | (Self::Write { .. }, Self::Write { .. })
        )
    }
}

/// The requests of a connection that wait, in the order of their arrival.
pub struct PendingTable<F> {
    all: Vec<Pending<F>>,
}

impl<F> PendingTable<F> {
    /// An empty table.
    pub const fn new() -> Self {
        Self { all: Vec::new() }
    }

    /// Whether a request with this tag waits.
    pub fn has(&self, tag: u16) -> bool {
        self.all.iter().any(|it| it.tag == tag)
    }

    /// The number of requests that wait.
    pub const fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes of the writes that wait.
    pub fn bytes(&self) -> usize {
        self.all.iter().map(|it| it.operation.bytes()).sum()
    }

    /// Adds a request at the end.
    pub fn add(&mut self, pending: Pending<F>) {
        self.all.push(pending);
    }

    /// Puts back a request that still waits.
    pub fn put_back(&mut self, place: usize, pending: Pending<F>) {
        self.all.insert(place, pending);
    }

    /// Removes the request with this tag.
    pub fn remove(&mut self, tag: u16) -> Option<Pending<F>> {
        let place = self.all.iter().position(|it| it.tag == tag)?;
        Some(self.all.remove(place))
    }

    /// Removes the first request about this fid at or after `place`, unless an earlier transfer in
    /// its direction waits.
    pub fn take_next(&mut self, fid: u32, mut place: usize) -> Option<(usize, Pending<F>)> {
        while let Some(it) = self.all.get(place) {
            if it.fid == fid && !self.is_behind(fid, &it.operation, place) {
                return Some((place, self.all.remove(place)));
            }
            place += 1;
        }
        None
    }

    /// Whether a transfer in the same direction waits before this place.
    fn is_behind(&self, fid: u32, operation: &Operation<F>, place: usize) -> bool {
        self.all[..place].iter().any(|it| it.fid == fid && it.operation.shares_order(operation))
    }

    /// Whether a new operation on this fid must wait for an earlier one.
    pub fn must_queue(&self, fid: u32, operation: &Operation<F>) -> bool {
        self.is_behind(fid, operation, self.all.len())
    }

    /// Removes all requests about this fid, and returns their tags.
    pub fn remove_fid(&mut self, fid: u32) -> Vec<u16> {
        self.all.extract_if(.., |it| it.fid == fid).map(|it| it.tag).collect()
    }

    /// Removes all requests.
    pub fn clear(&mut self) {
        self.all.clear();
    }
}

/// The fids whose requests may go on, and the task that serves their connection.
#[derive(Default)]
pub struct WakeQueue {
    state: Mutex<WakeState>,
}

#[derive(Default)]
struct WakeState {
    fids: BTreeSet<u32>,
    task: Option<Waker>,
}

impl WakeQueue {
    /// What wakes the requests of a fid.
    pub fn waker(queue: &Arc<Self>, fid: u32) -> Waker {
        Waker::from(Arc::new(FidWaker { fid, queue: Arc::clone(queue) }))
    }

    /// The next woken fid; if there is none, the task of `context` is woken with the next.
    pub fn poll_next(&self, context: &Context<'_>) -> Poll<u32> {
        let mut state = self.lock();
        match state.fids.pop_first() {
            Some(fid) => Poll::Ready(fid),
            None => {
                state.task = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Adds a fid whose requests may go on.
    pub fn add(&self, fid: u32) {
        let task = {
            let mut state = self.lock();
            state.fids.insert(fid);
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WakeState> {
        // Both fields are valid at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct FidWaker {
    fid: u32,
    queue: Arc<WakeQueue>,
}

impl Wake for FidWaker {
    fn wake(self: Arc<Self>) {
        self.queue.add(self.fid);
    }
}

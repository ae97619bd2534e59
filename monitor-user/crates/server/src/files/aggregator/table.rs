//! The aggregator: its children, its settings, and what its readers want.
//!
//! In: the configuration, commands of an administrator, and opens. Out: children by name, and what
//! their tasks must follow. Nothing is read of a child's `push` and `event` without a reader.

use super::super::event_file::UserPlaces;
use super::super::event_log::EventLog;
use super::super::nodes::MAX_NODES;
use super::child::{Child, ChildAddress, RecordRoom};
use super::fan_in::FanIn;
use super::settings::{PassedLine, PassedLines, PushMode, ReadSettings};
use crate::lock::lock;
use bytes::Bytes;
use monitor_control::session::SessionError;
use monitor_remote::Connector;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Most open `push` files, and those of one user.
const MAX_READERS: (usize, usize) = (256, 16);
/// Most bytes of the last records of all children.
const MAX_RECORD_BYTES: usize = 64 << 20;
/// Time between two rounds that readers of `fresh` begin; those that come meanwhile share one.
const ROUND_PAUSE: Duration = Duration::from_millis(50);
/// What each child adds to that: a round asks all of them, whichever user wants it.
const CHILD_PAUSE: Duration = Duration::from_millis(1);

/// What the configuration says of an aggregator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregatorConfig {
    /// Its name in records; that of the node, if it is empty.
    pub name: String,
    /// Its children.
    pub children: Vec<ChildAddress>,
}

/// What readers want of children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderInterest {
    /// Their `push`.
    pub samples: bool,
    /// Their `event`.
    pub events: bool,
}

/// The aggregator.
pub struct Aggregator {
    /// Its name in records.
    pub name: String,
    configured: AggregatorConfig,
    /// Connects to its children.
    pub connector: Connector,
    /// Begins to follow one.
    follow: Follow,
    children: Mutex<BTreeMap<Arc<str>, FollowedChild>>,
    settings: watch::Sender<ReadSettings>,
    passed: watch::Sender<PassedLines>,
    interest: watch::Sender<ReaderInterest>,
    /// The number of the last round that was asked for.
    rounds: watch::Sender<u64>,
    /// The number of the last round that all children have answered.
    complete: watch::Sender<u64>,
    /// The bytes of their last records.
    record_bytes: Arc<AtomicUsize>,
    last_round: tokio::sync::Mutex<Option<Instant>>,
    readers: Mutex<Vec<(u32, Weak<FanIn>)>>,
    event_readers: Mutex<usize>,
    /// Events of all children.
    pub events: Arc<EventLog>,
    /// Where users were in the events.
    pub places: UserPlaces,
}

struct FollowedChild {
    child: Arc<Child>,
    task: AbortHandle,
}

impl Drop for FollowedChild {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What wakes the task of a child.
#[derive(Clone)]
pub struct Signals {
    /// How children are read.
    pub settings: watch::Receiver<ReadSettings>,
    /// The lines that pass down.
    pub passed: watch::Receiver<PassedLines>,
    /// What readers want.
    pub interest: watch::Receiver<ReaderInterest>,
    /// The number of the last round that was asked for.
    pub rounds: watch::Receiver<u64>,
}

/// Starts the task of a child, which follows it.
pub type Follow = fn(&Arc<Aggregator>, &Arc<Child>) -> AbortHandle;

/// An open `event`.
pub struct EventReaderGuard(Arc<Aggregator>);

impl Drop for EventReaderGuard {
    fn drop(&mut self) {
        *lock(&self.0.event_readers) -= 1;
        self.0.update_interest();
    }
}

impl Aggregator {
    /// Follows the children of the configuration, on a node with this name.
    pub fn new(
        configured: AggregatorConfig,
        node: &str,
        connector: Connector,
        follow: Follow,
    ) -> Arc<Self> {
        let name = if configured.name.is_empty() { node } else { &configured.name };
        // A name of a host may have characters that no word of a record has.
        let plain = |it: char| {
            if it.is_ascii_alphanumeric() || matches!(it, '.' | '-') { it } else { '_' }
        };
        let name = name.chars().map(plain).collect();
        let it = Arc::new(Self {
            name,
            configured,
            connector,
            follow,
            children: Mutex::default(),
            settings: watch::channel(ReadSettings::default()).0,
            passed: watch::channel(PassedLines::default()).0,
            interest: watch::channel(ReaderInterest::default()).0,
            rounds: watch::channel(0).0,
            complete: watch::channel(0).0,
            record_bytes: Arc::default(),
            last_round: tokio::sync::Mutex::default(),
            readers: Mutex::default(),
            event_readers: Mutex::default(),
            events: Arc::default(),
            places: UserPlaces::default(),
        });
        for child in it.configured.children.clone() {
            // Names of the configuration are there once, and within the limit.
            let _added = it.add(child);
        }
        it
    }

    /// Whether there is a directory of it: the configuration names it, or children.
    pub fn is_on(&self) -> bool {
        self.configured != AggregatorConfig::default()
    }

    /// Follows a further child.
    ///
    /// # Errors
    ///
    /// When its name is in use, or there are too many.
    pub fn add(self: &Arc<Self>, address: ChildAddress) -> Result<(), String> {
        let mut children = lock(&self.children);
        let name = &address.at.name;
        if children.contains_key(name.as_str()) {
            return Err(format!("add: there is a child {name}: del it first"));
        }
        if children.len() >= MAX_NODES {
            return Err(format!("add: there are {MAX_NODES} children, the limit"));
        }
        let child = Arc::new(Child::new(address));
        let task = (self.follow)(self, &child);
        children.insert(Arc::clone(&child.name), FollowedChild { child, task });
        drop(children);
        self.answered();
        Ok(())
    }

    /// Follows a child no longer.
    ///
    /// # Errors
    ///
    /// When there is none of this name.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let removed = lock(&self.children).remove(name);
        removed.ok_or_else(|| format!("del: there is no child {name:?}"))?;
        self.answered();
        Ok(())
    }

    /// All children, by name.
    pub fn children(&self) -> Vec<Arc<Child>> {
        lock(&self.children).values().map(|it| Arc::clone(&it.child)).collect()
    }

    /// What wakes the task of a child.
    pub fn signals(&self) -> Signals {
        Signals {
            settings: self.settings.subscribe(),
            passed: self.passed.subscribe(),
            interest: self.interest.subscribe(),
            rounds: self.rounds.subscribe(),
        }
    }

    /// How children are read.
    pub fn settings(&self) -> ReadSettings {
        *self.settings.borrow()
    }

    /// Changes how children are read.
    pub fn set(&self, change: impl FnOnce(&mut ReadSettings)) {
        self.settings.send_modify(change);
        self.update_interest();
    }

    /// Adds a line that passes down to the children.
    ///
    /// # Errors
    ///
    /// When it is none, or there are too many.
    pub fn pass_down(&self, words: &[&str]) -> Result<(), SessionError> {
        let mut done = Ok(());
        self.passed.send_if_modified(|lines| {
            done = lines.add(words);
            done.is_ok()
        });
        if done.is_ok() {
            for child in self.children() {
                child.set(|it| "pending".clone_into(&mut it.passed));
            }
        }
        done
    }

    /// The lines after this number that pass down.
    pub fn passed_after(&self, number: u64) -> Vec<PassedLine> {
        self.passed.borrow().after(number)
    }

    /// Appends what passes down.
    pub fn put_passed(&self, out: &mut String) {
        self.passed.borrow().put(out);
    }

    /// Room for a record of this number of bytes, if there is some.
    pub fn room(&self, bytes: usize) -> Option<Arc<RecordRoom>> {
        RecordRoom::take(&self.record_bytes, bytes, MAX_RECORD_BYTES)
    }

    /// A child has answered, or could not: the last round may be complete.
    pub fn answered(&self) {
        let round = *self.rounds.borrow();
        let is_awaited = *self.complete.borrow() < round;
        if is_awaited && self.children().iter().all(|it| it.has_answered(round)) {
            self.complete.send_replace(round);
        }
    }

    /// The number of the last round that all children have answered, or could not.
    pub fn complete(&self) -> watch::Receiver<u64> {
        self.complete.subscribe()
    }

    /// Asks all children now; the number of the round. A round that begins meanwhile is shared.
    pub async fn begin_round(&self) -> u64 {
        let before = *self.rounds.borrow();
        let mut last = self.last_round.lock().await;
        let now = *self.rounds.borrow();
        if now > before {
            return now;
        }
        if let Some(last) = *last {
            let n_children = u32::try_from(lock(&self.children).len()).unwrap_or(u32::MAX);
            sleep_until(last + ROUND_PAUSE + CHILD_PAUSE * n_children).await;
        }
        *last = Some(Instant::now());
        self.rounds.send_modify(|it| *it += 1);
        let round = *self.rounds.borrow();
        // Perhaps none can answer.
        self.answered();
        round
    }

    /// Adds a reader of `push`, for a user; `None` if there are too many.
    pub fn add_reader(&self, uid: u32) -> Option<Arc<FanIn>> {
        let mut readers = lock(&self.readers);
        readers.retain(|it| it.1.strong_count() > 0);
        let own = readers.iter().filter(|it| it.0 == uid).count();
        if uid != 0 && (readers.len() >= MAX_READERS.0 || own >= MAX_READERS.1) {
            return None;
        }
        let reader = Arc::new(FanIn::default());
        readers.push((uid, Arc::downgrade(&reader)));
        drop(readers);
        self.update_interest();
        Some(reader)
    }

    /// A reader of `push` has left.
    pub fn remove_reader(&self, reader: &Arc<FanIn>) {
        lock(&self.readers).retain(|it| it.1.as_ptr() != Arc::as_ptr(reader));
        self.update_interest();
    }

    /// Counts an open `event`.
    pub fn event_reader(self: &Arc<Self>) -> EventReaderGuard {
        *lock(&self.event_readers) += 1;
        self.update_interest();
        EventReaderGuard(Arc::clone(self))
    }

    fn update_interest(&self) {
        let is_pushed = self.settings().mode == PushMode::Push;
        let samples = is_pushed && !lock(&self.readers).is_empty();
        let interest = ReaderInterest { samples, events: *lock(&self.event_readers) > 0 };
        self.interest.send_if_modified(|it| std::mem::replace(it, interest) != interest);
    }

    /// A record of a child for all readers of `push`.
    pub fn push(&self, child: &Child, line: Bytes) {
        let dropped: u64 =
            self.open_readers().iter().map(|it| it.add(&child.name, line.clone())).sum();
        if dropped > 0 {
            child.set(|it| it.lost += dropped);
        }
    }

    /// Records of a child that did not arrive here.
    pub fn lose(&self, child: &Child, n: u64) {
        self.open_readers().iter().for_each(|it| it.lose(&child.name, n));
        child.set(|it| it.lost += n);
    }

    /// Whether there are readers of `push`.
    pub fn has_readers(&self) -> bool {
        !lock(&self.readers).is_empty()
    }

    fn open_readers(&self) -> Vec<Arc<FanIn>> {
        lock(&self.readers).iter().filter_map(|it| it.1.upgrade()).collect()
    }

    /// Follows no child any longer.
    pub fn close(&self) {
        lock(&self.children).clear();
        self.events.close();
        self.open_readers().iter().for_each(|it| it.close());
    }
}

//! The files of `mon/` that wait for what happens: `event`, `log` and `push`, of the node and of a
//! session, as one connection has them.
//!
//! In: opens, reads, and filters. Out: lines of the log of events, or samples. What is followed for
//! a session is shared by all connections, what is followed for the node by those of a user.

use super::event_feed::{EventFeed, FeedSource, NodeFeed};
use super::event_file::{EventFile, FreePlaces, LogFile};
use super::event_log::EventLog;
use super::followed_event::NODE_EVENTS;
use super::identity::user_peer;
use super::kernel_log::KernelLogReader;
use super::kernel_rights::KernelPart;
use super::mon_control::MonControlFile;
use super::mon_file::MonFile;
use super::node::NodeFiles;
use super::node_sample::{self, SampleCategory};
use super::push_file::PushFile;
use super::sample_filter::SampleFilter;
use super::sample_source::SampleSource;
use super::session::{LiveSession, file_error};
use super::session_sample;
use crate::lock::lock;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_control::session::SessionHold;
use monitor_ninep::tree::{Deferred, OpenMode, ReadRange};
use monitor_ninep::{Errno, FileError, User};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Whose events: those of the node, for a user, or those of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventsOf {
    Node(u32, Option<SampleCategory>),
    KernelLog(u32),
    Session(u32),
}

/// The files of one connection.
pub struct MonitorFiles {
    node: Arc<NodeFiles>,
    pid: u32,
    share: Arc<UserShare>,
    /// What is followed of the node, by the uid of the attach: while this connection is there.
    feeds: BTreeMap<u32, Arc<NodeFeed>>,
    /// The places of files that were closed.
    free: Arc<Mutex<BTreeMap<EventsOf, FreePlaces>>>,
    /// The log of the kernel, from the first open on.
    kernel_log: Option<Arc<KernelLogReader>>,
}

impl MonitorFiles {
    /// Those of a connection of this process.
    pub fn new(node: Arc<NodeFiles>, pid: u32, share: Arc<UserShare>) -> Self {
        let (feeds, free) = (BTreeMap::new(), Arc::default());
        Self { node, pid, share, feeds, free, kernel_log: None }
    }

    /// Opens a file of the node, or of a category of its samples.
    pub fn open_node(
        &mut self,
        user: &Arc<User>,
        (file, category): (MonFile, Option<SampleCategory>),
        mode: OpenMode,
    ) -> Deferred<OpenMonitorFile> {
        if let Err(error) = check(file, mode) {
            return Deferred::Now(Err(error));
        }
        if file == MonFile::Push {
            let known = category.map_or(&node_sample::FIELDS[..], SampleCategory::fields);
            let of: Vec<&str> = known.iter().map(|it| it.0).collect();
            let period = self.node.monitor.period(of.iter().copied());
            let enabled = self.node.monitor.enabled();
            let filter = SampleFilter::new(if category.is_some() { &of } else { &enabled }, period);
            let mut source = self.source(user, None);
            if category == Some(SampleCategory::COUNTERS) {
                if let Err(error) = self.node.kernel_rights.check(user, KernelPart::Counters) {
                    return Deferred::Now(Err(error));
                }
                source.has_counters = true;
            }
            let push = PushFile::new(source, (known, filter), None);
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
        let (of, free) = (EventsOf::Node(user.uid, category), Arc::clone(&self.free));
        Deferred::Later(Box::pin(async move {
            let feed = feed.get_or_try_init(|| EventFeed::start(source)).await?;
            Ok(opened(file, &feed.log, (&free, of), None))
        }))
    }

    /// Opens a file of the log of the kernel.
    pub fn open_kernel_log(
        &mut self,
        user: &User,
        file: MonFile,
        mode: OpenMode,
    ) -> Deferred<OpenMonitorFile> {
        let rights = &self.node.kernel_rights;
        let reader = check(file, mode)
            .and_then(|()| rights.check(user, KernelPart::Log))
            .and_then(|()| self.node.kernel_log.reader());
        Deferred::Now(reader.map(|reader| {
            let log = &self.kernel_log.insert(reader).log;
            opened(file, log, (&self.free, EventsOf::KernelLog(user.uid)), None)
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
            let known = &session_sample::CATEGORIES;
            let filter =
                SampleFilter::new(&[], session.monitor.period(known.iter().map(|it| it.0)));
            let source = self.source(user, Some(Arc::clone(session)));
            let push = PushFile::new(source, (known, filter), Some(hold));
            return Deferred::Now(Ok(OpenMonitorFile::Push(push)));
        }
        self.forget_ended();
        let (requests, node) = (self.node.requests.clone(), self.node.number);
        let share = Arc::clone(&self.share);
        let (session, free) = (Arc::clone(session), Arc::clone(&self.free));
        Deferred::Later(Box::pin(async move {
            let feed = session.events(requests, (node, share)).await?;
            Ok(opened(file, &feed.log, (&free, EventsOf::Session(number)), Some(hold)))
        }))
    }

    /// Opens `mon/ctl`, of the node or of a session.
    ///
    /// # Errors
    ///
    /// When the session has too many open files.
    pub fn open_control(
        &self,
        user: &Arc<User>,
        session: Option<&Arc<LiveSession>>,
    ) -> Result<MonControlFile, FileError> {
        let hold = session.map(|it| it.record.hold()).transpose().map_err(file_error)?;
        Ok(MonControlFile::new(self.source(user, session.map(Arc::clone)), hold))
    }

    fn source(&self, user: &Arc<User>, session: Option<Arc<LiveSession>>) -> SampleSource {
        let (node, user) = (Arc::clone(&self.node), Arc::clone(user));
        let (pid, share) = (self.pid, Arc::clone(&self.share));
        SampleSource { node, user, pid, share, session, has_counters: false }
    }

    /// Forgets where the connection was in the events of sessions that have ended.
    fn forget_ended(&self) {
        lock(&self.free).retain(|of, _| match of {
            EventsOf::Node(..) | EventsOf::KernelLog(_) => true,
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
    log: &Arc<EventLog>,
    (free, of): (&Mutex<BTreeMap<EventsOf, FreePlaces>>, EventsOf),
    hold: Option<SessionHold>,
) -> OpenMonitorFile {
    if file == MonFile::Log {
        return OpenMonitorFile::Log(LogFile::new(log, hold));
    }
    let free = Arc::clone(lock(free).entry(of).or_default());
    let category = match of {
        EventsOf::Node(_, category) => category,
        EventsOf::Session(_) | EventsOf::KernelLog(_) => None,
    };
    // Those of a category begin so (`mon_control.rs`).
    let begin = category.map(|it| format!("(threshold (number {}.", it.name()));
    OpenMonitorFile::Event(EventFile::new(log, (free, begin), hold))
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

impl OpenMonitorFile {
    /// The bytes of a range.
    pub fn poll_read(
        &mut self,
        range: ReadRange,
        context: &Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        match self {
            Self::Event(file) => file.poll_read(range, context).map(Ok),
            Self::Log(file) => file.poll_read(range, context),
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

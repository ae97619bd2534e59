//! Readings for the files `procs` and `mon/pull`, of the node and of sessions: asked of the daemon
//! loop as any client does, kept while a file is open.
//!
//! A reading has the visibility and the limits of the user of the attach, because it is a call on a
//! connection of that user inside the daemon. What open files keep counts for the user of the
//! connection, with its unread bytes.

use super::held_text::HeldText;
use super::identity::user_peer;
use super::kernel_rights::KernelPart;
use super::node::NodeFiles;
use super::node_sample::{SampleCategory, refusal};
use super::sample_filter::{DEFAULT_PERIOD, SampleFilter};
use super::{node_sample, process_table, session_sample};
use crate::http::LoopbackClient;
use crate::http::message::{Message, lines};
use crate::lock::lock;
use crate::policy::Peer;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_control::session::SessionHold;
use monitor_model::Ns;
use monitor_ninep::tree::Later;
use monitor_ninep::{Errno, FileError, User};
use monitor_sys::clock;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long the reading of a Tstat serves the open that follows it.
const RECENT: Duration = Duration::from_secs(1);

/// Which file the readings are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingKind {
    /// `procs`.
    Processes,
    /// `mon/pull`.
    Node,
    /// That of a category.
    Category(SampleCategory),
    /// `mon/pull` of the session with this number.
    Session(u32),
}

impl ReadingKind {
    /// The call `monitor` whose answer has what the file needs.
    fn request(self) -> serde_json::Value {
        match self {
            Self::Processes => process_table::request(),
            Self::Node | Self::Category(_) => node_sample::request(),
            Self::Session(_) => session_sample::request(),
        }
    }

    /// The text of a sample, which is the one of this number; with the sessions of the user.
    fn text(
        self,
        sample: &str,
        (number, user): (u32, &User),
        node: &NodeFiles,
    ) -> Result<String, FileError> {
        let launchers = || node.sessions.launchers(user);
        let all = SampleFilter::default();
        let text = match self {
            Self::Processes => Some(process_table::text(sample, &launchers())?),
            Self::Node => {
                let filter = SampleFilter::new(&node.monitor.enabled(), DEFAULT_PERIOD);
                node_sample::text(sample, number, &filter)?
            }
            Self::Category(category) => {
                let filter = SampleFilter::new(&[category.name()], DEFAULT_PERIOD);
                node_sample::text(sample, number, &filter)?
            }
            Self::Session(session) => {
                session_sample::text(sample, number, (session, &launchers(), &all))?
            }
        };
        // Without conditions, each sample passes.
        Ok(text.unwrap_or_default())
    }
}

/// The readings of one connection for one file.
pub struct Readings {
    kind: ReadingKind,
    node: Arc<NodeFiles>,
    /// The process that made the connection.
    pid: u32,
    share: Arc<UserShare>,
    one_reading: Semaphore,
    last: Mutex<LastReading>,
}

#[derive(Default)]
struct LastReading {
    /// How many readings there were.
    version: u32,
    /// The user and length of the last one.
    length: Option<(u32, usize)>,
    /// The reading of a Tstat, for the next open of the same user.
    recent: Option<(u32, Instant, HeldText)>,
}

/// A reading that ends when its result is not awaited any longer.
struct ReadingTask(JoinHandle<Result<HeldText, FileError>>);

impl Drop for ReadingTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Readings {
    /// The readings of a connection of this process, whose user has this share.
    pub fn new(
        kind: ReadingKind,
        node: Arc<NodeFiles>,
        (pid, share): (u32, Arc<UserShare>),
    ) -> Self {
        let one_reading = Semaphore::new(1);
        Self { kind, node, pid, share, one_reading, last: Mutex::default() }
    }

    /// Begins a reading, on a task of its own: a connection that waits for something else, such as
    /// the turn of its user, does not hold up what the reading holds.
    fn begin(self: &Arc<Self>, user: &Arc<User>) -> Later<HeldText> {
        let (readings, user) = (Arc::clone(self), Arc::clone(user));
        let mut task = ReadingTask(tokio::spawn(async move { readings.read(&user).await }));
        Box::pin(async move {
            let ended = |_| FileError::new(Errno::Io, "the daemon ends");
            (&mut task.0).await.unwrap_or_else(|error| Err(ended(error)))
        })
    }

    /// The version and the length of the last reading for a user.
    pub fn last(&self, uid: u32) -> (u32, usize) {
        let last = lock(&self.last);
        (last.version, last.length.filter(|it| it.0 == uid).map_or(0, |it| it.1))
    }

    /// Reads for a Tstat, and returns version and length.
    pub async fn read_for_stat(
        self: Arc<Self>,
        user: Arc<User>,
    ) -> Result<(u32, usize), FileError> {
        let text = self.begin(&user).await?;
        let length = text.len();
        let mut last = lock(&self.last);
        last.recent = Some((user.uid, Instant::now(), text));
        Ok((last.version, length))
    }

    /// The reading of a recent Tstat of the same user.
    fn take_recent(&self, uid: u32) -> Option<HeldText> {
        let recent = lock(&self.last).recent.take()?;
        (recent.0 == uid && recent.1.elapsed() < RECENT).then_some(recent.2)
    }

    fn check_share(&self) -> Result<(), FileError> {
        if self.share.is_over() {
            return Err(FileError::new(Errno::TryAgain, self.share.refusal()));
        }
        Ok(())
    }

    async fn read(&self, user: &User) -> Result<HeldText, FileError> {
        // One after another: what waits for a reading is a few words, a sample is much more. The
        // semaphore is never closed.
        let _permit = self.one_reading.acquire().await;
        // A reading that waited behind others costs as much as a message of its own.
        drop(self.share.admit_line(|| false).await);
        self.check_share()?;
        let peer = user_peer(user, self.pid);
        let number = lock(&self.last).version.wrapping_add(1);
        let text = self.read_text(peer, (number, user)).await?;
        self.check_share()?;
        let text = HeldText::new(text, &self.share);
        let mut last = lock(&self.last);
        last.version = number;
        last.length = Some((user.uid, text.len()));
        Ok(text)
    }

    /// One reading, as text.
    async fn read_text(
        &self,
        peer: Peer,
        (number, user): (u32, &User),
    ) -> Result<String, FileError> {
        if self.kind == ReadingKind::Category(SampleCategory::COUNTERS) {
            return self.read_counters((number, user)).await;
        }
        let denied = |why| FileError::new(Errno::Denied, why);
        let client = LoopbackClient::connect_user(&self.node.requests, peer);
        let client = client.await.map_err(denied)?;
        client.call(0, "monitor", &self.kind.request()).await;
        while let Some(chunk) = client.next_lines().await {
            for line in lines(&chunk) {
                let answer = Message::from_line(line).filter(|it| it.id == Some(0));
                let Some(answer) = answer else { continue };
                if let Some(error) = answer.error {
                    return Err(FileError::new(Errno::TryAgain, refusal(error.get())));
                }
                if let Some((Some(sample), _)) = answer.sample() {
                    let began = clock::thread_cpu();
                    let text = self.kind.text(sample.get(), (number, user), &self.node);
                    self.share.charge(Ns(clock::thread_cpu().since(began).0));
                    return text;
                }
            }
        }
        Err(FileError::new(Errno::Io, "the daemon ends, or nothing could be read"))
    }
}

impl Readings {
    /// Counters of processors, as text: no reading of the daemon has them.
    async fn read_counters(&self, (number, user): (u32, &User)) -> Result<String, FileError> {
        self.node.kernel_rights.check(user, KernelPart::Counters)?;
        let sample = self.node.counters.sample(&self.node.name).await?;
        let began = clock::thread_cpu();
        let text = self.kind.text(&sample, (number, user), &self.node);
        self.share.charge(Ns(clock::thread_cpu().since(began).0));
        text
    }
}

/// An open `procs` or `mon/pull`.
pub struct ReadingFile {
    readings: Arc<Readings>,
    user: Arc<User>,
    text: Option<HeldText>,
    /// A reading that is being made.
    reading: Option<Later<HeldText>>,
    /// What keeps its session.
    _hold: Option<SessionHold>,
}

impl ReadingFile {
    /// Opened by this user; nothing is read yet.
    pub fn new(readings: Arc<Readings>, user: Arc<User>) -> Self {
        Self { readings, user, text: None, reading: None, _hold: None }
    }

    /// The same of a session, which it keeps.
    pub fn of_session(readings: Arc<Readings>, user: Arc<User>, hold: SessionHold) -> Self {
        Self { _hold: Some(hold), ..Self::new(readings, user) }
    }

    /// The length of what the last read found.
    pub fn length(&self) -> usize {
        self.text.as_ref().map_or(0, HeldText::len)
    }

    /// The text for a read at this offset. A read from 0 is a new reading; that of a Tstat just
    /// before the open counts as one.
    pub fn poll(
        &mut self,
        offset: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        if self.reading.is_none() && (offset == 0 || self.text.is_none()) {
            let is_first = self.text.take().is_none();
            let recent = if is_first { self.readings.take_recent(self.user.uid) } else { None };
            if let Some(recent) = recent {
                return Poll::Ready(Ok(self.text.insert(recent).text()));
            }
            self.reading = Some(self.readings.begin(&self.user));
        }
        if let Some(reading) = &mut self.reading {
            let Poll::Ready(result) = reading.as_mut().poll(context) else { return Poll::Pending };
            self.reading = None;
            match result {
                Ok(text) => self.text = Some(text),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(self.text.as_ref().map(HeldText::text).unwrap_or_default()))
    }

    /// Gives up a reading that no request waits for.
    pub fn abandon(&mut self) {
        self.reading = None;
    }
}

//! An open `mon/push`, of the node or of a session: samples as they are made, with a filter and a
//! period of its own.
//!
//! In: the filter, and samples of a periodic monitor of the user, on a connection inside the
//! daemon. Out: lines. A task, not a thread, moves them to a queue with a limit, so that a slow
//! reader delays no other; it begins with the first read, and ends with the file.

use super::identity::user_peer;
use super::node::NodeFiles;
use super::node_sample::refusal;
use super::sample_filter::SampleFilter;
use super::sample_queue::SampleQueue;
use super::session::LiveSession;
use super::{node_sample, session_sample};
use crate::http::LoopbackClient;
use crate::http::message::{Message, lines};
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_control::session::SessionHold;
use monitor_model::Ns;
use monitor_ninep::{Errno, FileError, User};
use monitor_sys::clock;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::future::pending;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::task::{AbortHandle, yield_now};

/// Where samples come from, and for which user.
#[derive(Clone)]
pub struct PushSource {
    /// The node.
    pub node: Arc<NodeFiles>,
    /// The user of the attach.
    pub user: Arc<User>,
    /// The process that made the connection.
    pub pid: u32,
    /// What is charged for it.
    pub share: Arc<UserShare>,
    /// The session whose processes are sampled; none for the node.
    pub session: Option<Arc<LiveSession>>,
}

/// An open file.
pub struct PushFile {
    source: PushSource,
    filter: SampleFilter,
    queue: Arc<SampleQueue>,
    /// Makes the samples.
    task: Option<AbortHandle>,
    /// What keeps its session.
    _hold: Option<SessionHold>,
}

impl Drop for PushFile {
    fn drop(&mut self) {
        self.stop();
    }
}

impl PushFile {
    /// Opened; nothing is sampled yet.
    pub fn new(source: PushSource, hold: Option<SessionHold>) -> Self {
        let (filter, queue) = (SampleFilter::default(), Arc::default());
        Self { source, filter, queue, task: None, _hold: hold }
    }

    /// Samples that are there, or the next one.
    pub fn poll_read(
        &mut self,
        most: usize,
        context: &Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        if self.task.is_none() {
            self.begin();
        }
        self.queue.poll(most, context)
    }

    /// Sets the filter: a write is one. What waits of the previous one is not dropped.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        let known = match self.source.session {
            Some(_) => &session_sample::CATEGORIES[..],
            None => &node_sample::FIELDS[..],
        };
        self.filter = SampleFilter::parse(content, known)?;
        if self.task.is_some() {
            self.stop();
            self.begin();
        }
        Ok(content.len())
    }

    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    fn begin(&mut self) {
        let (source, filter) = (self.source.clone(), self.filter.clone());
        // One of its own: a task that was aborted may still run.
        self.queue = Arc::new(self.queue.continued());
        let queue = Arc::clone(&self.queue);
        let task = async move {
            let ended = tokio::select! {
                ended = follow(&source, &filter, &queue) => ended,
                () = session_end(&source) => Ok(()),
            };
            queue.end(ended.err());
        };
        self.task = Some(tokio::spawn(task).abort_handle());
    }
}

/// Ready when the session has ended; never for the node.
async fn session_end(source: &PushSource) {
    match &source.session {
        Some(session) => session.record.gone().await,
        None => pending().await,
    }
}

/// What follows of a monitor.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    sample: Option<&'a RawValue>,
    /// Events that were dropped before this one.
    #[serde(default)]
    dropped: u64,
    ended: Option<&'a str>,
}

/// Queues samples until the monitor ends.
async fn follow(
    source: &PushSource,
    filter: &SampleFilter,
    queue: &SampleQueue,
) -> Result<(), FileError> {
    let denied = |why| FileError::new(Errno::Denied, why);
    let peer = user_peer(&source.user, source.pid);
    let client = LoopbackClient::connect_user(&source.node.requests, peer).await;
    let client = client.map_err(denied)?;
    let mut request = match source.session {
        Some(_) => session_sample::request(),
        None => node_sample::request(),
    };
    let period = u64::try_from(filter.period.as_nanos()).unwrap_or(u64::MAX);
    request["every_ns"] = Value::from(period);
    client.call(0, "monitor", &request).await;
    let mut number = 0;
    while let Some(chunk) = client.next_lines().await {
        // One that waits behind other messages of its user is dropped in front of the queue.
        drop(source.share.admit_line(|| false).await);
        let began = clock::thread_cpu();
        let follows = receive(source, (filter, &mut number), (&chunk, queue));
        source.share.charge(Ns(clock::thread_cpu().since(began).0));
        if !follows? {
            break;
        }
        yield_now().await;
    }
    Ok(())
}

/// Queues the samples of these lines that pass; false after the last.
fn receive(
    source: &PushSource,
    (filter, number): (&SampleFilter, &mut u32),
    (chunk, queue): (&Bytes, &SampleQueue),
) -> Result<bool, FileError> {
    for line in lines(chunk) {
        let Some(message) = Message::from_line(line) else { continue };
        if let Some(error) = message.error {
            return Err(FileError::new(Errno::TryAgain, refusal(error.get())));
        }
        let text = message.params.or(message.result).map_or("null", |it| it.get());
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else { continue };
        if let Some(sample) = envelope.sample {
            *number += 1;
            let text = text_of(source, filter, (sample.get(), *number))?;
            match text {
                Some(text) => queue.add(text, envelope.dropped),
                None => queue.lose(envelope.dropped),
            }
        }
        if envelope.ended.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A sample as text; `None` if it does not pass.
fn text_of(
    source: &PushSource,
    filter: &SampleFilter,
    (sample, number): (&str, u32),
) -> Result<Option<String>, FileError> {
    match &source.session {
        None => node_sample::text(sample, number, filter),
        Some(session) => {
            let launchers = source.node.sessions.launchers(&source.user);
            let session = session.record.number;
            session_sample::text(sample, number, (session, &launchers, filter))
        }
    }
}

//! Samples of a periodic monitor, of the node or of a session, for a user.
//!
//! In: a connection of the user inside the daemon. Out: each sample as it is made, or as the text
//! of a file; what that costs is charged to the user.

use super::identity::user_peer;
use super::node::NodeFiles;
use super::node_sample::refusal;
use super::sample_filter::{Condition, HeldRow, SampleFilter};
use super::session::LiveSession;
use super::{node_sample, session_sample};
use crate::http::LoopbackClient;
use crate::http::message::{Message, lines};
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_model::Ns;
use monitor_ninep::{Errno, FileError, User};
use monitor_sys::clock;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};

/// Where samples come from, and for which user.
#[derive(Clone)]
pub struct SampleSource {
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
    /// Whether the samples are counters of processors.
    pub has_counters: bool,
}

/// A sample, as JSON.
#[derive(Clone, Copy)]
pub struct ReceivedSample<'a> {
    /// Its text.
    pub json: &'a str,
    /// How many were dropped before it.
    pub dropped: u64,
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

impl SampleSource {
    /// Receives samples until the monitor or the session ends.
    ///
    /// # Errors
    ///
    /// When the monitor is refused, or a sample is.
    pub async fn follow(
        &self,
        period: Duration,
        receive: impl FnMut(ReceivedSample<'_>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        if self.has_counters {
            return self.follow_counters(period, receive).await;
        }
        tokio::select! {
            ended = self.follow_monitor(period, receive) => ended,
            () = self.session_end() => Ok(()),
        }
    }

    /// The text of the sample with this number; `None` if it does not pass the filter.
    ///
    /// # Errors
    ///
    /// When it is no sample.
    pub fn text(
        &self,
        sample: ReceivedSample<'_>,
        (number, filter): (u32, &SampleFilter),
    ) -> Result<Option<String>, FileError> {
        match &self.session {
            None => node_sample::text(sample.json, number, filter),
            Some(session) => {
                let launchers = self.node.sessions.launchers(&self.user);
                let session = session.record.number;
                session_sample::text(sample.json, number, (session, &launchers, filter))
            }
        }
    }

    /// For each condition the first row of a sample for which it holds.
    ///
    /// # Errors
    ///
    /// When it is no sample.
    pub fn holding(
        &self,
        sample: ReceivedSample<'_>,
        conditions: &[Condition],
    ) -> Result<Vec<Option<HeldRow>>, FileError> {
        match &self.session {
            None => node_sample::holding(sample.json, conditions),
            Some(session) => {
                let launchers = self.node.sessions.launchers(&self.user);
                let session = session.record.number;
                session_sample::holding(sample.json, (session, &launchers), conditions)
            }
        }
    }

    /// Ready when the session has ended; never for the node.
    async fn session_end(&self) {
        match &self.session {
            Some(session) => session.record.gone().await,
            None => pending().await,
        }
    }

    /// Reads counters again and again.
    async fn follow_counters(
        &self,
        period: Duration,
        mut receive: impl FnMut(ReceivedSample<'_>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            // It costs its user as much as a message of its own.
            drop(self.share.admit_line(|| false).await);
            let json = self.node.counters.sample(&self.node.name).await?;
            let began = clock::thread_cpu();
            receive(ReceivedSample { json: &json, dropped: 0 })?;
            self.share.charge(Ns(clock::thread_cpu().since(began).0));
        }
    }

    async fn follow_monitor(
        &self,
        period: Duration,
        mut receive: impl FnMut(ReceivedSample<'_>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let denied = |why| FileError::new(Errno::Denied, why);
        let peer = user_peer(&self.user, self.pid);
        let client = LoopbackClient::connect_user(&self.node.requests, peer).await;
        let client = client.map_err(denied)?;
        let mut request = match self.session {
            Some(_) => session_sample::request(),
            None => node_sample::request(),
        };
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        request["every_ns"] = Value::from(period);
        client.call(0, "monitor", &request).await;
        while let Some(chunk) = client.next_lines().await {
            // One that waits behind other messages of its user is dropped in front of the queue.
            drop(self.share.admit_line(|| false).await);
            let began = clock::thread_cpu();
            let follows = receive_lines(&chunk, &mut receive);
            self.share.charge(Ns(clock::thread_cpu().since(began).0));
            if !follows? {
                break;
            }
            yield_now().await;
        }
        Ok(())
    }
}

/// Receives the samples of these lines; false after the last.
fn receive_lines(
    chunk: &Bytes,
    receive: &mut impl FnMut(ReceivedSample<'_>) -> Result<(), FileError>,
) -> Result<bool, FileError> {
    for line in lines(chunk) {
        let Some(message) = Message::from_line(line) else { continue };
        if let Some(error) = message.error {
            return Err(FileError::new(Errno::TryAgain, refusal(error.get())));
        }
        let text = message.params.or(message.result).map_or("null", |it| it.get());
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else { continue };
        if let Some(sample) = envelope.sample {
            receive(ReceivedSample { json: sample.get(), dropped: envelope.dropped })?;
        }
        if envelope.ended.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

//! The events of one monitor, also across a restart of the daemon.
//!
//! When the daemon goes away, the series waits for it and repeats its call. The reader is notified
//! of both: there are no samples in between, and a new series with new numbers and rates follows.
//! A monitor with targets on several nodes has a series of each, and ends when all have ended.

use super::Error;
use super::connection::{OnDrop, Subscription};
use super::daemon::{Daemon, MissingNode, SampleReply};
use backon::{ExponentialBuilder, Retryable};
use monitor_model::{MonitorRequest, Status};
use monitor_protocol::event::{EndReason, Event};
use monitor_protocol::{answer::Lease, call::Call, params::MonitorName};
use std::collections::{BTreeMap, VecDeque};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// First and maximum delay between attempts to reconnect.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// An item of a series.
#[derive(Debug)]
pub enum SeriesItem {
    /// A sample, an alert, or the end of the series.
    Event(Box<Event>),
    /// The daemon has gone away; the next item waits for it.
    Disconnected,
    /// The daemon is back after this time, which has no samples; the next event is the first of a
    /// new series.
    Reconnected(Duration),
}

/// The events of one monitor.
pub struct Series {
    daemon: Arc<Daemon>,
    reconnect_timeout: Duration,
    /// The call to repeat after a restart.
    call: Call,
    started: Started,
    /// What came of each node.
    nodes: BTreeMap<String, NodeSamples>,
    disconnected_at: Option<Instant>,
    ended: bool,
}

/// What came of a node.
#[derive(Default)]
struct NodeSamples {
    n_samples: u64,
    /// Whether more will come.
    goes_on: bool,
}

/// What a call has started.
struct Started {
    id: String,
    /// `None` while the daemon has gone away.
    subscription: Option<Subscription>,
    /// The first event of each node.
    first: VecDeque<Event>,
    missing: Vec<MissingNode>,
    partial: bool,
    kept: usize,
}

impl Series {
    pub(super) async fn start(
        (daemon, reconnect_timeout): (Arc<Daemon>, Duration),
        call: Call,
    ) -> Result<Self, Error> {
        let started = start(&daemon, &call).await?;
        Ok(Self {
            daemon,
            reconnect_timeout,
            call,
            started,
            nodes: BTreeMap::new(),
            disconnected_at: None,
            ended: false,
        })
    }

    /// The name of the monitor: the requested one, or one that the daemon chose.
    pub fn id(&self) -> &str {
        &self.started.id
    }

    /// Whether requested data is missing in the first sample.
    pub const fn partial(&self) -> bool {
        self.started.partial
    }

    /// The first event of each node, which `next` does not return then.
    pub fn take_first(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.started.first.pop_front() {
            self.count(&event);
            all.push(event);
        }
        all
    }

    /// The nodes that have no first sample, and why.
    pub fn missing(&self) -> &[MissingNode] {
        &self.started.missing
    }

    /// Number of kept events; they come first.
    pub const fn kept(&self) -> usize {
        self.started.kept
    }

    /// Waits for the next item; `None` when the series has ended, and after an error. Cancel safe:
    /// no item is lost if the future is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the daemon does not come back in time, or refuses the repeated call.
    pub async fn next(&mut self) -> Result<Option<SeriesItem>, Error> {
        if self.ended {
            return Ok(None);
        }
        if let Some(since) = self.disconnected_at {
            let started = self.reconnect(since).await;
            self.ended = started.is_err();
            self.started = started?;
            self.nodes.values_mut().for_each(|it| it.goes_on = false);
            self.disconnected_at = None;
            return Ok(Some(SeriesItem::Reconnected(since.elapsed())));
        }
        if let Some(event) = self.started.first.pop_front() {
            return Ok(Some(self.deliver(event)));
        }
        let Some(subscription) = &self.started.subscription else { return Ok(None) };
        let event = subscription.next().await;
        Ok(Some(match event {
            // One of several nodes may shut down: the others go on.
            Some(event) if event.ended != Some(EndReason::Shutdown) || self.nodes.len() > 1 => {
                self.deliver(event)
            }
            _ => {
                self.disconnected_at = Some(Instant::now());
                self.started.subscription = None;
                SeriesItem::Disconnected
            }
        }))
    }

    fn deliver(&mut self, event: Event) -> SeriesItem {
        self.count(&event);
        SeriesItem::Event(Box::new(event))
    }

    /// Notes an event that is delivered.
    fn count(&mut self, event: &Event) {
        let node = self.nodes.entry(event.node.clone()).or_default();
        node.n_samples += u64::from(event.sample.is_some());
        node.goes_on = event.ended.is_none();
        if self.started.first.is_empty() && !self.nodes.values().any(|it| it.goes_on) {
            self.ended = true;
            self.started.subscription.iter_mut().for_each(Subscription::mark_ended);
        }
    }

    /// Repeats the call until the daemon answers or the time limit is reached.
    async fn reconnect(&self, since: Instant) -> Result<Started, Error> {
        let delays = ExponentialBuilder::default()
            .with_min_delay(RETRY_DELAYS.0)
            .with_max_delay(RETRY_DELAYS.1)
            .with_jitter()
            .without_max_times();
        let n_samples = self.nodes.values().map(|it| it.n_samples).max().unwrap_or(0);
        let attempt = || async {
            match &self.call {
                Call::Monitor(request) => restart(&self.daemon, request, n_samples).await,
                call => start(&self.daemon, call).await,
            }
        };
        let left = self.reconnect_timeout.saturating_sub(since.elapsed());
        match timeout(left, attempt.retry(delays).when(Error::is_transient)).await {
            Ok(started) => started,
            Err(_) => Err(self.daemon.unreachable()),
        }
    }
}

/// Makes the call that starts a series.
async fn start(daemon: &Daemon, call: &Call) -> Result<Started, Error> {
    let on_drop = match call {
        Call::Attach(_) => OnDrop::KeepLease,
        Call::Monitor(request) if request.lease_ns.is_some() => OnDrop::KeepLease,
        _ => OnDrop::Cancel,
    };
    let (text, subscription) = daemon.connection().await?.series(call, on_drop).await?;
    let (mut first, mut missing, mut partial, mut kept) = (VecDeque::new(), Vec::new(), false, 0);
    match call {
        Call::Monitor(_) => {
            let reply = SampleReply::from_result(&text)?;
            first.push_back(reply.event);
            first.extend(reply.others);
            (missing, partial) = (reply.missing, reply.partial);
        }
        Call::Attach(_) => {
            let lease: Lease = serde_json::from_str(&text).map_err(Error::protocol)?;
            kept = lease.kept;
        }
        // A watch has no first sample.
        _ => {}
    }
    let id = subscription.id().to_owned();
    Ok(Started { id, subscription: Some(subscription), first, missing, partial, kept })
}

/// Starts the rest of a series. A leased monitor may have outlived the connection.
async fn restart(
    daemon: &Daemon,
    request: &MonitorRequest,
    n_samples: u64,
) -> Result<Started, Error> {
    if let (Some(_), Some(id)) = (request.lease_ns, request.id.clone()) {
        match start(daemon, &Call::Attach(MonitorName { id })).await {
            Err(Error::Refused(refusal)) if refusal.status == Status::NotFound => {}
            started => return started,
        }
    }
    let count = request.count.map(|count| count.saturating_sub(n_samples).max(1));
    let request = MonitorRequest { count, ..request.clone() };
    start(daemon, &Call::Monitor(Box::new(request))).await
}

//! The events of one monitor, also across a restart of the daemon.
//!
//! When the daemon goes away, the series waits for it and repeats its call. The reader is notified
//! of both: there are no samples in between, and a new series with new numbers and rates follows.

use super::Error;
use super::connection::{OnDrop, Subscription};
use super::daemon::{Daemon, SampleReply};
use backon::{ExponentialBuilder, Retryable};
use monitor_model::{MonitorRequest, Status};
use monitor_protocol::event::{EndReason, Event};
use monitor_protocol::{answer::Lease, call::Call, params::MonitorName};
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
    n_samples: u64,
    disconnected_at: Option<Instant>,
    ended: bool,
}

/// What a call has started.
struct Started {
    id: String,
    /// `None` while the daemon has gone away.
    subscription: Option<Subscription>,
    first: Option<Event>,
    partial: bool,
    kept: usize,
}

impl Series {
    pub(super) async fn start(
        (daemon, reconnect_timeout): (Arc<Daemon>, Duration),
        call: Call,
    ) -> Result<Self, Error> {
        let started = start(&daemon, &call).await?;
        let (n_samples, disconnected_at, ended) = (0, None, false);
        Ok(Self { daemon, reconnect_timeout, call, started, n_samples, disconnected_at, ended })
    }

    /// The name of the monitor: the requested one, or one that the daemon chose.
    pub fn id(&self) -> &str {
        &self.started.id
    }

    /// Whether requested data is missing in the first sample.
    pub const fn partial(&self) -> bool {
        self.started.partial
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
            self.disconnected_at = None;
            return Ok(Some(SeriesItem::Reconnected(since.elapsed())));
        }
        if let Some(event) = self.started.first.take() {
            return Ok(Some(self.deliver(event)));
        }
        let Some(subscription) = &self.started.subscription else { return Ok(None) };
        let event = subscription.next().await;
        Ok(Some(match event {
            Some(event) if event.ended != Some(EndReason::Shutdown) => self.deliver(event),
            _ => {
                self.disconnected_at = Some(Instant::now());
                self.started.subscription = None;
                SeriesItem::Disconnected
            }
        }))
    }

    fn deliver(&mut self, event: Event) -> SeriesItem {
        self.n_samples += u64::from(event.sample.is_some());
        if event.ended.is_some() {
            self.ended = true;
            self.started.subscription.iter_mut().for_each(Subscription::mark_ended);
        }
        SeriesItem::Event(Box::new(event))
    }

    /// Repeats the call until the daemon answers or the time limit is reached.
    async fn reconnect(&self, since: Instant) -> Result<Started, Error> {
        let delays = ExponentialBuilder::default()
            .with_min_delay(RETRY_DELAYS.0)
            .with_max_delay(RETRY_DELAYS.1)
            .with_jitter()
            .without_max_times();
        let attempt = || async {
            match &self.call {
                Call::Monitor(request) => restart(&self.daemon, request, self.n_samples).await,
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
    let (mut first, mut partial, mut kept) = (None, false, 0);
    match call {
        Call::Monitor(_) => {
            let reply = SampleReply::from_result(&text)?;
            (first, partial) = (Some(reply.event), reply.partial);
        }
        Call::Attach(_) => {
            let lease: Lease = serde_json::from_str(&text).map_err(Error::protocol)?;
            kept = lease.kept;
        }
        // A watch has no first sample.
        _ => {}
    }
    let id = subscription.id().to_owned();
    Ok(Started { id, subscription: Some(subscription), first, partial, kept })
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

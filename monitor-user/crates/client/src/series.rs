//! The events of one monitor, also across a restart of the daemon.
//!
//! When the daemon goes away, the series waits for it and repeats its call. The reader is notified
//! of both: there are no samples in between, and a new series with new numbers and rates follows.

use super::connection::{OnDrop, Subscription};
use super::error::Error;
use super::{Client, SampleReply, sample_reply};
use backon::{ExponentialBuilder, Retryable};
use monitor_model::request::MonitorRequest;
use monitor_model::status::{Refusal, Status};
use monitor_protocol::answer::Lease;
use monitor_protocol::call::Call;
use monitor_protocol::event::{EndReason, Event};
use monitor_protocol::params::MonitorName;
use std::time::Duration;
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
    client: Client,
    origin: Origin,
    subscription: Option<Subscription>,
    id: String,
    first: Option<Event>,
    partial: bool,
    kept: usize,
    n_samples: u64,
    disconnected_at: Option<Instant>,
    ended: bool,
}

/// The call to repeat after a restart.
enum Origin {
    Request(Box<MonitorRequest>),
    Lease(String),
    Watch(Box<Call>),
}

/// A started series.
struct Started {
    subscription: Subscription,
    first: Option<Event>,
    partial: bool,
    kept: usize,
}

impl Series {
    pub(super) async fn start(client: Client, request: &MonitorRequest) -> Result<Self, Error> {
        if request.every_ns.is_none() {
            let why = "every_ns is missing: use sample for one reading";
            return Err(Refusal::bad(why).into());
        }
        let started = start(&client, request).await?;
        Ok(Self::from_started(client, Origin::Request(Box::new(request.clone())), started))
    }

    pub(super) async fn attach(client: Client, id: &str) -> Result<Self, Error> {
        let started = attach(&client, id).await?;
        Ok(Self::from_started(client, Origin::Lease(id.into()), started))
    }

    pub(super) async fn watch(client: Client, call: Call) -> Result<Self, Error> {
        let started = watch(&client, &call).await?;
        Ok(Self::from_started(client, Origin::Watch(Box::new(call)), started))
    }

    fn from_started(client: Client, origin: Origin, started: Started) -> Self {
        let mut series = Self {
            client,
            origin,
            subscription: None,
            id: String::new(),
            first: None,
            partial: false,
            kept: 0,
            n_samples: 0,
            disconnected_at: None,
            ended: false,
        };
        series.adopt(started);
        series
    }

    fn adopt(&mut self, started: Started) {
        self.id = started.subscription.id().to_owned();
        self.subscription = Some(started.subscription);
        self.first = started.first;
        self.partial = started.partial;
        self.kept = started.kept;
        self.disconnected_at = None;
    }

    /// The name of the monitor: the requested one, or one that the daemon chose.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether requested data is missing in the first sample.
    pub const fn partial(&self) -> bool {
        self.partial
    }

    /// Number of kept events; they come first.
    pub const fn kept(&self) -> usize {
        self.kept
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
            self.adopt(started?);
            return Ok(Some(SeriesItem::Reconnected(since.elapsed())));
        }
        if let Some(event) = self.first.take() {
            return Ok(Some(self.deliver(event)));
        }
        let Some(subscription) = &self.subscription else { return Ok(None) };
        let event = subscription.next().await;
        Ok(Some(match event {
            Some(event) if event.ended != Some(EndReason::Shutdown) => self.deliver(event),
            _ => {
                self.disconnected_at = Some(Instant::now());
                self.subscription = None;
                SeriesItem::Disconnected
            }
        }))
    }

    fn deliver(&mut self, event: Event) -> SeriesItem {
        self.n_samples += u64::from(event.sample.is_some());
        if event.ended.is_some() {
            self.ended = true;
            self.subscription.iter_mut().for_each(Subscription::mark_ended);
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
            match &self.origin {
                Origin::Lease(id) => attach(&self.client, id).await,
                Origin::Watch(call) => watch(&self.client, call).await,
                Origin::Request(request) => restart(&self.client, request, self.n_samples).await,
            }
        };
        let left = self.client.reconnect_timeout.saturating_sub(since.elapsed());
        match timeout(left, attempt.retry(delays).when(Error::is_transient)).await {
            Ok(started) => started,
            Err(_) => Err(self.client.unreachable()),
        }
    }
}

async fn start(client: &Client, request: &MonitorRequest) -> Result<Started, Error> {
    let on_drop = if request.lease_ns.is_some() { OnDrop::KeepLease } else { OnDrop::Cancel };
    let call = Call::Monitor(Box::new(request.clone()));
    let (text, subscription) = client.connection().await?.series(&call, on_drop).await?;
    let SampleReply { event, partial } = sample_reply(&text)?;
    Ok(Started { subscription, first: Some(event), partial, kept: 0 })
}

async fn attach(client: &Client, id: &str) -> Result<Started, Error> {
    let call = Call::Attach(MonitorName { id: id.into() });
    let (text, subscription) = client.connection().await?.series(&call, OnDrop::KeepLease).await?;
    let lease: Lease = serde_json::from_str(&text).map_err(Error::protocol)?;
    Ok(Started { subscription, first: None, partial: false, kept: lease.kept })
}

/// Starts a watch, which has no first sample.
async fn watch(client: &Client, call: &Call) -> Result<Started, Error> {
    let connection = client.connection().await?;
    let (_set, subscription) = connection.series(call, OnDrop::Cancel).await?;
    Ok(Started { subscription, first: None, partial: false, kept: 0 })
}

/// Starts the rest of a series. A leased monitor may have outlived the connection.
async fn restart(
    client: &Client,
    request: &MonitorRequest,
    n_samples: u64,
) -> Result<Started, Error> {
    if let (Some(_), Some(id)) = (request.lease_ns, &request.id) {
        match attach(client, id).await {
            Err(Error::Refused(refusal)) if refusal.status == Status::NotFound => {}
            started => return started,
        }
    }
    let count = request.count.map(|count| count.saturating_sub(n_samples).max(1));
    start(client, &MonitorRequest { count, ..request.clone() }).await
}

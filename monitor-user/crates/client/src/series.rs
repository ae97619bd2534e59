//! The events of one monitor, also over a restart of the daemon.
//!
//! A daemon that went away is waited for, and asked again for the same. The reader is told both
//! times: between them lies a gap of which nothing is known, and what follows is a new series,
//! whose numbers and rates begin anew.

use super::connection::{Ends, Subscription};
use super::error::Error;
use super::{Client, Sampled, sampled};
use backon::{ExponentialBuilder, Retryable};
use monitor_model::request::Request;
use monitor_model::status::{Refusal, Status};
use monitor_protocol::answer::Leased;
use monitor_protocol::call::Call;
use monitor_protocol::event::{Event, Reason};
use monitor_protocol::params::Named;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// From one attempt to reach the daemon again to the next, at first and at last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What a series tells.
#[derive(Debug)]
pub enum Told {
    /// A sample, or the last word of the series.
    Event(Box<Event>),
    /// The daemon has gone away. Ask on, and it is waited for.
    Away,
    /// It is back after so long. Of the time between nothing is known; the next event is the
    /// first of a new series.
    Back(Duration),
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
    given: u64,
    away: Option<Instant>,
    over: bool,
}

/// How it is asked for again.
enum Origin {
    Request(Box<Request>),
    Lease(String),
    Alarm(Box<Call>),
}

/// A series that has begun.
struct Begun {
    subscription: Subscription,
    first: Option<Event>,
    partial: bool,
    kept: usize,
}

impl Series {
    pub(super) async fn start(client: Client, request: &Request) -> Result<Self, Error> {
        if request.every_ns.is_none() {
            let why = "every_ns is missing: what is read once is asked for with sample";
            return Err(Refusal::bad(why).into());
        }
        let begun = start(&client, request).await?;
        Ok(Self::of(client, Origin::Request(Box::new(request.clone())), begun))
    }

    pub(super) async fn attach(client: Client, id: &str) -> Result<Self, Error> {
        let begun = attach(&client, id).await?;
        Ok(Self::of(client, Origin::Lease(id.into()), begun))
    }

    pub(super) async fn alarm(client: Client, call: Call) -> Result<Self, Error> {
        let begun = alarm(&client, &call).await?;
        Ok(Self::of(client, Origin::Alarm(Box::new(call)), begun))
    }

    fn of(client: Client, origin: Origin, begun: Begun) -> Self {
        let mut it = Self {
            client,
            origin,
            subscription: None,
            id: String::new(),
            first: None,
            partial: false,
            kept: 0,
            given: 0,
            away: None,
            over: false,
        };
        it.take(begun);
        it
    }

    fn take(&mut self, begun: Begun) {
        self.id = begun.subscription.id().to_owned();
        self.subscription = Some(begun.subscription);
        self.first = begun.first;
        self.partial = begun.partial;
        self.kept = begun.kept;
        self.away = None;
    }

    /// The name of the monitor: as asked for, or one that the daemon made up.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether something that was asked for is missing in the first sample.
    pub const fn partial(&self) -> bool {
        self.partial
    }

    /// Events that were kept for whoever attached; they come first.
    pub const fn kept(&self) -> usize {
        self.kept
    }

    /// Waits for what comes next; nothing, when the series has ended, and after an error. Nothing
    /// is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Told>, Error> {
        if self.over {
            return Ok(None);
        }
        if let Some(since) = self.away {
            let begun = self.again(since).await;
            self.over = begun.is_err();
            self.take(begun?);
            return Ok(Some(Told::Back(since.elapsed())));
        }
        if let Some(event) = self.first.take() {
            return Ok(Some(self.tell(event)));
        }
        let Some(subscription) = &self.subscription else { return Ok(None) };
        let event = subscription.next().await;
        Ok(Some(match event {
            Some(event) if event.ended != Some(Reason::Shutdown) => self.tell(event),
            _ => {
                self.away = Some(Instant::now());
                self.subscription = None;
                Told::Away
            }
        }))
    }

    fn tell(&mut self, event: Event) -> Told {
        self.given += u64::from(event.sample.is_some());
        if event.ended.is_some() {
            self.over = true;
            self.subscription.iter_mut().for_each(Subscription::over);
        }
        Told::Event(Box::new(event))
    }

    /// Asks for the same again, until the daemon answers or patience has an end.
    async fn again(&self, since: Instant) -> Result<Begun, Error> {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(PAUSES.0)
            .with_max_delay(PAUSES.1)
            .with_jitter()
            .without_max_times();
        let attempt = || async {
            match &self.origin {
                Origin::Lease(id) => attach(&self.client, id).await,
                Origin::Alarm(call) => alarm(&self.client, call).await,
                Origin::Request(request) => restart(&self.client, request, self.given).await,
            }
        };
        let left = self.client.patience.saturating_sub(since.elapsed());
        match timeout(left, attempt.retry(pauses).when(Error::passes)).await {
            Ok(begun) => begun,
            Err(_) => Err(self.client.absent()),
        }
    }
}

async fn start(client: &Client, request: &Request) -> Result<Begun, Error> {
    let ends = if request.lease_ns.is_some() { Ends::WithLease } else { Ends::WithSeries };
    let call = Call::Monitor(Box::new(request.clone()));
    let (text, subscription) = client.connection().await?.series(&call, ends).await?;
    let Sampled { event, partial } = sampled(&text)?;
    Ok(Begun { subscription, first: Some(event), partial, kept: 0 })
}

async fn attach(client: &Client, id: &str) -> Result<Begun, Error> {
    let call = Call::Attach(Named { id: id.into() });
    let (text, subscription) = client.connection().await?.series(&call, Ends::WithLease).await?;
    let leased: Leased = serde_json::from_str(&text).map_err(Error::garbled)?;
    Ok(Begun { subscription, first: None, partial: false, kept: leased.kept })
}

/// An alarm tells nothing at first.
async fn alarm(client: &Client, call: &Call) -> Result<Begun, Error> {
    let connection = client.connection().await?;
    let (_set, subscription) = connection.series(call, Ends::WithSeries).await?;
    Ok(Begun { subscription, first: None, partial: false, kept: 0 })
}

/// The rest of what was asked for. What runs on a lease may have outlived the connection.
async fn restart(client: &Client, request: &Request, given: u64) -> Result<Begun, Error> {
    if let (Some(_), Some(id)) = (request.lease_ns, &request.id) {
        match attach(client, id).await {
            Err(Error::Refused(refusal)) if refusal.status == Status::NotFound => {}
            begun => return begun,
        }
    }
    let count = request.count.map(|count| count.saturating_sub(given).max(1));
    start(client, &Request { count, ..request.clone() }).await
}

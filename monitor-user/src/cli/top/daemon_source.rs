//! Samples from the daemon, for the screen.
//!
//! In: view queries. Out: updates. A task of its own talks to the daemon, so that a key never
//! interrupts a call. A changed query replaces the series. If the connection is lost, the task
//! waits for the daemon and reports the gap.

use crate::cli::client::{self, DISCONNECTED, reconnected};
use monitor_client::{Client, Error, Series, SeriesItem as Event};
use monitor_model::id::Ns;
use monitor_model::request::MonitorRequest;
use monitor_model::sample::Process;
use monitor_protocol::doctor::CapabilityReport;
use monitor_sys::clock;
use monitor_tui::feed_source::{FeedEvent, FeedSource, ProcessDetails, Update, Usage};
use monitor_tui::feed_source::{ProcessCost, share};
use monitor_tui::view_query::ViewQuery;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Maximum number of queued updates.
const UPDATE_QUEUE: usize = 4;
/// Maximum age of the daemon's status.
const STATUS_MAX_AGE: Ns = Ns(5_000_000_000);

/// A source of updates that reads from the daemon.
pub struct DaemonSource {
    query: watch::Sender<ViewQuery>,
    updates: mpsc::Receiver<FeedEvent>,
}

impl DaemonSource {
    /// Starts the task. Needs a running event loop.
    pub fn new(client: Client, query: ViewQuery) -> Self {
        let (query, queries) = watch::channel(query);
        let (sender, updates) = mpsc::channel(UPDATE_QUEUE);
        let _task = tokio::spawn(DaemonReader::new(client, queries, sender).run());
        Self { query, updates }
    }
}

impl FeedSource for DaemonSource {
    fn set_query(&mut self, query: &ViewQuery) {
        let _ = self.query.send(query.clone());
    }

    async fn next(&mut self) -> FeedEvent {
        let over = || FeedEvent::Ended("the daemon ended the series".into());
        self.updates.recv().await.unwrap_or_else(over)
    }
}

/// A request and its series.
type Started = (MonitorRequest, Series);

/// The task: sends requests and receives events.
struct DaemonReader {
    client: Client,
    queries: watch::Receiver<ViewQuery>,
    sender: mpsc::Sender<FeedEvent>,
    /// Request and series of the table.
    table: Option<Started>,
    /// Request and series of the process whose details are shown.
    focus: Option<Started>,
    /// The last details of that process.
    details: Option<Box<Process>>,
    costs: CostReader,
    begun: bool,
}

impl DaemonReader {
    fn new(
        client: Client,
        queries: watch::Receiver<ViewQuery>,
        sender: mpsc::Sender<FeedEvent>,
    ) -> Self {
        let (table, focus, details) = (None, None, None);
        let costs =
            CostReader { client: client.clone(), own: ProcessCost::default(), daemon: None };
        Self { client, queries, sender, table, focus, details, costs, begun: false }
    }

    async fn run(mut self) {
        if let Err(error) = self.follow().await {
            let _ = self.sender.send(FeedEvent::Ended(error.to_string())).await;
        }
    }

    async fn follow(&mut self) -> Result<(), Error> {
        loop {
            let query = self.queries.borrow_and_update().clone();
            self.update_series(&query).await?;
            loop {
                let update = tokio::select! {
                    biased;
                    changed = self.queries.changed() => match changed {
                        Ok(()) => break,
                        // The screen has closed.
                        Err(_) => return Ok(()),
                    },
                    process = next_process(self.focus.as_mut()) => {
                        let process = process?;
                        // An exited process keeps its last details.
                        if process.is_none() {
                            self.focus = None;
                        }
                        self.details = process.or(self.details.take());
                        continue;
                    }
                    event = next_event(self.table.as_mut()) => {
                        self.table_update(event?, &query).await?
                    }
                };
                if let Some(update) = update
                    && self.sender.send(update).await.is_err()
                {
                    return Ok(());
                }
            }
        }
    }

    /// Starts the series that the query needs and ends the others.
    async fn update_series(&mut self, query: &ViewQuery) -> Result<(), Error> {
        let table = (!query.frozen).then(|| query.table_request());
        let focus = query.focus_request().filter(|_| !query.frozen);
        let request_of =
            |series: &Option<Started>| series.as_ref().map(|(request, _)| request.clone());
        if request_of(&self.table) != table {
            self.table = begin(&self.client, table).await?;
        }
        if request_of(&self.focus) != focus {
            self.details = None;
            // A process that exited meanwhile has no details.
            self.focus = begin(&self.client, focus).await.unwrap_or_default();
        }
        Ok(())
    }

    /// Converts an event of the table to an update of the screen.
    async fn table_update(
        &mut self,
        event: Option<Event>,
        query: &ViewQuery,
    ) -> Result<Option<FeedEvent>, Error> {
        let event = match event {
            None => return Ok(Some(FeedEvent::Ended("the daemon ended the series".into()))),
            Some(Event::Disconnected) => {
                return Ok(Some(FeedEvent::Message(DISCONNECTED.into())));
            }
            Some(Event::Reconnected(after)) => {
                return Ok(Some(FeedEvent::Message(reconnected(after))));
            }
            Some(Event::Event(event)) => event,
        };
        if let Some(reason) = event.ended {
            let why = event.message.clone().unwrap_or_else(|| format!("{reason:?}"));
            return Ok(Some(FeedEvent::Ended(format!("the daemon ended the series: {why}"))));
        }
        let Some(mut rates) = client::rates(&event)? else { return Ok(None) };
        // The first sample of a new series has no rates: keep the old frame until the second.
        if rates.interval.is_none() && std::mem::replace(&mut self.begun, true) {
            return Ok(None);
        }
        rates.sample.relayed = true;
        // Same node, same boot clock.
        let now = clock::now();
        rates.sample.set_boot(now.boot.since(now.unix.since(rates.sample.at.unix)));
        let (cost, probes) = self.costs.at(rates.sample.at.boot).await;
        let matched = event.matched.and_then(|it| usize::try_from(it).ok());
        let focus = self.details.as_deref().cloned();
        let details = ProcessDetails::read(query.focus);
        let update = Update { rates, matched, focus, details, cost, probes, ..Update::default() };
        Ok(Some(FeedEvent::Update(Arc::new(update))))
    }
}

async fn begin(client: &Client, request: Option<MonitorRequest>) -> Result<Option<Started>, Error> {
    let Some(request) = request else { return Ok(None) };
    let series = client.start(&request).await?;
    Ok(Some((request, series)))
}

async fn next_event(series: Option<&mut Started>) -> Result<Option<Event>, Error> {
    let Some((_, series)) = series else { return std::future::pending().await };
    series.next().await
}

/// The next details of a process; `None` when it has exited.
async fn next_process(series: Option<&mut Started>) -> Result<Option<Box<Process>>, Error> {
    let Some((_, series)) = series else { return std::future::pending().await };
    loop {
        let event = match series.next().await? {
            Some(Event::Event(event)) => event,
            Some(_) => continue,
            None => return Ok(None),
        };
        let rates = client::rates(&event)?;
        let process = rates.and_then(|it| it.sample.processes.into_iter().next());
        if process.is_some() || event.ended.is_some() {
            return Ok(process.map(Box::new));
        }
    }
}

/// Reads the costs of this program and of the daemon.
struct CostReader {
    client: Client,
    own: ProcessCost,
    daemon: Option<DaemonCost>,
}

/// The costs of the daemon at a time.
struct DaemonCost {
    at: Ns,
    cpu: Ns,
    cost: Usage,
    probes: Arc<[CapabilityReport]>,
}

impl CostReader {
    async fn at(&mut self, at: Ns) -> (Vec<Usage>, Arc<[CapabilityReport]>) {
        if self.daemon.as_ref().is_none_or(|it| at.since(it.at) >= STATUS_MAX_AGE)
            && let Ok(cost) = self.daemon_cost(at).await
        {
            self.daemon = Some(cost);
        }
        let mut cost = vec![self.own.measure()];
        cost.extend(self.daemon.as_ref().map(|it| it.cost));
        let probes = self.daemon.as_ref().map(|it| Arc::clone(&it.probes));
        (cost, probes.unwrap_or_default())
    }

    /// Requests costs and probes of the daemon. While the daemon is away this fails; the series
    /// waits for it.
    async fn daemon_cost(&self, at: Ns) -> Result<DaemonCost, Error> {
        let status = self.client.status().await?;
        let probes = self.client.probes().await?.capabilities.into();
        let before = self.daemon.as_ref().filter(|it| at > it.at);
        let cpu = Ns(status.cpu_ns);
        let cost = Usage {
            part: "daemon",
            cpu_percent: before.map(|it| share(cpu.since(it.cpu), at.since(it.at))),
            rss_bytes: Some(status.rss_bytes),
        };
        Ok(DaemonCost { at, cpu, cost, probes })
    }
}

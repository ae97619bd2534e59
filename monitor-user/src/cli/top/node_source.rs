//! Samples of one node of the cluster, for the screen: a command in the order for each of them.
//!
//! In: view queries. Out: updates. A command gets one sample, without rates: those are made here,
//! from two samples. So counters are read with them, and the node sends the rows that were first in
//! the order of its counters.

use crate::cli::client;
use crate::cli::node_replies::{NodeReplies, gather_call};
use monitor_client::{Client, MonitorRequest, SampleReply};
use monitor_model::field::{ProcessField, Role};
use monitor_model::group::GroupBy;
use monitor_model::id::Ns;
use monitor_model::rates::{self, Rates};
use monitor_model::sample::{Process, Sample};
use monitor_model::{Category, CpuField, DiskField, NetField, NodeField};
use monitor_protocol::call::Call;
use monitor_sampling::group::{GroupLimits, Groups};
use monitor_tui::feed_source::{FeedEvent, FeedSource, ProcessCost, ProcessDetails, Update};
use monitor_tui::rule::RuleRequest;
use monitor_tui::view_query::ViewQuery;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// Most rows of a sample: with more, a reply could be larger than a message of the bus.
const MAX_ROWS: u32 = 1000;
/// How long a reply is awaited.
const WITHIN: Duration = Duration::from_secs(3);

/// A source of samples of a node.
pub struct NodeSource {
    query: watch::Sender<ViewQuery>,
    updates: mpsc::Receiver<FeedEvent>,
}

impl NodeSource {
    /// Starts the task. Needs a running event loop.
    pub fn new(client: Client, node: String, query: ViewQuery) -> Self {
        let (query, queries) = watch::channel(query);
        let (sender, updates) = mpsc::channel(1);
        let reader =
            NodeReader { client, node, last: None, groups: None, own: ProcessCost::default() };
        drop(tokio::spawn(reader.run(queries, sender)));
        Self { query, updates }
    }
}

impl FeedSource for NodeSource {
    fn set_query(&mut self, query: &ViewQuery) {
        let _ = self.query.send_replace(query.clone());
    }

    async fn next(&mut self) -> FeedEvent {
        let over = || FeedEvent::Ended("the service does not answer".into());
        self.updates.recv().await.unwrap_or_else(over)
    }

    fn rule(&mut self, _: RuleRequest) -> Result<(), String> {
        Err("this process is on another node: rules of this screen need one of this node".into())
    }
}

/// The task: lets the node read, and makes updates.
struct NodeReader {
    client: Client,
    node: String,
    last: Option<Sample>,
    groups: Option<(GroupBy, Groups)>,
    own: ProcessCost,
}

impl NodeReader {
    async fn run(mut self, mut queries: watch::Receiver<ViewQuery>, to: mpsc::Sender<FeedEvent>) {
        loop {
            let query = queries.borrow_and_update().clone();
            if !query.frozen {
                let event = match self.read(&query).await {
                    Ok(Some(update)) => Some(FeedEvent::Update(Arc::new(update))),
                    // The first sample has no rates: the second follows soon.
                    Ok(None) => None,
                    Err(why) => Some(FeedEvent::Message(why)),
                };
                if let Some(event) = event
                    && to.send(event).await.is_err()
                {
                    return;
                }
            }
            tokio::select! {
                () = sleep(query.every), if !query.frozen => {}
                changed = queries.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn read(&mut self, query: &ViewQuery) -> Result<Option<Update>, String> {
        let (sample, matched) = self.sample(table_request(query)).await?;
        let focus = match query.focus_request() {
            Some(request) => self.focus(request).await,
            None => None,
        };
        let by = query.group_by;
        if self.groups.as_ref().map(|it| it.0) != by {
            self.groups = by.map(|by| (by, Groups::new(by, GroupLimits::default())));
        }
        let groups = self.groups.as_mut().map(|(_, it)| it.learn(&sample, &Default::default()));
        let Some(before) = self.last.replace(sample.clone()) else { return Ok(None) };
        let rates = Rates { groups, ..rates::rates(&before, sample) };
        Ok(Some(Update {
            rates,
            matched,
            focus,
            details: ProcessDetails::elsewhere(),
            cost: vec![self.own.measure()],
            is_elsewhere: true,
            ..Update::default()
        }))
    }

    /// A sample of the node, and the number of its processes.
    async fn sample(&self, request: MonitorRequest) -> Result<(Sample, Option<usize>), String> {
        let call = Call::Monitor(Box::new(request));
        let found = gather_call(&self.client, (&self.node, WITHIN), &call).await;
        let NodeReplies { replies, missing } = found.map_err(|why| why.message)?;
        let missing = || missing.notices().join("; ");
        let (_, reply) = replies.first().ok_or_else(missing)?;
        let SampleReply { event, .. } =
            SampleReply::from_result(reply.get()).map_err(|why| why.to_string())?;
        let rates = client::rates(&event).map_err(|why| why.to_string())?;
        let mut sample = rates.ok_or("the node has sent no sample")?.sample;
        sample.node = self.node.as_str().into();
        sample.relayed = true;
        // They come in the order of the request; rates need that of identities.
        sample.processes.sort_unstable_by_key(|it| it.id);
        // Times since the start of the node are by its own clock.
        let uptime = sample.node_stats.as_ref().and_then(|it| it.row.get(NodeField::Uptime));
        if let Some(uptime) = uptime {
            sample.set_boot(Ns(uptime));
        }
        let matched = event.matched.and_then(|it| usize::try_from(it).ok());
        Ok((sample, matched))
    }

    /// The process whose details are shown, if it runs.
    async fn focus(&self, request: MonitorRequest) -> Option<Process> {
        let request = MonitorRequest { every_ns: None, capabilities: Vec::new(), ..request };
        let (sample, _) = self.sample(request).await.ok()?;
        sample.processes.into_iter().next()
    }
}

/// The request for the table: all fields that rows need, as counters, of the first rows.
fn table_request(query: &ViewQuery) -> MonitorRequest {
    let plain = ViewQuery { group_by: None, ..query.clone() };
    let mut request = plain.table_request();
    let order = match query.order.field.field().role {
        Role::RateOf(counter) => ProcessField::at(counter).unwrap_or(query.order.field),
        _ => query.order.field,
    };
    let is_ascending = request.sort.as_deref().is_some_and(|sort| sort.starts_with('+'));
    let sign = if is_ascending { "+" } else { "" };
    let named_by = query.group_by.and_then(|by| match by {
        GroupBy::Job => Some("proc.job"),
        GroupBy::User => Some("proc.user"),
        GroupBy::Cgroup | GroupBy::Container => Some("proc.cgroup"),
        GroupBy::Comm | GroupBy::Rule => None,
    });
    let fields = request.fields.take().unwrap_or_default();
    let counters: BTreeSet<String> = fields.iter().filter_map(|name| counter(name)).collect();
    let all = fields.into_iter().chain(counters).chain(named_by.map(str::to_owned));
    let mut seen = BTreeSet::new();
    request.fields = Some(all.filter(|name| seen.insert(name.clone())).collect());
    MonitorRequest {
        every_ns: None,
        top: Some(MAX_ROWS),
        sort: Some(format!("{sign}{}", order.field().name)),
        ..request
    }
}

/// The counter of a field that is a rate.
fn counter(name: &str) -> Option<String> {
    let (category, field) = name.split_once('.')?;
    let counter = match category {
        "proc" => counter_of::<ProcessField>(field),
        "node" => counter_of::<NodeField>(field),
        "cpu" => counter_of::<CpuField>(field),
        "disk" => counter_of::<DiskField>(field),
        "net" => counter_of::<NetField>(field),
        _ => None,
    };
    counter.map(|counter| format!("{category}.{counter}"))
}

fn counter_of<F: Category>(name: &str) -> Option<&'static str> {
    let rate = F::all().find(|it| it.field().name == name)?;
    match rate.field().role {
        Role::RateOf(counter) => F::at(counter).map(|it| it.field().name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_sampling::order::{Direction, Order};
    use monitor_sampling::plan::Plan;
    use monitor_tui::view_query::fields;

    #[test]
    fn a_node_is_asked_for_counters_in_their_order_and_for_what_names_groups() {
        let order = Order { field: ProcessField::CpuPercent, direction: Direction::Descending };
        let query = |group_by| ViewQuery {
            every: Duration::from_secs(1),
            fields: fields(&[ProcessField::Rss], order, None),
            order,
            group_by,
            top: None,
            focus: None,
            frozen: false,
        };
        let request = table_request(&query(None));
        assert_eq!((request.sort.as_deref(), request.every_ns), (Some("cpu_ns"), None));
        assert_eq!(request.top, Some(MAX_ROWS));
        for counter in ["proc.cpu_ns", "node.cpu_busy_ns", "disk.read_bytes"] {
            let n = request.fields.iter().flatten().filter(|it| *it == counter).count();
            assert_eq!(n, 1, "{counter}");
        }
        let request = table_request(&query(Some(GroupBy::User)));
        assert_eq!(request.group_by, None);
        assert!(request.fields.as_ref().unwrap().iter().any(|it| it == "proc.user"));
        assert!(Plan::from_request(&request).is_ok());
    }
}

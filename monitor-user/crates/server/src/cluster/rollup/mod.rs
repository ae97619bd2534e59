//! Roll-ups: each node publishes one compact record a second while a gateway wants them.
//!
//! ```text
//!  gateway: viewers --want--> RollupExchange --request--> all nodes (mon.want.GATEWAY)
//!  node:    RollupSource (readings of the daemon) --record--> gateways (mon.s.NODE)
//!           or, with `cluster.aggregators`: --record--> aggregator: Rack --> gateways
//!  gateway: RollupTable --once a second--> ClusterRollup --> call `rollup`, page, /metrics
//! ```
//!
//! In: how long viewers want roll-ups, and what nodes publish. Out: bytes to publish, and the
//! roll-up of the cluster. Without a viewer, nothing is read, sent or subscribed to but the
//! requests of gateways.

mod metrics;
mod rack;
mod record;
mod source;
mod table;
mod view;

pub use metrics::cluster_metrics;
pub use record::{IS_JOB, JobProcess, RecordBuilder, UserGroup};
pub use table::{KnownRecord, LastRecord, join_records, node_summary};
pub use view::{RollupViewer, rollup_for};

use self::rack::{Rack, aggregator, may_speak, records_of, unpacked};
use self::source::RollupSource;
use self::table::RollupTable;
use super::following::BusNode;
use crate::http::DaemonRequest;
use monitor_cluster::bus::membership::Membership;
use monitor_cluster::bus::{Bus, Topic};
use monitor_cluster::message::PeerMessage;
use monitor_cluster::node_set::expand;
use monitor_model::Ns;
use monitor_protocol::cluster::Member;
use monitor_protocol::rollup::{ClusterRollup, RollupRequest, VERSION};
use monitor_sys::clock;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Time between two roll-ups of the cluster.
const PERIOD: Ns = Ns(1_000_000_000);
/// Time between two requests of a gateway, so that a node that comes late publishes too.
const REQUEST_PERIOD: Ns = Ns(3_000_000_000);
/// How long a request lasts: longer than two periods, so that one may be lost.
const REQUEST_LASTS: Ns = Ns(10_000_000_000);
/// The longest that a node publishes for one request, whatever it says.
const MAX_LASTS: Ns = Ns(30_000_000_000);
/// Records of this node that wait to be published.
const QUEUE: usize = 4;

/// Where the last roll-up of the cluster is; none before the first.
pub type LastRollup = watch::Receiver<Option<Arc<ClusterRollup>>>;

/// What the exchange waits for.
pub enum RollupEvent {
    /// A record of this node.
    Record(Vec<u8>),
    /// Something is due.
    Due,
}

/// The end of this node: publishes its records, and on a gateway collects those of all.
pub struct RollupExchange {
    own: String,
    /// The nodes of which one publishes the records of this node; it does itself without one.
    aggregators: BTreeSet<String>,
    /// The records of other nodes that this one publishes; none while no node sends any.
    rack: Option<Rack>,
    requests: mpsc::Sender<DaemonRequest>,
    /// Until when a gateway wants records of this node.
    requested_until: Ns,
    source: Option<RollupSource>,
    records: mpsc::Receiver<Vec<u8>>,
    record_queue: mpsc::Sender<Vec<u8>>,
    /// Set on a gateway.
    gateway: Option<GatewayRollups>,
}

/// What a gateway has.
struct GatewayRollups {
    wanted_until: Ns,
    next_request: Ns,
    next_rollup: Ns,
    is_subscribed: bool,
    table: RollupTable,
    last: watch::Sender<Option<Arc<ClusterRollup>>>,
}

impl RollupExchange {
    /// Without records; with `last`, the node is a gateway. The aggregators are a node set.
    pub fn new(
        (own, aggregators): (&str, &str),
        requests: mpsc::Sender<DaemonRequest>,
        last: Option<watch::Sender<Option<Arc<ClusterRollup>>>>,
    ) -> Self {
        let (record_queue, records) = mpsc::channel(QUEUE);
        let gateway = last.map(|last| GatewayRollups {
            wanted_until: Ns(0),
            next_request: Ns(0),
            next_rollup: Ns(0),
            is_subscribed: false,
            table: RollupTable::default(),
            last,
        });
        Self {
            own: own.to_owned(),
            // The configuration has checked that it is one.
            aggregators: expand(aggregators, &BTreeSet::new()).unwrap_or_default(),
            rack: None,
            requests,
            requested_until: Ns(0),
            source: None,
            records,
            record_queue,
            gateway,
        }
    }

    /// Whether the members are needed by `act`.
    pub const fn is_gateway(&self) -> bool {
        self.gateway.is_some()
    }

    /// Waits for the next record of this node, or until something is due; for ever if nothing is
    /// wanted.
    pub async fn next_event(&mut self) -> RollupEvent {
        let due = self.due();
        let wait = async {
            match due {
                // A millisecond more: the timer may be early.
                Some(due) => {
                    let wait = Duration::from_nanos(due.since(clock::boot()).0);
                    tokio::time::sleep(wait + Duration::from_millis(1)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The exchange has a sender.
            Some(record) = self.records.recv() => RollupEvent::Record(record),
            () = wait => RollupEvent::Due,
        }
    }

    fn due(&self) -> Option<Ns> {
        let source = self.source.as_ref().map(|_| self.requested_until);
        let gateway = self.gateway.as_ref().filter(|it| it.is_subscribed);
        let gateway = gateway.map(|it| it.next_rollup.min(it.next_request).min(it.wanted_until));
        let rack = self.rack.as_ref().map(Rack::due);
        source.into_iter().chain(gateway).chain(rack).min()
    }

    /// A viewer of this gateway wants roll-ups for this long. Nothing on other nodes.
    pub fn want(&mut self, now: Ns, lasts: Ns, bus: &mut dyn Bus) {
        let Some(gateway) = &mut self.gateway else { return };
        gateway.wanted_until = gateway.wanted_until.max(Ns(now.0.saturating_add(lasts.0)));
        if !gateway.is_subscribed {
            gateway.is_subscribed = true;
            bus.subscribe(Topic::Sample);
            // The first roll-up is that of the records that a node has at once.
            (gateway.next_request, gateway.next_rollup) = (now, Ns(now.0 + PERIOD.0));
        }
        gateway.request(now, bus);
    }

    /// Publishes a record of this node, or lets the aggregator do so.
    pub fn record(&mut self, now: Ns, bytes: Vec<u8>, on: BusNode<'_>) {
        let Some(name) = aggregator(&self.aggregators, on.node.members()) else {
            return on.bus.publish(Topic::Sample, bytes);
        };
        // A record is JSON, and that is UTF-8.
        let record = String::from_utf8(bytes).ok().and_then(|it| RawValue::from_string(it).ok());
        let Some(record) = record else { return };
        if name == self.own {
            self.rack.get_or_insert_with(|| Rack::new(now)).add(now, name, record);
        } else {
            on.bus.send(name, PeerMessage::Rollup(record).to_bytes());
        }
    }

    /// Takes a record that a node of the rack has sent.
    pub fn of_rack(&mut self, now: Ns, from: &str, record: Box<RawValue>, members: &Membership) {
        if members.get(from).is_some_and(|member| may_speak(&self.own, member)) {
            self.rack.get_or_insert_with(|| Rack::new(now)).add(now, from, record);
        } else {
            tracing::debug!(from, "a record of a node that has not named this one: dropped");
        }
    }

    /// Takes what a node has published.
    pub fn published(
        &mut self,
        now: Ns,
        topic: Topic,
        (from, bytes): (&str, &[u8]),
        members: &Membership,
    ) {
        match topic {
            Topic::RollupRequest => self.requested(now, from, bytes),
            Topic::Sample => {
                let gateway = self.gateway.as_mut().filter(|it| it.is_subscribed);
                let Some(GatewayRollups { table, .. }) = gateway else { return };
                let Some(json) = unpacked(bytes) else { return table.add(now, from, bytes) };
                match records_of(from, &json, members) {
                    Some(nodes) => nodes.iter().for_each(|node| table.add_of_rack(now, node)),
                    None => tracing::debug!(from, "a message of an aggregator that is none"),
                }
            }
            Topic::Event | Topic::Heartbeat => {}
        }
    }

    /// Publishes for as long as a gateway wants.
    fn requested(&mut self, now: Ns, from: &str, bytes: &[u8]) {
        let request: RollupRequest = match serde_json::from_slice(bytes) {
            Ok(request) => request,
            Err(why) => return tracing::debug!("request for roll-ups of {from}: {why}"),
        };
        // A record of this version is what any gateway reads, or names as unreadable.
        let lasts = Ns(request.lasts_ns).min(MAX_LASTS);
        self.requested_until = self.requested_until.max(Ns(now.0 + lasts.0));
        let is_running = self.source.as_ref().is_some_and(RollupSource::is_running);
        if !is_running {
            let queue = self.record_queue.clone();
            self.source = Some(RollupSource::start(self.requests.clone(), queue));
        }
    }

    /// Does what is due; `members` are those of the cluster with what is known of them, on a
    /// gateway.
    pub fn act(&mut self, now: Ns, members: &[Member], BusNode { node, bus }: BusNode<'_>) {
        if self.requested_until <= now {
            self.source = None;
        }
        if let Some(rack) = self.rack.as_mut().filter(|it| it.due() <= now) {
            match rack.take(now, &self.own, node.members()) {
                Some(messages) => {
                    messages.into_iter().for_each(|it| bus.publish(Topic::Sample, it));
                }
                None => self.rack = None,
            }
        }
        let Some(gateway) = self.gateway.as_mut().filter(|it| it.is_subscribed) else { return };
        if gateway.wanted_until <= now {
            bus.unsubscribe(Topic::Sample);
            gateway.is_subscribed = false;
            gateway.table = RollupTable::default();
            // What is no longer current is not shown.
            let _ = gateway.last.send_replace(None);
            return;
        }
        gateway.request(now, bus);
        if gateway.next_rollup <= now {
            gateway.next_rollup = Ns(now.0 + PERIOD.0);
            let rollup = gateway.table.rollup(now, (&self.own, members));
            let _ = gateway.last.send_replace(Some(Arc::new(rollup)));
        }
    }
}

impl GatewayRollups {
    /// Sends a request, if one is due.
    fn request(&mut self, now: Ns, bus: &mut dyn Bus) {
        if now < self.next_request {
            return;
        }
        self.next_request = Ns(now.0 + REQUEST_PERIOD.0);
        let request = RollupRequest { version: VERSION, lasts_ns: REQUEST_LASTS.0 };
        // Two numbers can always be written as JSON.
        bus.publish(Topic::RollupRequest, serde_json::to_vec(&request).unwrap_or_default());
    }
}

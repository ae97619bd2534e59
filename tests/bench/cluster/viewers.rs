//! Rows of 1,000 nodes at 10 Hz to three viewers, of which one stops for 15 s: what the others get
//! meanwhile, and whether each row that it missed is counted.

use super::node::{Connection, Node};
use super::sites::{AGENTS, AgentOutput, DEADLINE, agents, runtime, site};
use crate::service::quantile;
use crate::verdict::{Bar, line};
use monitor_nats::suite::{AgentRow, AgentRows};
use monitor_protocol::cluster::FollowNotice;
use monitor_sys::clock;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);
/// Bytes of a row.
const ROW: usize = 200;
/// How long rows come before one stops, how long it stops, and how long they come after that.
const BEFORE: Duration = Duration::from_secs(15);
const STOPPED: Duration = Duration::from_secs(15);
const AFTER: Duration = Duration::from_secs(15);

/// A notification.
#[derive(Deserialize)]
struct Notification {
    params: FollowNotice,
}

/// What a viewer got.
#[derive(Default)]
struct Received {
    /// How late rows came, with the time of their arrival.
    late_ms: Vec<(Instant, f64)>,
    rows: u64,
    /// Rows that were not sent, or were lost and counted.
    dropped: u64,
    lost: u64,
    /// Rows that are missing without a count.
    uncounted: u64,
    nodes: HashMap<String, NodeRows>,
}

/// What came of a node.
#[derive(Default)]
struct NodeRows {
    /// The numbers of the next line and of the next row.
    next: (u64, u64),
    /// Lines that were lost since the last one.
    lost: u64,
}

pub fn run(most: usize) {
    let n_nodes = most.min(AGENTS);
    let site = site(n_nodes, ",v1");
    let runtime = runtime();
    let rows = AgentRows { every: EVERY, text: "x".repeat(ROW) };
    let output = AgentOutput { rows: Some(rows), ..AgentOutput::default() };
    let agents = runtime.block_on(agents(&site, n_nodes, &output));
    // Two viewers share a daemon; the third one has another.
    let daemons = ["web", "v1"].map(|name| {
        let folder = site.folder.join("nodes").join(name);
        let config = std::fs::read_to_string(folder.join("monitor.toml")).unwrap();
        // As docs/CLUSTER.md says for tools that follow many nodes at this rate.
        let config = format!("{config}[limits]\nqueue_bytes = \"16MiB\"\n");
        std::fs::write(folder.join("monitor.toml"), config).unwrap();
        Node::start(&site, name, "procfs")
    });
    daemons.iter().for_each(|it| it.connect().sees(n_nodes + 3));
    let (is_stopped, is_over) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let never = Arc::new(AtomicBool::new(false));
    let viewer = |daemon: &Node, stops: &Arc<AtomicBool>| {
        follow(daemon.connect(), n_nodes, (stops.clone(), Arc::clone(&is_over)))
    };
    let one = viewer(&daemons[0], &is_stopped);
    let others = [viewer(&daemons[0], &never), viewer(&daemons[1], &never)];
    sleep(BEFORE);
    let stopped = Instant::now();
    is_stopped.store(true, Ordering::Relaxed);
    sleep(STOPPED);
    let went_on = Instant::now();
    is_stopped.store(false, Ordering::Relaxed);
    sleep(AFTER);
    is_over.store(true, Ordering::Relaxed);
    let one = one.join().unwrap();
    let what = |what: &str| format!("{n_nodes} nodes at 10 Hz: {what}");
    line(&what("rows of the one that stopped"), one.rows as f64, "", Bar::None);
    line(&what("lost by it, and counted"), one.lost as f64, "", Bar::None);
    line(&what("not sent to it, and counted"), one.dropped as f64, "", Bar::None);
    line(&what("missing without a count"), one.uncounted as f64, "", Bar::AtMost(0.0));
    for (name, other) in ["at the same daemon", "at another one"].into_iter().zip(others) {
        let other = other.join().unwrap();
        let of = |from: Instant, to: Instant| -> Vec<f64> {
            let all = other.late_ms.iter().filter(|it| (from..to).contains(&it.0));
            all.map(|it| it.1).collect()
        };
        let without = quantile(&mut of(stopped - BEFORE / 2, stopped), 0.99);
        let with = quantile(&mut of(stopped, went_on), 0.99);
        let lost = other.lost + other.dropped + other.uncounted;
        line(&what(&format!("viewer {name}: rows")), other.rows as f64, "", Bar::None);
        line(&what("lost by it"), lost as f64, "", Bar::AtMost(0.0));
        line(&what("p99 without one that stops"), without, "ms", Bar::None);
        line(&what("p99 while one stops"), with, "ms", Bar::None);
        line(&what("p99 / without"), with / without, "x", Bar::AtMost(2.0));
    }
    let _guard = runtime.enter();
    drop(agents);
}

/// Follows all agents on a thread, which may stop.
fn follow(
    mut connection: Connection,
    n_nodes: usize,
    (is_stopped, is_over): (Arc<AtomicBool>, Arc<AtomicBool>),
) -> JoinHandle<Received> {
    let request = json!({"nodes": format!("n[1-{n_nodes}]"), "lines": ["1 [0] print(\"\")"]});
    let _result = connection.call("follow", &request).unwrap();
    spawn(move || {
        let (mut received, start) = (Received::default(), Instant::now());
        let mut line = String::new();
        while !is_over.load(Ordering::Relaxed) {
            while is_stopped.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1));
            }
            assert!(start.elapsed() < DEADLINE, "the viewer is not ended");
            connection.line(&mut line);
            if let Ok(it) = serde_json::from_str::<Notification>(&line) {
                received.take(it.params);
            }
        }
        received
    })
}

impl Received {
    fn take(&mut self, notice: FollowNotice) {
        let FollowNotice { node, line, seq, lost, .. } = notice;
        let of_node = self.nodes.entry(node).or_default();
        self.lost += lost;
        of_node.lost += lost;
        let (Some(line), Some(seq)) = (line, seq) else { return };
        let row: AgentRow = serde_json::from_str(&line).expect("a row");
        self.rows += 1;
        let late_ns = clock::boot().0.saturating_sub(row.sent_ns);
        self.late_ms.push((Instant::now(), late_ns as f64 / 1e6));
        if seq < of_node.next.0 {
            // Another session of the node.
            *of_node = NodeRows::default();
        }
        let n_missing = seq - of_node.next.0;
        self.uncounted += n_missing.abs_diff(of_node.lost);
        self.dropped += (row.number - of_node.next.1).saturating_sub(n_missing);
        *of_node = NodeRows { next: (seq + 1, row.number + 1), lost: 0 };
    }
}

//! Roll-ups of 1,000 nodes with 5 jobs each, once a second: what the servers, the gateway and the
//! aggregators of racks need, with one server and with racks.

use super::node::Node;
use super::sites::{AGENTS, AgentOutput, TOOL, agents, runtime, site};
use crate::verdict::{Bar, line};
use monitor_nats::suite::{Agent, ServerProcess, TestSite};
use monitor_protocol::rollup::{JobUsage, NodeRollup, NodeTotals, Usage, UserUsage, VERSION};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const JOBS: usize = 5;
/// Racks, each with a server and an aggregator.
const RACKS: usize = 8;
/// Nodes of each job.
const NODES_OF_JOB: usize = 8;
const WARM_UP: Duration = Duration::from_secs(6);
/// Time from the last node that has joined to the measurement.
const SETTLED: Duration = Duration::from_secs(20);
const MEASURED: Duration = Duration::from_secs(20);
/// Time between two calls of the viewer.
const ASK: Duration = Duration::from_secs(2);
/// Slices of a second, in each of which some nodes publish.
const SLICES: usize = 50;

pub fn run(most: usize) {
    let n_nodes = most.min(AGENTS);
    let whole = site(n_nodes, "");
    measure(n_nodes, &whole, &[]);
    drop(whole);
    let n_racks = RACKS.min(n_nodes);
    let first = |rack: usize| 1 + rack * n_nodes / n_racks;
    let rack = |rack| format!("a{},n[{}-{}]", rack + 1, first(rack), first(rack + 1) - 1);
    let racks: Vec<String> = (0..n_racks).map(rack).collect();
    let mut racked = TestSite::write_with_racks(1, TOOL, TOOL, &racks);
    racked.start();
    let names: Vec<String> = (1..=n_racks).map(|rack| format!("a{rack}")).collect();
    measure(n_nodes, &racked, &names);
}

/// Measures a site with these aggregators, which are daemons.
fn measure(n_nodes: usize, site: &TestSite, aggregators: &[String]) {
    let aggregators: Vec<Node> =
        aggregators.iter().map(|name| Node::start(site, name, "procfs")).collect();
    let runtime = runtime();
    let agents = Arc::new(runtime.block_on(agents(site, n_nodes, &AgentOutput::default())));
    let gateway = Node::start(site, "web", "procfs");
    let n_records = n_nodes + aggregators.len() + 1;
    gateway.connect().sees(n_records + 1);
    let racks = match aggregators.len() {
        0 => String::new(),
        n_racks => format!(" in {n_racks} racks"),
    };
    let what = |what: &str| format!("{n_nodes} nodes{racks}, {JOBS} jobs each: {what}");
    let parts = || cpu_of(site, &gateway, &aggregators);
    // What joining has cost is over then.
    sleep(SETTLED);
    let idle = percents(parts, || sleep(MEASURED / 2));
    line(&what("server, without a viewer"), idle.server, "% core", Bar::None);
    line(&what("gateway, without a viewer"), idle.gateway, "% core", Bar::None);
    let is_over = Arc::new(AtomicBool::new(false));
    let publishing = runtime.spawn(publish(agents.clone(), is_over.clone()));
    let _first = rolled_up(&gateway, WARM_UP);
    let mut last = Value::Null;
    let cost = percents(parts, || last = rolled_up(&gateway, MEASURED));
    line(&what("server"), cost.server, "% core", Bar::AtMost(10.0));
    line(&what("gateway"), cost.gateway, "% core", Bar::AtMost(10.0));
    if !aggregators.is_empty() {
        line(&what("server of a rack, without a viewer"), idle.rack, "% core", Bar::None);
        line(&what("server of a rack"), cost.rack, "% core", Bar::AtMost(10.0));
        line(&what("aggregator"), cost.aggregator, "% core", Bar::AtMost(10.0));
    }
    is_over.store(true, Ordering::Relaxed);
    runtime.block_on(publishing).unwrap();
    let nodes = last["nodes"].as_array().unwrap();
    let current = nodes.iter().filter(|it| it["record"] == "current").count();
    let lost: u64 = nodes.iter().filter_map(|it| it["lost"].as_u64()).sum();
    line(&what("not current"), n_records as f64 - current as f64, "", Bar::AtMost(0.0));
    line(&what("records lost"), lost as f64, "", Bar::AtMost(0.0));
    println!("  {} jobs", last["jobs"].as_array().map_or(0, Vec::len));
    let _guard = runtime.enter();
    drop(agents);
}

/// Asks for the roll-up again and again for a time; the last one.
fn rolled_up(gateway: &Node, lasts: Duration) -> Value {
    let (mut viewer, start) = (gateway.connect(), Instant::now());
    let mut last = Value::Null;
    while start.elapsed() < lasts {
        // The first one waits for records.
        last = viewer.call("rollup", &json!({})).unwrap_or_default();
        sleep(ASK);
    }
    last
}

/// CPU time in ns, or percent of a core, of each part; of those of which there are many, the
/// largest.
#[derive(Clone, Debug)]
struct Costs<T> {
    server: T,
    gateway: T,
    rack: T,
    aggregator: T,
}

/// The CPU times of all parts.
fn cpu_of(site: &TestSite, gateway: &Node, aggregators: &[Node]) -> Costs<Vec<f64>> {
    let of_server = |it: &ServerProcess| crate::program::cpu_ns(it.pid().unwrap());
    let (server, racks) = site.servers.split_first().unwrap();
    Costs {
        server: vec![of_server(server)],
        gateway: vec![gateway.cpu_ns()],
        rack: racks.iter().map(of_server).collect(),
        aggregator: aggregators.iter().map(Node::cpu_ns).collect(),
    }
}

/// Percent of a core of each part while something is waited for.
fn percents(parts: impl Fn() -> Costs<Vec<f64>>, wait: impl FnOnce()) -> Costs<f64> {
    let (before, start) = (parts(), Instant::now());
    wait();
    let after = parts();
    let elapsed = start.elapsed().as_nanos() as f64;
    let most = |before: &[f64], after: &[f64]| {
        let each = before.iter().zip(after).map(|(before, after)| after - before);
        each.fold(0.0, f64::max) / elapsed * 100.0
    };
    Costs {
        server: most(&before.server, &after.server),
        gateway: most(&before.gateway, &after.gateway),
        rack: most(&before.rack, &after.rack),
        aggregator: most(&before.aggregator, &after.aggregator),
    }
}

/// Publishes a record of each agent once a second, evenly over the second.
async fn publish(agents: Arc<Vec<Agent>>, is_over: Arc<AtomicBool>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / SLICES as u32);
    let records: Vec<NodeRollup> = (0..agents.len()).map(record).collect();
    for tick in 0_usize.. {
        let _at = ticks.tick().await;
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let (number, slice) = ((tick / SLICES) as u64, tick % SLICES);
        for at in (1..agents.len()).filter(|at| at % SLICES == slice) {
            let record = NodeRollup { number, ..records[at].clone() };
            let taken = agents[at].publish_reading(serde_json::to_vec(&record).unwrap());
            assert!(taken, "{} does not publish", agents[at].name);
        }
    }
}

/// The record of a node, as long as one of a node with some users is.
fn record(at: usize) -> NodeRollup {
    let usage = Usage {
        processes: 64,
        cpu_percent: Some(1234.5),
        rss_bytes: 34_359_738_368,
        read_bytes_per_s: Some(123_456.0),
        written_bytes_per_s: Some(1_234_567.0),
    };
    let job = |job: usize| JobUsage {
        name: format!("slurm:{}", 4_200_000 + at / NODES_OF_JOB * JOBS + job),
        uid: Some(1000 + job as u32),
        user: Some(format!("user{job}")),
        usage,
    };
    let user = |user: usize| UserUsage { name: format!("user{user}"), usage };
    NodeRollup {
        version: VERSION,
        series: 12_345_678_901_234_567_890,
        unix_ns: 1_795_000_000_000_000_000,
        totals: NodeTotals {
            load1: Some(64.25),
            online_cpus: Some(128),
            cpu_busy_percent: Some(12345.6),
            mem_total_bytes: Some(549_755_813_888),
            mem_available_bytes: Some(274_877_906_944),
            processes: 1234,
            lost_records: 0,
        },
        jobs: (0..JOBS).map(job).collect(),
        users: (0..JOBS).map(user).collect(),
        ..NodeRollup::default()
    }
}

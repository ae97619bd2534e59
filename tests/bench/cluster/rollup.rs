//! Roll-ups of 1,000 nodes with 5 jobs each, once a second: what the servers, the gateway and the
//! aggregators of racks need, with one server and with racks.

use super::node::Node;
use super::sites::{
    AGENTS, AgentOutput, RACKED_AGENTS, agents, racks, runtime, site, site_with_racks,
};
use crate::verdict::{Bar, line};
use monitor_nats::suite::{Agent, ServerProcess, TestSite};
use monitor_protocol::rollup::{JobUsage, NodeRollup, NodeTotals, Usage, UserUsage, VERSION};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const JOBS: usize = 5;
/// Nodes of each job.
const NODES_OF_JOB: usize = 8;
const WARM_UP: Duration = Duration::from_secs(6);
/// Time from the last node that has joined to the measurement.
const SETTLED: Duration = Duration::from_secs(60);
const MEASURED: Duration = Duration::from_secs(20);
/// Time between two calls of the viewer.
const ASK: Duration = Duration::from_secs(2);
/// Slices of a second, in each of which some nodes publish: one, because a gateway asks all nodes
/// at the same time, and many for nodes of several gateways.
const SLICES: [usize; 2] = [1, 50];

/// With one server.
pub fn run(most: usize) {
    let n_nodes = most.min(AGENTS);
    measure(n_nodes, &site(n_nodes, ""), &[]);
}

/// With a server of each rack, and an aggregator.
pub fn run_in_racks(most: usize) {
    let n_nodes = most.min(RACKED_AGENTS);
    let racks = racks(n_nodes);
    let names: Vec<String> = (1..=racks.len()).map(|rack| format!("a{rack}")).collect();
    let with_aggregator = |(name, nodes): (&String, &String)| format!("{name},{nodes}");
    let racks: Vec<String> = names.iter().zip(&racks).map(with_aggregator).collect();
    measure(n_nodes, &site_with_racks(&racks), &names);
}

/// Measures a site with these aggregators, which are daemons.
fn measure(n_nodes: usize, site: &TestSite, aggregators: &[String]) {
    let aggregators: Vec<Node> =
        aggregators.iter().map(|name| Node::start(site, name, "procfs")).collect();
    let runtime = runtime();
    let start = Instant::now();
    let agents = Arc::new(runtime.block_on(agents(site, n_nodes, &AgentOutput::default())));
    println!("  {n_nodes} agents are members after {:.1} s", start.elapsed().as_secs_f64());
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
    if !aggregators.is_empty() {
        line(&what("server of a rack, without a viewer"), idle.rack, "% core", Bar::None);
    }
    let mut number = 0;
    for n_slices in SLICES {
        let (what, bar) = match n_slices {
            1 => (what("at a time"), Bar::AtMost(10.0)),
            _ => (what("evenly"), Bar::None),
        };
        let what = |part: &str| format!("{what}, {part}");
        let is_over = Arc::new(AtomicBool::new(false));
        let publishing = publish(agents.clone(), is_over.clone(), (number, n_slices));
        let publishing = runtime.spawn(publishing);
        let _first = rolled_up(&gateway, WARM_UP);
        let mut last = Value::Null;
        let cost = percents(parts, || last = rolled_up(&gateway, MEASURED));
        line(&what("server"), cost.server, "% core", bar);
        line(&what("gateway"), cost.gateway, "% core", bar);
        if !aggregators.is_empty() {
            line(&what("server of a rack"), cost.rack, "% core", bar);
            line(&what("aggregator"), cost.aggregator, "% core", bar);
        }
        is_over.store(true, Ordering::Relaxed);
        number = runtime.block_on(publishing).unwrap();
        let nodes = last["nodes"].as_array().unwrap();
        let current = nodes.iter().filter(|it| it["record"] == "current").count();
        let lost: u64 = nodes.iter().filter_map(|it| it["lost"].as_u64()).sum();
        line(&what("not current"), n_records as f64 - current as f64, "", Bar::AtMost(0.0));
        line(&what("records lost"), lost as f64, "", Bar::AtMost(0.0));
        println!("  {} jobs", last["jobs"].as_array().map_or(0, Vec::len));
    }
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

/// Publishes a record of each agent once a second, in slices of it; returns the next number.
async fn publish(
    agents: Arc<Vec<Agent>>,
    is_over: Arc<AtomicBool>,
    (first, n_slices): (u64, usize),
) -> u64 {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / n_slices as u32);
    let records: Vec<NodeRollup> = (0..agents.len()).map(record).collect();
    let mut tick = 0_usize;
    loop {
        let _at = ticks.tick().await;
        let (number, slice) = (first + (tick / n_slices) as u64, tick % n_slices);
        tick += 1;
        if slice == 0 && is_over.load(Ordering::Relaxed) {
            return number;
        }
        for at in (1..agents.len()).filter(|at| at % n_slices == slice) {
            let record = NodeRollup { number, ..records[at].clone() };
            let taken = agents[at].publish_reading(serde_json::to_vec(&record).unwrap());
            assert!(taken, "{} does not publish", agents[at].name);
        }
    }
}

/// A number that seems random, the same for the same place: what resembles is compressed better
/// than the values of nodes are.
const fn mixed(place: usize) -> u64 {
    let mixed = (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 20
}

/// The record of a node, as long as one of a node with some users is.
fn record(at: usize) -> NodeRollup {
    let usage = |row: usize| {
        let value = |column: usize| mixed((at * 2 * JOBS + row) * 8 + column);
        Usage {
            processes: value(0) % 256,
            cpu_percent: Some((value(1) % 128_000) as f64 / 10.0),
            rss_bytes: value(2) % (64 << 30),
            read_bytes_per_s: Some((value(3) % 1_000_000) as f64),
            written_bytes_per_s: Some((value(4) % 10_000_000) as f64),
        }
    };
    let job = |job: usize| JobUsage {
        name: format!("slurm:{}", 4_200_000 + at / NODES_OF_JOB * JOBS + job),
        uid: Some(1000 + job as u32),
        user: Some(format!("user{job}")),
        usage: usage(job),
    };
    let user = |user: usize| UserUsage { name: format!("user{user}"), usage: usage(JOBS + user) };
    NodeRollup {
        version: VERSION,
        series: u64::MAX - mixed(at),
        unix_ns: 1_795_000_000_000_000_000,
        totals: NodeTotals {
            load1: Some(64.25),
            online_cpus: Some(128),
            cpu_busy_percent: Some((mixed(at) % 128_000) as f64 / 10.0),
            mem_total_bytes: Some(549_755_813_888),
            mem_available_bytes: Some(mixed(at) % 549_755_813_888),
            processes: 1234,
            lost_records: 0,
        },
        jobs: (0..JOBS).map(job).collect(),
        users: (0..JOBS).map(user).collect(),
        ..NodeRollup::default()
    }
}

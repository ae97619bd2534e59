//! A cluster beside NATS's own floor: gathers, roll-ups, an idle member, deaths, a viewer that
//! stops, and the loss of servers.
//!
//! In: how many nodes there are at most, in `MONITOR_BENCH_NODES`; the parts that are measured, in
//! `MONITOR_BENCH_PARTS`, all without it. Out: lines with limits. Nodes are light agents of this
//! process, which run the code of a node over connections of their own, or daemons.

mod agents;
mod daemons;
mod death;
mod gather;
mod idle;
mod node;
mod recovery;
mod rollup;
mod viewers;

pub use daemons::serve_as_floor;

use monitor_nats::suite::{Agent, AgentOptions, AgentRows, TestSite, has_server};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Most daemons, and most light agents.
const DAEMONS: usize = 200;
const AGENTS: usize = 1000;
/// The user that sends commands.
const TOOL: &str = "t1";
/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(300);
/// Agents that join at a time.
const AT_A_TIME: usize = 100;

/// A part: its name, and what runs it with at most this number of nodes.
type Part = (&'static str, fn(usize));

const PARTS: &[Part] = &[
    ("idle", idle::run),
    ("death", death::run),
    ("daemons", daemons::run),
    ("agents", agents::run),
    ("rollup", rollup::run),
    ("recovery", recovery::run),
    ("viewers", viewers::run),
];

/// Runs all measurements.
pub fn run() {
    if !has_server() {
        return;
    }
    // Each agent has a connection, and so have the servers.
    let _limit = monitor_sys::fd_limit::raise();
    let most = std::env::var("MONITOR_BENCH_NODES").ok().and_then(|it| it.parse().ok());
    let wanted = std::env::var("MONITOR_BENCH_PARTS").ok();
    let is_wanted =
        |name: &str| wanted.as_ref().is_none_or(|all| all.split([' ', ',']).any(|it| it == name));
    for (_, run) in PARTS.iter().filter(|(name, _)| is_wanted(name)) {
        run(most.unwrap_or(usize::MAX).max(1));
    }
}

/// What the agents of this process share.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A site of one server with the nodes n1 to nN and these others, of which `TOOL` serves the
/// cluster.
fn site(n_nodes: usize, others: &str) -> TestSite {
    site_of(1, &format!("n[1-{n_nodes}],{TOOL}{others}"))
}

fn site_of(n_servers: usize, nodes: &str) -> TestSite {
    let mut site = TestSite::write(n_servers, nodes, TOOL);
    site.start();
    site
}

/// What agents send.
#[derive(Clone, Default)]
struct AgentOutput {
    reply: Option<Vec<u8>>,
    rows: Option<AgentRows>,
}

/// Starts the tool and the agents n1 to nN; returns when the tool sees all of them. The tool is the
/// first one.
async fn agents(site: &TestSite, n_nodes: usize, output: &AgentOutput) -> Vec<Agent> {
    let start = |name: &str| {
        let ledger = site.folder.join("nodes").join(name).join("ledger");
        let AgentOutput { reply, rows } = output.clone();
        let (bus, removes_dead) = (site.options(name), name == TOOL);
        Agent::start(name, AgentOptions { bus, ledger, removes_dead, reply, rows })
    };
    let mut agents = vec![start(TOOL)];
    while agents.len() <= n_nodes {
        let n_new = AT_A_TIME.min(n_nodes + 1 - agents.len());
        let first = agents.len();
        agents.extend((first..first + n_new).map(|it| start(&format!("n{it}"))));
        for agent in [&agents[0]].into_iter().chain(&agents[first..]) {
            let is_in = agent.until(|view| view.is_member);
            timeout(DEADLINE, is_in).await.expect("the agent is a member in time");
        }
        let n_members = agents.len();
        let all = agents[0].until(|view| view.n_members >= n_members);
        timeout(DEADLINE, all).await.expect("all are members in time");
    }
    agents
}

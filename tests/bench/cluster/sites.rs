//! Sites with their servers, and agents that are their members.

use monitor_model::Ns;
use monitor_nats::suite::{Agent, AgentOptions, AgentRows, TestSite};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Most light agents with one server, and of parts for which no number is set.
pub const AGENTS: usize = 1000;
/// Most light agents with servers of racks.
pub const RACKED_AGENTS: usize = 10_000;
/// Racks, each with a server.
const RACKS: usize = 8;
/// The user that sends commands.
pub const TOOL: &str = "t1";
/// How long anything may take.
pub const DEADLINE: Duration = Duration::from_secs(300);
/// Clients of the floor that connect at a time.
pub const AT_A_TIME: usize = 100;
/// Members that agents which join at a time read, all together: more would keep this process from
/// the agents that are there for longer than the time after which a node was paused.
const READ_AT_A_TIME: usize = 50_000;
/// Agents that join at a time at most.
const JOIN_AT_A_TIME: usize = 100;
/// How far apart the clocks of nodes are: agents of one process would all tick at one moment.
const CLOCKS: Ns = Ns(2_400_000_000);

/// What the agents of this process share.
pub fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A site of one server with the nodes n1 to nN and these others, of which `TOOL` serves the
/// cluster.
pub fn site(n_nodes: usize, others: &str) -> TestSite {
    site_of(1, &format!("n[1-{n_nodes}],{TOOL}{others}"))
}

pub fn site_of(n_servers: usize, nodes: &str) -> TestSite {
    let mut site = TestSite::write(n_servers, nodes, TOOL);
    site.start();
    site
}

/// The nodes n1 to nN in racks, as sets.
pub fn racks(n_nodes: usize) -> Vec<String> {
    let n_racks = RACKS.min(n_nodes);
    let first = |rack: usize| 1 + rack * n_nodes / n_racks;
    (0..n_racks).map(|rack| format!("n[{}-{}]", first(rack), first(rack + 1) - 1)).collect()
}

/// A site of one server, where `TOOL` is, and of a server for each of these racks.
pub fn site_with_racks(racks: &[String]) -> TestSite {
    let mut site = TestSite::write_with_racks(1, TOOL, TOOL, racks);
    site.start();
    site
}

/// What agents send.
#[derive(Clone, Default)]
pub struct AgentOutput {
    pub reply: Option<Vec<u8>>,
    pub rows: Option<AgentRows>,
    /// Whether their clocks differ.
    pub ticks_apart: bool,
}

fn random_below(limit: u64) -> u64 {
    u64::from_le_bytes(monitor_sys::random::bytes().expect("the kernel has random numbers")) % limit
}

/// Starts the tool and the agents n1 to nN; returns when the tool sees all of them. The tool is the
/// first one.
pub async fn agents(site: &TestSite, n_nodes: usize, output: &AgentOutput) -> Vec<Agent> {
    let start = |name: &str| {
        let ledger = site.ledger(name);
        let AgentOutput { reply, rows, .. } = output.clone();
        let (bus, removes_dead) = (site.options(name), name == TOOL);
        let aggregators = site.aggregators(name);
        let options = AgentOptions::new(bus, ledger);
        let clock_offset = match output.ticks_apart {
            true => Ns(options.clock_offset.0 + random_below(CLOCKS.0)),
            false => options.clock_offset,
        };
        let options =
            AgentOptions { removes_dead, aggregators, reply, rows, clock_offset, ..options };
        Agent::start(name, options)
    };
    let mut agents = vec![start(TOOL)];
    while agents.len() <= n_nodes {
        let at_a_time = (READ_AT_A_TIME / agents.len()).clamp(1, JOIN_AT_A_TIME);
        let n_new = at_a_time.min(n_nodes + 1 - agents.len());
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

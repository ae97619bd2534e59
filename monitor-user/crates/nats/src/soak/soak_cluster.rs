//! The servers, networks and agents of a soak.

use crate::NatsConnection;
use crate::suite::{Agent, AgentOptions, Partition, TestSite};
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// How long anything may take.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Number of networks over which agents are spread.
const N_NETWORKS: usize = 3;
/// Number of tools.
pub const N_TOOLS: usize = 4;

/// How large it is.
#[derive(Clone, Copy)]
pub struct SoakSize {
    pub n_servers: usize,
    pub n_nodes: usize,
}

impl fmt::Display for SoakSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} servers, {} nodes, {N_TOOLS} tools", self.n_servers, self.n_nodes)
    }
}

/// What can be lost.
pub struct SoakCluster {
    // Dropped first: agents end before their servers.
    pub agents: Vec<Agent>,
    /// They call, and are not lost themselves, so that each call has a result.
    pub tools: Vec<Agent>,
    pub networks: Vec<Partition>,
    pub site: TestSite,
}

impl SoakCluster {
    /// Starts all of it, and waits until all are members.
    pub async fn start(size: &SoakSize) -> Self {
        let nodes = format!("n[1-{}],t[1-{N_TOOLS}]", size.n_nodes);
        let mut site = TestSite::write(size.n_servers, &nodes, "n[1-3]");
        site.start();
        let mut networks = Vec::new();
        let mut servers = Vec::new();
        for _ in 0..N_NETWORKS {
            let mut network = Partition::default();
            let mut addresses = Vec::new();
            for server in &site.servers {
                let address = network.forward(server.address).await.expect("a free port");
                addresses.push(format!("tls://{address}"));
            }
            networks.push(network);
            servers.push(addresses);
        }
        let agent = |number: usize| {
            let name = format!("n{number}");
            let mut bus = site.options(&name);
            let servers = servers[number % N_NETWORKS].clone();
            bus.connection = NatsConnection { servers, ..bus.connection };
            let ledger = site.ledger(&name);
            let options =
                AgentOptions { removes_dead: number <= 3, ..AgentOptions::new(bus, ledger) };
            Agent::start(&name, options)
        };
        let agents: Vec<Agent> = (1..=size.n_nodes).map(agent).collect();
        let tools: Vec<Agent> = (1..=N_TOOLS).map(|it| site.agent(&format!("t{it}"))).collect();
        let cluster = Self { agents, tools, networks, site };
        cluster.are_members().await;
        cluster
    }

    /// Number of members.
    pub const fn n_members(&self) -> usize {
        self.agents.len() + self.tools.len()
    }

    /// All agents and tools.
    pub fn all(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter().chain(&self.tools)
    }

    /// Waits until all are members, as each of them sees it.
    pub async fn are_members(&self) {
        let n_members = self.n_members();
        for agent in self.all() {
            let seen = agent.until(|view| view.is_member && view.n_members == n_members);
            let seen = timeout(DEADLINE, seen).await;
            seen.unwrap_or_else(|_| panic!("{} does not see {n_members} members", agent.name));
        }
    }
}

//! What is lost during a soak: servers, agents and networks, in two lanes beside each other.

use super::soak_cluster::SoakCluster;
use crate::suite::{Agent, Partition, Random, ServerProcess, TestSite};
use std::fmt;
use std::time::Duration;
use tokio::time::sleep;

/// What is done to the servers.
const SERVER_FAULTS: [ServerFault; 3] =
    [ServerFault::KillLeader, ServerFault::KillAny, ServerFault::Pause];
/// What is done to agents and networks.
const NODE_FAULTS: [NodeFault; 3] = [NodeFault::Kill, NodeFault::Pause, NodeFault::Cut];
/// Agents that are lost at a time.
const MAX_AGENTS: u64 = 3;

#[derive(Clone, Copy)]
enum ServerFault {
    KillLeader,
    KillAny,
    Pause,
}

#[derive(Clone, Copy)]
enum NodeFault {
    Kill,
    Pause,
    Cut,
}

/// How many there were of each kind.
#[derive(Default)]
pub struct FaultCounts {
    leaders: u64,
    servers: u64,
    server_pauses: u64,
    agents: u64,
    agent_pauses: u64,
    cuts: u64,
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} leaders and {} other servers killed, {} servers stopped, {} agents killed, {} \
             paused, {} networks cut",
            self.leaders,
            self.servers,
            self.server_pauses,
            self.agents,
            self.agent_pauses,
            self.cuts
        )
    }
}

/// The faults of a seed.
pub struct FaultPlan {
    random: Random,
    n_each: u64,
    /// The longest time for which nodes and networks are lost, ms.
    longest: u64,
}

impl FaultPlan {
    /// Each kind of fault this often. A long plan has nodes that are lost for longer than their
    /// silence may last.
    pub const fn new(seed: u64, n_each: u64) -> Self {
        let longest = if n_each > 1 { 8_000 } else { 2_000 };
        Self { random: Random(seed), n_each, longest }
    }

    /// Lets all of them happen; at the end all that was lost is back.
    pub async fn run(mut self, cluster: &mut SoakCluster) -> FaultCounts {
        let SoakCluster { agents, networks, site, .. } = cluster;
        let others = Self { random: Random(!self.random.0), ..self };
        let (mut of_servers, mut of_nodes) = (FaultCounts::default(), FaultCounts::default());
        let lane = others.lose_nodes((agents, networks), &mut of_nodes);
        tokio::join!(self.lose_servers(site, &mut of_servers), lane);
        let FaultCounts { agents, agent_pauses, cuts, .. } = of_nodes;
        FaultCounts { agents, agent_pauses, cuts, ..of_servers }
    }

    async fn lose_servers(&mut self, site: &mut TestSite, counts: &mut FaultCounts) {
        for fault in self.random.shuffled(&SERVER_FAULTS, self.n_each) {
            self.random.pause(100, 1_000).await;
            match fault {
                ServerFault::KillLeader => {
                    counts.leaders += 1;
                    let leader = site.leader().await;
                    self.kill(&mut site.servers[leader]).await;
                }
                ServerFault::KillAny => {
                    counts.servers += 1;
                    let any = self.random.below(site.servers.len() as u64) as usize;
                    self.kill(&mut site.servers[any]).await;
                }
                ServerFault::Pause => {
                    counts.server_pauses += 1;
                    let any = self.random.below(site.servers.len() as u64) as usize;
                    site.servers[any].pause(true);
                    self.random.pause(500, self.longest / 2 + 1).await;
                    site.servers[any].pause(false);
                }
            }
        }
    }

    async fn kill(&mut self, server: &mut ServerProcess) {
        server.kill();
        self.random.pause(100, 1_500).await;
        server.begin();
    }

    async fn lose_nodes(
        mut self,
        (agents, networks): (&mut [Agent], &[Partition]),
        counts: &mut FaultCounts,
    ) {
        for fault in self.random.shuffled(&NODE_FAULTS, self.n_each) {
            self.random.pause(100, 1_000).await;
            let some = self.some(agents.len());
            match fault {
                NodeFault::Kill => {
                    for &agent in &some {
                        counts.agents += 1;
                        agents[agent].kill().await;
                    }
                    self.random.pause(0, 2_000).await;
                    some.iter().for_each(|&agent| agents[agent].start_again());
                }
                NodeFault::Pause => {
                    counts.agent_pauses += some.len() as u64;
                    some.iter().for_each(|&agent| agents[agent].pause(true));
                    self.random.pause(1_100, self.longest).await;
                    some.iter().for_each(|&agent| agents[agent].pause(false));
                }
                NodeFault::Cut => {
                    counts.cuts += 1;
                    let network = self.random.below(networks.len() as u64) as usize;
                    networks[network].cut(true);
                    self.random.pause(500, self.longest).await;
                    networks[network].cut(false);
                }
            }
        }
    }

    fn some(&mut self, n_agents: usize) -> Vec<usize> {
        let n_some = 1 + self.random.below(MAX_AGENTS);
        let mut some: Vec<usize> =
            (0..n_some).map(|_| self.random.below(n_agents as u64) as usize).collect();
        some.sort_unstable();
        some.dedup();
        some
    }
}

impl Random {
    /// Waits for a random time, ms.
    async fn pause(&mut self, least: u64, most: u64) {
        sleep(Duration::from_millis(least + self.below(most - least))).await;
    }

    /// Each of some values this often, in a random order.
    fn shuffled<T: Copy>(&mut self, values: &[T], n_each: u64) -> Vec<T> {
        let mut all: Vec<T> = (0..n_each).flat_map(|_| values.iter().copied()).collect();
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at as u64 + 1) as usize);
        }
        all
    }
}

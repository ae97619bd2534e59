//! Many light agents over real servers, four tools with random commands, and whatever can be lost:
//! afterwards all have seen one order, and each outcome is true.
//!
//! ```text
//!  tools --commands--> agents, through networks that are cut
//!  faults: servers killed and stopped, agents killed and paused, networks cut
//!  verdict: orders, executions and outcomes, compared
//! ```
//!
//! In: a seed and sizes, from the environment. Out: figures, or what was not as promised.
//! `cargo xtask soak cluster` runs the full size, the tests a small one.

mod faults;
mod recovery;
mod soak_cluster;
mod tools;
mod verdict;

use super::suite::has_server;
use faults::FaultPlan;
use soak_cluster::{SoakCluster, SoakSize};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tools::Tools;

/// The seed, and the sizes of the small soak.
const SEED: u64 = 17;
const NODES: u64 = 30;
const COMMANDS: u64 = 1_000;

/// A number in the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|it| it.parse().unwrap_or_else(|_| panic!("{name}: no number")))
}

/// A soak, as the environment asks for it.
struct Soak {
    seed: u64,
    size: SoakSize,
    n_commands: u64,
    /// How often each kind of fault happens.
    n_faults: u64,
    /// How long the servers are away at the end; zero: they are not.
    outage: Duration,
}

impl Soak {
    fn of_environment(n_servers: u64) -> Self {
        let n_servers = usize::try_from(n_servers).unwrap();
        let n_nodes = usize::try_from(given("MONITOR_SOAK_NODES").unwrap_or(NODES)).unwrap();
        Self {
            seed: given("MONITOR_SOAK_SEED").unwrap_or(SEED),
            size: SoakSize { n_servers, n_nodes },
            n_commands: given("MONITOR_SOAK_COMMANDS").unwrap_or(COMMANDS),
            n_faults: given("MONITOR_SOAK_FAULTS").unwrap_or(1),
            outage: Duration::from_secs(given("MONITOR_SOAK_OUTAGE").unwrap_or(0)),
        }
    }

    /// Runs it.
    #[allow(
        clippy::print_stderr,
        reason = "the seed repeats a failure, and figures are to be read"
    )]
    fn run(self) {
        let Self { seed, size, n_commands, n_faults, outage } = self;
        eprintln!("soak cluster: {size}, {n_commands} commands, seed {seed}");
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            let mut cluster = SoakCluster::start(&size).await;
            eprintln!("all members after {:.1} s", start.elapsed().as_secs_f64());
            let tools = Tools::start(&cluster, seed, n_commands);
            let plan = FaultPlan::new(seed, n_faults);
            let n_done = plan.run(&mut cluster).await;
            eprintln!("faults: {n_done}");
            let calls = tools.finish().await;
            recovery::all_execute(&cluster, "after the faults").await;
            if size.n_servers > 1 {
                recovery::leader_is_lost(&mut cluster).await;
            }
            if !outage.is_zero() {
                recovery::servers_are_away(&mut cluster, outage).await;
            }
            let verdict = verdict::compare_all(&cluster, &calls);
            eprintln!("{verdict}");
            assert!(verdict.is_good(), "seed {seed}: {verdict}");
        });
    }
}

#[test]
fn whatever_is_lost_of_many_nodes_and_their_server_outcomes_are_true() {
    if has_server() {
        Soak::of_environment(given("MONITOR_SOAK_SERVERS").unwrap_or(1)).run();
    }
}

#[test]
fn three_servers_lose_their_leader_and_all_members_come_back() {
    if !has_server() {
        return;
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut cluster = SoakCluster::start(&SoakSize { n_servers: 3, n_nodes: 3 }).await;
        let tools = Tools::start(&cluster, SEED, 100);
        recovery::leader_is_lost(&mut cluster).await;
        let calls = tools.finish().await;
        let verdict = verdict::compare_all(&cluster, &calls);
        assert!(verdict.is_good(), "{verdict}");
    });
}

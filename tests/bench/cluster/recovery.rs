//! How soon all members execute commands after the loss of servers: of the leader of three, and of
//! all for a minute. Beside it, how soon the servers themselves accept an entry again, and have a
//! leader that makes consumers.

use super::sites::{AgentOutput, DEADLINE, TOOL, agents, runtime, site_of};
use crate::measure::median;
use crate::service::quantile;
use crate::verdict::{Bar, line};
use monitor_cluster::bus::entry::Targets;
use monitor_cluster::command::{CallOptions, CommandOutcome};
use monitor_model::Ns;
use monitor_nats::suite::{Agent, FloorCaller, ServerProcess, TestSite, command_bytes};
use std::time::{Duration, Instant};

const MEMBERS: usize = 64;
const LOSSES: usize = 5;
const OUTAGE: Duration = Duration::from_secs(60);
/// How long a command has.
const WITHIN: Ns = Ns(1_000_000_000);
/// Time between two of them.
const RETRY: Duration = Duration::from_millis(50);
/// Until what a restart moves is over.
const REST: Duration = Duration::from_secs(10);
/// Seconds until all members are back.
const BAR: Bar = Bar::AtMost(10.0);

pub fn run(most: usize) {
    let n_nodes = most.min(MEMBERS);
    // The floor is another user, which is no member.
    let mut site = site_of(3, &format!("n[1-{n_nodes}],{TOOL},f1"));
    let runtime = runtime();
    runtime.block_on(async {
        let agents = agents(&site, n_nodes, &AgentOutput::default()).await;
        let streams = site.options("f1").streams;
        let mut floor = FloorCaller::connect(&site.connection("f1"), &streams).await.unwrap();
        all_execute(&agents).await;
        let (mut took, mut servers) = (Vec::new(), Vec::new());
        for _ in 0..LOSSES {
            tokio::time::sleep(REST).await;
            let leader = site.leader().await;
            let start = Instant::now();
            site.servers[leader].kill();
            let (all, accepted) = back(&agents, &mut floor, start).await;
            took.push(all);
            servers.push(accepted);
            site.servers[leader].start();
        }
        let what = |what: &str| format!("{n_nodes} members, the leader of 3 is lost: {what}");
        line(&what("servers are ready, p50"), median(servers), "s", Bar::None);
        line(&what("all are back, p50"), median(took.clone()), "s", Bar::None);
        line(&what("all are back, most"), quantile(&mut took, 1.0), "s", BAR);
        outage(&mut site, &agents, &mut floor).await;
        drop(agents);
    });
}

async fn outage(site: &mut TestSite, agents: &[Agent], floor: &mut FloorCaller) {
    tokio::time::sleep(REST).await;
    site.servers.iter_mut().for_each(ServerProcess::kill);
    tokio::time::sleep(OUTAGE).await;
    site.servers.iter_mut().for_each(ServerProcess::begin);
    site.servers.iter_mut().for_each(ServerProcess::wait);
    let (all, accepted) = back(agents, floor, Instant::now()).await;
    let what = |what: &str| format!("3 servers were gone for {} s: {what}", OUTAGE.as_secs());
    line(&what("servers are ready"), accepted, "s", Bar::None);
    line(&what("all are back"), all, "s", BAR);
}

/// Seconds until all members execute, and until the servers accept an entry.
async fn back(agents: &[Agent], floor: &mut FloorCaller, start: Instant) -> (f64, f64) {
    let executed = async {
        all_execute(agents).await;
        start.elapsed().as_secs_f64()
    };
    let accepted = async {
        let bytes = command_bytes("f1", b"floor");
        while !floor.is_accepted(&bytes).await {
            assert!(start.elapsed() < DEADLINE, "the servers accept no entry");
            tokio::time::sleep(RETRY).await;
        }
        start.elapsed().as_secs_f64()
    };
    tokio::join!(executed, accepted)
}

/// Waits until a command is executed by all members.
async fn all_execute(agents: &[Agent]) {
    let start = Instant::now();
    loop {
        let options = CallOptions {
            targets: Targets::All,
            uid: 0,
            begin_within: WITHIN,
            reply_within: WITHIN,
            payload: b"recovery".to_vec(),
        };
        let result = agents[0].call(options).await;
        let is_executed = |it: &&CommandOutcome| matches!(it, CommandOutcome::Executed(_));
        let n_executed = result.map_or(0, |it| it.outcomes.values().filter(is_executed).count());
        if n_executed == agents.len() {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{n_executed} of {} execute", agents.len());
        tokio::time::sleep(RETRY).await;
    }
}

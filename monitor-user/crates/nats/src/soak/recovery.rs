//! How long it takes until all members execute commands again.

use super::faults::leader;
use super::world::{DEADLINE, World};
use crate::suite::ServerProcess;
use monitor_cluster::bus::entry::Targets;
use monitor_cluster::command::{CallOptions, CommandOutcome};
use monitor_model::Ns;
use std::time::{Duration, Instant};

/// How long a command of a recovery has.
const WITHIN: Ns = Ns(1_000_000_000);
/// Time between two of them.
const RETRY: Duration = Duration::from_millis(50);
/// The bar of the project, s; a figure to read, because a busy machine moves every number.
const BAR: f64 = 10.0;

/// Waits until a command to all members is executed by all of them.
#[allow(clippy::print_stderr, reason = "figures are to be read")]
pub async fn all_execute(world: &World, what: &str) {
    let start = Instant::now();
    let mut last = String::new();
    while !is_executed_by_all(world, &mut last).await {
        assert!(start.elapsed() < DEADLINE, "{what}: not all members are back: {last}");
        tokio::time::sleep(RETRY).await;
    }
    let took = start.elapsed().as_secs_f64();
    let verdict = if took <= BAR { "ok" } else { "MISSED" };
    eprintln!("all members back {what}: {took:.1} s  <= {BAR}  {verdict}");
}

async fn is_executed_by_all(world: &World, last: &mut String) -> bool {
    let options = CallOptions {
        targets: Targets::All,
        uid: 0,
        begin_within: WITHIN,
        reply_within: WITHIN,
        payload: b"recovery".to_vec(),
    };
    let Some(result) = world.tools[0].call(options).await else { return false };
    let is_executed = |it: &&CommandOutcome| matches!(it, CommandOutcome::Executed(_));
    let n_executed = result.outcomes.values().filter(is_executed).count();
    *last = format!("{n_executed} of {}", world.n_members());
    n_executed == world.n_members()
}

/// Kills the server that leads the order; the others go on.
pub async fn leader_is_lost(world: &mut World) {
    let leader = leader(&world.site).await;
    world.site.servers[leader].kill();
    all_execute(world, "after the loss of the leader").await;
    world.site.servers[leader].start();
}

/// Kills all servers, and starts them after a time.
pub async fn servers_are_away(world: &mut World, outage: Duration) {
    world.site.servers.iter_mut().for_each(ServerProcess::kill);
    tokio::time::sleep(outage).await;
    world.site.start();
    all_execute(world, &format!("after {} s without a server", outage.as_secs())).await;
}

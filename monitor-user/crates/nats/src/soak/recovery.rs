//! How long it takes until all members execute commands again.

use super::soak_cluster::{DEADLINE, SoakCluster};
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
pub async fn all_execute(cluster: &SoakCluster, what: &str) {
    let start = Instant::now();
    let mut last = String::new();
    while !is_executed_by_all(cluster, &mut last).await {
        assert!(start.elapsed() < DEADLINE, "{what}: not all members are back: {last}");
        tokio::time::sleep(RETRY).await;
    }
    let took = start.elapsed().as_secs_f64();
    let verdict = if took <= BAR { "ok" } else { "MISSED" };
    eprintln!("all members back {what}: {took:.1} s  <= {BAR}  {verdict}");
}

async fn is_executed_by_all(cluster: &SoakCluster, last: &mut String) -> bool {
    let options = CallOptions {
        targets: Targets::All,
        uid: 0,
        begin_within: WITHIN,
        reply_within: WITHIN,
        payload: b"recovery".to_vec(),
    };
    let Some(result) = cluster.tools[0].call(options).await else { return false };
    let is_executed = |it: &&CommandOutcome| matches!(it, CommandOutcome::Executed(_));
    let n_executed = result.outcomes.values().filter(is_executed).count();
    *last = format!("{n_executed} of {}", cluster.n_members());
    n_executed == cluster.n_members()
}

/// Kills the server that leads the order; the others go on.
pub async fn leader_is_lost(cluster: &mut SoakCluster) {
    let leader = cluster.site.leader().await;
    cluster.site.servers[leader].kill();
    all_execute(cluster, "after the loss of the leader").await;
    cluster.site.servers[leader].start();
}

/// Kills all servers, and starts them after a time.
pub async fn servers_are_away(cluster: &mut SoakCluster, outage: Duration) {
    cluster.site.servers.iter_mut().for_each(ServerProcess::kill);
    tokio::time::sleep(outage).await;
    cluster.site.start();
    all_execute(cluster, &format!("after {} s without a server", outage.as_secs())).await;
}

//! The death of a daemon is in the order at once, by the end of its connection, on a real server
//! with the configuration of `cluster init`.

use super::suite::{Agent, TestSite, has_server};
use monitor_cluster::command::SILENCE;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until an agent has seen the removal of a node.
async fn sees_removal(agent: &Agent, node: &str) {
    let removed = agent.until(|view| view.removed.iter().any(|it| it == node));
    timeout(DEADLINE, removed).await.unwrap_or_else(|_| panic!("{node} is not removed"));
}

async fn see_all(agents: &[Agent]) {
    for agent in agents {
        let all = agent.until(|view| view.is_member && view.n_members == agents.len());
        timeout(DEADLINE, all).await.unwrap_or_else(|_| panic!("{}: no members", agent.name));
    }
}

#[test]
fn a_daemon_that_is_killed_is_removed_long_before_its_silence_is_noticed() {
    if !has_server() {
        return;
    }
    let mut site = TestSite::write(1, "n[1-4]", "n[1-2]");
    site.start();
    Runtime::new().unwrap().block_on(async {
        let mut agents = ["n1", "n2", "n3", "n4"].map(|node| site.agent(node));
        see_all(&agents).await;
        site.signs_of_life(agents.len()).await;
        // A program that connects with the key of n4 is not its daemon.
        drop(site.client("n4").await);
        let silence = Duration::from_nanos(SILENCE.0 / 2);
        let start = Instant::now();
        agents[2].kill().await;
        sees_removal(&agents[3], "n3").await;
        assert!(start.elapsed() < silence, "{:?}", start.elapsed());
        // One of the two that remove others, which may be the one that has the lease.
        let start = Instant::now();
        agents[0].kill().await;
        sees_removal(&agents[3], "n1").await;
        assert!(start.elapsed() < silence, "{:?}", start.elapsed());
        let removed = ["n3", "n1"].map(str::to_owned);
        agents[3].until(|view| view.is_member && view.removed == removed).await;
        agents[2].start_again();
        agents[0].start_again();
        see_all(&agents).await;
    });
}

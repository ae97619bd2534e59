//! Gathers from light agents, beside the same number of bare clients in the same process: with one
//! server, and with servers of racks.

use super::gather::{REPLY, compare, floor_ms, floor_replies};
use super::sites::{
    AGENTS, AT_A_TIME, AgentOutput, RACKED_AGENTS, TOOL, agents, racks, runtime, site,
    site_with_racks,
};
use monitor_cluster::bus::entry::Targets;
use monitor_cluster::command::{CallOptions, CommandOutcome};
use monitor_model::Ns;
use monitor_nats::suite::{Agent, FloorCaller, FloorNode, TestSite, command_bytes, reply_bytes};
use std::time::Instant;
use tokio::task::JoinSet;

/// What agents execute.
const PAYLOAD: &[u8] = b"1 [0] number_of_nodes()";
const WITHIN: Ns = Ns(5_000_000_000);

/// With one server.
pub fn run(most: usize) {
    let n_nodes = most.min(AGENTS);
    measure(&format!("{n_nodes} agents"), n_nodes, [site(n_nodes, ""), site(n_nodes, "")]);
}

/// With a server of each rack.
pub fn run_in_racks(most: usize) {
    let n_nodes = most.min(RACKED_AGENTS);
    let racks = racks(n_nodes);
    let what = format!("{n_nodes} agents in {} racks", racks.len());
    measure(&what, n_nodes, [site_with_racks(&racks), site_with_racks(&racks)]);
}

fn measure(what: &str, n_nodes: usize, [ours_at, floor_at]: [TestSite; 2]) {
    let runtime = runtime();
    let reply = vec![b'x'; REPLY];
    let ticks_apart = n_nodes > AGENTS;
    let output = AgentOutput { reply: Some(reply.clone()), ticks_apart, rows: None };
    let start = Instant::now();
    let agents = runtime.block_on(agents(&ours_at, n_nodes, &output));
    println!("  {what} are members after {:.1} s", start.elapsed().as_secs_f64());
    let (mut caller, _nodes) = runtime.block_on(floor(&floor_at, n_nodes, &reply_bytes(&reply)));
    let bytes = command_bytes(TOOL, PAYLOAD);
    let ours = || runtime.block_on(gather(&agents));
    let floor = || runtime.block_on(floor_ms(&mut caller, &bytes, n_nodes));
    compare(&format!("2 KB from each of {what}"), ours, floor);
    let _guard = runtime.enter();
    drop(agents);
}

/// The bare clients, which reply until the set is dropped.
async fn floor(site: &TestSite, n_nodes: usize, reply: &[u8]) -> (FloorCaller, JoinSet<()>) {
    let streams = site.options(TOOL).streams;
    let mut caller = FloorCaller::connect(&site.connection(TOOL), &streams).await.unwrap();
    let mut answering = JoinSet::new();
    for first in (1..=n_nodes).step_by(AT_A_TIME) {
        let mut connecting = JoinSet::new();
        for node in first..(first + AT_A_TIME).min(n_nodes + 1) {
            let (connection, reply) = (site.connection(&format!("n{node}")), reply.to_vec());
            connecting.spawn(async move { FloorNode::connect(&connection, (TOOL, reply)).await });
        }
        while let Some(node) = connecting.join_next().await {
            let node = node.unwrap().unwrap();
            answering.spawn(async move { node.answer_all().await.unwrap() });
        }
    }
    floor_replies(&mut caller, &command_bytes(TOOL, PAYLOAD), n_nodes).await;
    (caller, answering)
}

/// Milliseconds of a gather from all agents, which all execute.
async fn gather(agents: &[Agent]) -> f64 {
    // The tool executes too, which the floor does not.
    let options = CallOptions {
        targets: Targets::All,
        uid: 0,
        begin_within: WITHIN,
        reply_within: WITHIN,
        payload: PAYLOAD.to_vec(),
    };
    let start = Instant::now();
    let result = agents[0].call(options).await.expect("the tool is a member");
    let took = start.elapsed().as_secs_f64() * 1e3;
    let is_executed = |it: &CommandOutcome| matches!(it, CommandOutcome::Executed(_));
    assert!(result.outcomes.values().all(is_executed), "an agent did not execute");
    took
}

//! Gathers from daemons, beside the same number of processes with a bare client each.

use super::gather::{compare, floor_ms, floor_replies};
use super::node::{Connection, Node};
use super::sites::{TOOL, runtime, site};
use crate::program::Program;
use monitor_nats::suite::{FloorCaller, FloorNode, TestSite, command_bytes, reply_bytes};
use monitor_nats::{NatsConnection, NatsUser};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tokio::runtime::Builder;

/// The argument with which this program is a node of the floor; others follow it.
const IS_FLOOR: &str = "cluster-floor";
/// Daemons that start at a time.
const AT_A_TIME: usize = 20;
/// Most daemons.
const DAEMONS: usize = 200;
/// Bytes in the reply to `LINE`, beside its frame.
const PRINTED: usize = 2000;

/// A request with a reply of 2 KB that reads no process: what it measures is the way.
fn request() -> String {
    format!("1 [0] print(\"{}\")", "x".repeat(PRINTED))
}

pub fn run(most: usize) {
    let n_nodes = most.min(DAEMONS);
    let (ours_at, floor_at) = (site(n_nodes, ""), site(n_nodes, ""));
    let tool = Node::start(&ours_at, TOOL, "procfs");
    let mut connection = tool.connect();
    connection.sees(1);
    let mut nodes = Vec::new();
    while nodes.len() < n_nodes {
        let some = (nodes.len() + 1..=n_nodes).take(AT_A_TIME);
        nodes.extend(some.map(|it| Node::start(&ours_at, &format!("n{it}"), "procfs")));
        connection.sees(nodes.len() + 1);
    }
    let (_, reply) = gather(&mut connection);
    println!("  {n_nodes} daemons; the reply of each has {} bytes", reply.len());
    let runtime = runtime();
    let streams = ours_at.options(TOOL).streams;
    let of_floor = floor_at.connection(TOOL);
    let mut caller = runtime.block_on(FloorCaller::connect(&of_floor, &streams)).unwrap();
    let n_bytes = reply_bytes(reply.as_bytes()).len();
    let _floor: Vec<_> = (1..=n_nodes).map(|it| start_floor(&floor_at, it, n_bytes)).collect();
    let bytes = command_bytes(TOOL, request().as_bytes());
    runtime.block_on(floor_replies(&mut caller, &bytes, n_nodes));
    let floor = || runtime.block_on(floor_ms(&mut caller, &bytes, n_nodes));
    let ours = || gather(&mut connection).0;
    compare(&format!("2 KB from each of {n_nodes} daemons"), ours, floor);
}

/// Milliseconds of a gather from all daemons, and the reply of one of them.
fn gather(connection: &mut Connection) -> (f64, String) {
    let params = json!({"line": request(), "within_ns": 5_000_000_000_u64});
    let start = Instant::now();
    let result = connection.call("gather", &params).unwrap();
    let took = start.elapsed().as_secs_f64() * 1e3;
    let all = result["nodes"].as_array().unwrap();
    let is_executed = |it: &Value| it["outcome"] == "executed" && it["reply"].is_string();
    assert!(all.iter().all(is_executed), "a node did not execute: {:?}", all[0]);
    (took, all[0]["reply"].as_str().unwrap().to_owned())
}

fn start_floor(site: &TestSite, number: usize, n_bytes: usize) -> Program {
    let name = format!("n{number}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([IS_FLOOR, &format!("tls://{}", site.servers[0].address)]);
    command.arg(site.folder.join("nodes").join(&name).join("cluster.seed"));
    command.arg(site.folder.join("ca/ca.crt")).args([&name, &n_bytes.to_string()]);
    Program::start(&mut command).unwrap()
}

/// Replies to commands until it is ended, if this process was started for that.
pub fn serve_as_floor() -> bool {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [first, server, seed, ca, node, n_bytes] = &words[..] else { return false };
    if first != IS_FLOOR {
        return false;
    }
    let connection = NatsConnection {
        servers: vec![server.clone()],
        user: Some(NatsUser::read(Path::new(seed)).unwrap()),
        ca: Some(ca.into()),
        node: node.clone(),
    };
    let reply = vec![b'x'; n_bytes.parse().unwrap()];
    // As the thread of a daemon.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = FloorNode::connect(&connection, (TOOL, reply)).await.unwrap();
        node.answer_all().await.unwrap();
    });
    true
}

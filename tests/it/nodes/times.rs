//! Calls of a job that are timed on two nodes: one table, and one sum.

use super::example_cluster::ExampleCluster;
use super::followed::Followed;
use crate::root::privilege::{granted, skip};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// Sleeps for a millisecond again and again, until it is killed.
const PROGRAM: &str =
    "import ctypes\nlibc = ctypes.CDLL('libc.so.6')\nwhile True: libc.usleep(1000)";

/// A rank that ends with the test.
struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn root_calls_on_nodes_are_timed_together() {
    const TEST: &str = "root_calls_on_nodes_are_timed_together";
    if Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip(TEST, "no nats-server: apt install nats-server");
    }
    if !granted(TEST) {
        return;
    }
    let cluster = ExampleCluster::start();
    // These two see the processes of the machine, so the calls of the rank are timed twice.
    for node in ["n2", "n3"] {
        cluster.kill(&format!("nodes/{node}/pid"));
        cluster.script_with("auto", &["node", node]);
    }
    cluster.sees("n1", ["up", "up", "up"]);
    let job = format!("it-times-{}", std::process::id());
    let mut rank = Command::new("python3");
    rank.args(["-c", PROGRAM]).env("PMIX_NAMESPACE", &job).env("PMIX_RANK", "0");
    let _rank = Rank(rank.spawn().unwrap());
    let on = ["--job", &job, "--nodes", "n[2-3]", "--for", "2s", "--format", "json"];
    let words = [&["when", "call usleep", "time"], &on[..]].concat();
    let mut when = Followed::start(&cluster, "n1", &words);
    assert_eq!(when.code(), Some(0), "{}", when.errors());
    let summary: Value = serde_json::from_str(&when.rows()).unwrap();
    let of_call = &summary["counts"][0];
    assert_eq!((&summary["event"], &of_call["what"]), (&"summary".into(), &"call usleep".into()));
    let n = of_call["count"].as_u64().unwrap();
    assert!(n > 0 && of_call["p50_ns"].as_u64().unwrap() >= 1_000_000, "{summary}");
    let errors = when.errors();
    assert!(errors.contains(&format!("monitor: 2 nodes: {n} events\n")), "{summary} {errors}");
    // Nothing is sent for each call.
    assert_eq!(when.rows().lines().count(), 1);
    // In order, so that nothing is left.
    cluster.script(&["stop"]);
}

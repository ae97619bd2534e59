//! Rules that programs of the kernel serve, on two nodes: calls of a job are timed, programs that
//! are executed are counted. Each is one table, and one sum.

use super::example_cluster::{ExampleCluster, has_server};
use super::followed::Followed;
use crate::deadline::until;
use crate::root::privilege::granted;
use serde_json::Value;
use std::process::{Child, Command};

/// Sleeps for a millisecond again and again, until it is killed.
const PROGRAM: &str =
    "import ctypes\nlibc = ctypes.CDLL('libc.so.6')\nwhile True: libc.usleep(1000)";

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Three nodes, of which n2 and n3 see the processes of the machine: each event there is one of
/// both.
fn cluster(test: &str) -> Option<ExampleCluster> {
    if !has_server(test) || !granted(test) {
        return None;
    }
    let cluster = ExampleCluster::start();
    for node in ["n2", "n3"] {
        cluster.kill(&format!("nodes/{node}/pid"));
        cluster.script_with("auto", &["node", node]);
    }
    cluster.sees("n1", ["up", "up", "up"]);
    Some(cluster)
}

#[test]
fn root_calls_on_nodes_are_timed_together() {
    let Some(cluster) = cluster("root_calls_on_nodes_are_timed_together") else { return };
    let job = format!("it-times-{}", std::process::id());
    let mut rank = Command::new("python3");
    rank.args(["-c", PROGRAM]).env("PMIX_NAMESPACE", &job).env("PMIX_RANK", "0");
    let _rank = Ended(rank.spawn().unwrap());
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

#[test]
fn root_programs_executed_on_nodes_are_counted_together() {
    const TEST: &str = "root_programs_executed_on_nodes_are_counted_together";
    let Some(cluster) = cluster(TEST) else { return };
    // A name of a process has at most 15 bytes.
    let name = format!("exec-{}", std::process::id());
    let program = cluster.folder.join(&name);
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let on = ["--comm", &name, "--nodes", "n[2-3]", "--total-above", "1", "--format", "json"];
    let mut when = Followed::start(&cluster, "n1", &[&["when", "exec"], &on[..]].concat());
    for node in ["n2", "n3"] {
        until(|| when.is_watching(&cluster, (node, "process_exec")).then_some(()));
    }
    let process = Ended(Command::new(&program).arg("999").spawn().unwrap());
    assert_eq!(when.code(), Some(0), "{}", when.errors());
    let rows = when.rows();
    let objects: Vec<Value> = rows.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let [event, total] = &objects[..] else { panic!("{rows}") };
    assert_eq!((&event["event"], &event["pid"]), (&"exec".into(), &process.0.id().into()));
    assert_eq!((&total["total"], &total["is_complete"]), (&2.into(), &true.into()), "{rows}");
    cluster.script(&["stop"]);
}

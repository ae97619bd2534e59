//! Ranks of real processes, found by a service by their environment and by registration.

use super::privilege::granted;
use super::workload::Guarded;
use crate::deadline;
use crate::served::Served;
use crate::socket_session::SocketSession;
use serde_json::{Value, json};
use std::process::Command;

/// A process of that rank, which waits.
fn rank(namespace: &str, rank: u32) -> Guarded {
    let mut command = Command::new("cat");
    command.env("PMIX_NAMESPACE", namespace).env("PMIX_RANK", rank.to_string());
    let child = Guarded::run(&mut command);
    // Its environment is there when it has executed.
    let comm = format!("/proc/{}/comm", child.pid().0);
    deadline::until(|| (std::fs::read_to_string(&comm).unwrap().trim() == "cat").then_some(()));
    child
}

fn request(namespace: &str, rank: Option<u32>, every_ns: Option<u64>) -> Value {
    let target = match rank {
        Some(rank) => json!({"namespace": namespace, "rank": rank}),
        None => json!({"namespace": namespace}),
    };
    let mut request = json!({"fields": ["ended"], "targets": [target]});
    if let Some(every_ns) = every_ns {
        request["every_ns"] = every_ns.into();
    }
    request
}

/// Ids of a sample's processes, in order, and whether each has ended.
fn rows(sample: &Value) -> Vec<(u64, bool)> {
    let processes = sample["processes"].as_array().unwrap().iter();
    let mut rows: Vec<_> =
        processes.map(|it| (it["pid"].as_u64().unwrap(), it["ended"] == true)).collect();
    rows.sort_unstable();
    rows
}

fn pid(child: &Guarded) -> u64 {
    u64::from(child.pid().0)
}

fn living(children: &[&Guarded]) -> Vec<(u64, bool)> {
    let mut all: Vec<_> = children.iter().map(|it| (pid(it), false)).collect();
    all.sort_unstable();
    all
}

/// Reads events until one is as wanted.
fn until(client: &mut SocketSession, want: &[(u64, bool)]) {
    deadline::until(|| (rows(&client.event()["sample"]) == want).then_some(()));
}

#[test]
fn root_ranks_are_found_by_their_namespace_and_late_ones_join() {
    if !granted("root_ranks_are_found_by_their_namespace_and_late_ones_join") {
        return;
    }
    let service = Served::start("ebpf");
    let mut client = service.connect();
    let namespace = format!("test-{}", std::process::id());
    let (zero, one) = (rank(&namespace, 0), rank(&namespace, 1));
    let other = rank(&format!("{namespace}-other"), 0);
    let all = client.result("monitor", &request(&namespace, None, Some(50_000_000)));
    assert_eq!(rows(&all["sample"]), living(&[&zero, &one]));
    let mut second = service.connect();
    let only = second.result("monitor", &request(&namespace, Some(1), None));
    assert_eq!(rows(&only["sample"]), living(&[&one]));
    let late = rank(&namespace, 2);
    until(&mut client, &living(&[&zero, &one, &late]));
    // A process without a rank of its own is found because a client registers it.
    let registered = Guarded::sh("read leave");
    let params = json!({"namespace": namespace, "rank": 3, "pid": pid(&registered)});
    assert_eq!(second.result("register", &params)["pid"], pid(&registered));
    until(&mut client, &living(&[&zero, &one, &late, &registered]));
    drop(registered);
    until(&mut client, &living(&[&zero, &one, &late]));
    drop(other);
}

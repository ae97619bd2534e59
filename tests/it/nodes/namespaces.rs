//! Three nodes by the script of docs/examples, each with its own network, host name and processes,
//! and one job of Open MPI 5 on all of them.

use super::namespace_cluster::{Namespaces, can_start};
use crate::job::runtime::CaseRuntime;
use crate::root::workload::Guarded;
use serde_json::Value;
use std::path::Path;

const RANKS: u64 = 6;

/// A job with two ranks on each node. They wait for lines in a broadcast, but rank 0, which
/// reads them.
fn job(nodes: &Namespaces, program: &Path) -> Guarded {
    let only_tcp = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"];
    let address = ["--mca", "btl_tcp_if_include", "eth0", "-n", "6"];
    let program = program.to_str().unwrap();
    let words = [&["mpirun"][..], &only_tcp, &address, &[program]].concat();
    let mut command = nodes.script(&words);
    CaseRuntime::named("openmpi5").set_environment(&mut command);
    let log = std::fs::File::create(nodes.folder.join("job.log")).unwrap();
    Guarded::run(command.stderr(log))
}

/// Node and pid of each rank, as the ranks say.
fn ranks(job: &mut Guarded) -> Vec<(u64, String, u64)> {
    let mut ranks: Vec<(u64, String, u64)> = (0..RANKS)
        .map(|_| {
            let line = job.line();
            let words: Vec<&str> = line.split(' ').collect();
            let [_, rank, pid] = words[..] else { panic!("{line}") };
            let rank: u64 = rank.parse().unwrap();
            // As --map-by node places them.
            (rank, format!("n{}", 1 + rank % 3), pid.parse().unwrap())
        })
        .collect();
    ranks.sort();
    ranks
}

/// The rows of `job show`.
fn shown(table: &Value) -> Option<Vec<(u64, String, u64)>> {
    let row = |it: &Value| {
        Some((it["rank"].as_u64()?, it["host"].as_str()?.to_owned(), it["pid"].as_u64()?))
    };
    table["job"]["ranks"].as_array()?.iter().map(row).collect()
}

#[test]
fn root_a_job_on_three_nodes_is_one_job() {
    const TEST: &str = "root_a_job_on_three_nodes_is_one_job";
    if !can_start(TEST) {
        return;
    }
    let Some(program) = CaseRuntime::named("openmpi5").built_of(TEST, "mpi.c") else { return };
    let nodes = Namespaces::start(&[]);
    let mut running = job(&nodes, &program);
    let ranks = ranks(&mut running);
    let id = nodes.json(&["job", "list", "--nodes", "@*"], |list| {
        let [job] = &list["jobs"].as_array()?[..] else { return None };
        let is_whole = job["n_nodes"] == 3 && job["ranks"] == RANKS && job["size"] == RANKS;
        let is_counted_once = list["notes"].as_array()?.is_empty();
        (is_whole && is_counted_once).then(|| job["id"].as_str().unwrap().to_owned())
    });
    let show = ["job", "show", &id, "--for", "50ms", "--nodes", "@*"];
    nodes.json(&show, |table| (shown(table)? == ranks).then_some(()));
    stacks_are_merged(&nodes, &id);
    held_and_released(&nodes, &id, &show);

    nodes.run(&["cut", "n3"]);
    nodes.see(["up", "up", "dead"]);
    let near: Vec<_> = ranks.iter().filter(|it| it.1 != "n3").cloned().collect();
    nodes.json(&show, |table| (shown(table)? == near).then_some(()));
    nodes.run(&["join", "n3"]);
    nodes.see(["up", "up", "up"]);
    nodes.json(&show, |table| (shown(table)? == ranks).then_some(()));

    let ended = nodes.command(&["job", "end", &id, "--nodes", "@*"]);
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(text, format!("job {id}: sent SIGTERM to its launcher on n1\n"), "{ended:?}");
    nodes.json(&["job", "list", "--nodes", "@*"], |list| {
        list["jobs"].as_array()?.is_empty().then_some(())
    });
}

/// Rank 0 is in one place, and those of all nodes in another.
fn stacks_are_merged(nodes: &Namespaces, id: &str) {
    nodes.json(&["job", "stacks", id, "--nodes", "@*"], |stacks| {
        let [most, one] = &stacks["classes"].as_array()?[..] else { return None };
        let last = most["path"].as_array()?.last()?.as_str()?;
        let is_merged = most["ranks"] == "1-5" && one["ranks"] == "0" && one["node"] == "n1";
        (is_merged && last.ends_with("MPI_Bcast") && stacks["nodes"][0]["threads"] == RANKS)
            .then_some(())
    });
}

fn held_and_released(nodes: &Namespaces, id: &str, show: &[&str]) {
    let has_state = |is_wanted: fn(&str) -> bool| {
        nodes.json(show, |table| {
            let ranks = table["job"]["ranks"].as_array()?;
            let is_all = ranks.iter().all(|it| it["state"].as_str().is_some_and(is_wanted));
            (is_all && ranks.len() as u64 == RANKS).then_some(())
        });
    };
    for (verb, done, is_wanted) in [
        ("hold", "held", (|it| it == "T") as fn(&str) -> bool),
        ("release", "released", |it| it != "T"),
    ] {
        let output = nodes.command(&["job", verb, id, "--nodes", "@*"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, format!("job {id}: {done} ranks 0-5 on n[1-3]\n"), "{output:?}");
        has_state(is_wanted);
    }
}

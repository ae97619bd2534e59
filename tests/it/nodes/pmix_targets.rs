//! `PMIx_Process_monitor` of nodes and of processes of other nodes: what a client of the PMIx host
//! asks is passed on to the service, which asks the nodes over the bus.

use super::example_cluster::{ExampleCluster, has_server};
use crate::job::launch_native::{client, native};
use std::path::Path;

/// What a rank prints that asks for nodes by a service, and its exit code.
fn asks(program: &Path, socket: &Path, nodes: &[&str]) -> (Vec<String>, Option<i32>) {
    let words = [&[program.to_str().unwrap()], nodes].concat();
    let (mut command, _folder) = native(&["-n", "1"], &words);
    let got = command.env("MONITOR_SOCKET", socket).output().unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    (text.lines().map(str::to_owned).collect(), got.status.code())
}

#[test]
fn a_pmix_client_gets_the_usage_of_other_nodes() {
    let test = "a_pmix_client_gets_the_usage_of_other_nodes";
    let Some(program) = client(test, "pmix_usage_nodes.c") else { return };
    if !has_server(test) {
        return;
    }
    let cluster = ExampleCluster::start();
    let (lines, code) = asks(&program, &cluster.socket("n1"), &["n1", "n2", "n3"]);
    assert_eq!(code, Some(0), "{lines:?}");
    // The three services have one script, which names the node.
    let of_nodes = "pmix.node.res of test-node";
    let n_processes = lines.iter().filter(|it| *it == "pmix.proc.res of test-node").count();
    assert!(n_processes > 0, "{lines:?}");
    // A call prints its containers before its status.
    let mut want = vec![of_nodes, of_nodes, of_nodes, "nodes 0"];
    want.extend(vec!["pmix.proc.res of test-node"; n_processes]);
    want.extend(["processes 0", of_nodes, "each second 0"]);
    want.extend(["second of this id -11", "two events", "cancel 0", "cancel again -46"]);
    assert_eq!(lines, want);
    // PMIX_ERR_NOT_FOUND: no node has that name. PMIX_ERR_NOT_SUPPORTED: no service.
    let (lines, _) = asks(&program, &cluster.socket("n1"), &["n9"]);
    assert!(lines == ["nodes -46", "processes -46", "each second -46"], "{lines:?}");
    let (lines, _) = asks(&program, &cluster.folder.join("none.sock"), &["n2"]);
    assert!(lines == ["nodes -47", "processes -47", "each second -47"], "{lines:?}");
}

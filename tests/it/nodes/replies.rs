//! Commands with one reply from each node.

use super::example_cluster::{ExampleCluster, NODES, REQUEST};
use crate::deadline::until;
use crate::served::monitor;
use serde_json::Value;

pub fn many_nodes_reply_as_one(cluster: &ExampleCluster) {
    let ask = |nodes: &'static str| ["ask", "--nodes", nodes, REQUEST];
    cluster.prints(("n1", &ask("n[1-3]")), 0, "\nn[1-3] (3)\n");
    cluster.prints(("n2", &ask("@*!n3")), 0, "\nn[1-2] (2)\n");
    cluster.prints(("n2", &ask("n?!*3")), 0, "\nn[1-2] (2)\n");
    let refused = "n4: refused: the node is not a member of the cluster";
    cluster.prints(("n1", &ask("n[1-4]")), 4, refused);
    cluster.prints(("n1", &ask("n[1-")), 2, "a bracket is not closed");
    let json = ["ask", "--nodes", "n[2-3]", "--format", "json", REQUEST];
    cluster.prints(("n1", &json), 0, r#""nodes":"n[2-3]","#);
}

pub fn rows_have_the_name_of_their_node(cluster: &ExampleCluster) {
    let sample = |nodes: &'static str, form: &'static str| {
        let words = ["sample", "--nodes", nodes, "--format", form, "--top", "1"];
        [&words[..], &["--fields", "pid,rss_bytes"]].concat()
    };
    cluster.prints(("n2", &sample("n[1-3]", "table")), 0, "3 nodes  ");
    cluster.prints(("n2", &sample("n[1-3]", "table")), 0, "\nNODE ");
    let nodes_of = |form, name: fn(&str) -> Option<String>| {
        let output = cluster.command("n2", &sample("n[1-3]", form));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter_map(name).collect::<Vec<_>>()
    };
    let cell = |line: &str| line.split(',').nth(1).map(str::to_owned);
    assert_eq!(nodes_of("csv", cell), ["node", "n1", "n2", "n3"]);
    let key = |line: &str| {
        let sample: Value = serde_json::from_str(line).ok()?;
        assert_eq!(sample["processes"].as_array().map(Vec::len), Some(1));
        sample["node"].as_str().map(str::to_owned)
    };
    assert_eq!(nodes_of("json", key), NODES);
    let label = |line: &str| {
        let rest = line.strip_prefix("monitor_process_rss_bytes{node=\"")?;
        rest.split('"').next().map(str::to_owned)
    };
    assert_eq!(nodes_of("prometheus", label), NODES);
    // A family is described once.
    let head =
        |line: &str| line.strip_prefix("# TYPE monitor_process_rss_bytes ").map(str::to_owned);
    assert_eq!(nodes_of("prometheus", head), ["gauge"]);

    cluster.prints(("n1", &sample("n[1-4]", "csv")), 4, "monitor: n4: refused: ");
    cluster.prints(("n1", &sample("n9", "csv")), 1, "monitor: n9: refused: ");
    cluster.prints(("n1", &sample("n[1-", "csv")), 2, "a bracket is not closed");
    let jobs = |nodes: &'static str| ["job", "list", "--format", "csv", "--nodes", nodes];
    cluster.prints(("n1", &jobs("@*")), 0, "id,runtime,uid,user,nodes,n_nodes,ranks,");
    cluster.prints(("n1", &jobs("n[3-4]")), 4, "monitor: n4: refused: ");
}

/// The command reads the configuration of its user; the service knows no groups.
pub fn groups_are_those_of_the_user(cluster: &ExampleCluster) {
    let folder = cluster.folder.join("clustershell");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("groups.conf"), "[Main]\nautodir: $CFGDIR\n").unwrap();
    let groups = "site:\n  gpu: 'n[2-3]'\n  others: '@*!@gpu'\n  all: 'n[1-3]'\n";
    std::fs::write(folder.join("cluster.yaml"), groups).unwrap();
    let folded = |nodes: &str| {
        let mut command = monitor();
        command.args(["ask", "--nodes", nodes, REQUEST]).env("CLUSTERSHELL_CFGDIR", &folder);
        let output = command.env("MONITOR_SOCKET", cluster.socket("n2")).output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.code(), out.lines().nth(1).map(str::to_owned), errors)
    };
    let replied = |nodes: &str| Some(nodes.to_owned());
    assert_eq!(folded("@gpu"), (Some(0), replied("n[2-3] (2)"), String::new()));
    assert_eq!(folded("@*&@gpu!n3").1, replied("n2"));
    assert_eq!(folded("@site:others").1, replied("n1"));
    let (code, _, why) = folded("@gpus");
    assert_eq!((code, why.contains("the nearest is \"gpu\"")), (Some(2), true), "{why}");
}

pub fn a_session_of_the_cluster_has_all_nodes(cluster: &ExampleCluster) {
    let of_all = ["ask", "--cluster", "1 [] number_of_nodes()"];
    NODES.iter().for_each(|node| cluster.prints((node, &of_all), 0, "number_of_nodes(0,3)"));
    let rule = ["ask", "--cluster", "--count", "1", "1 [] define_user_event(7)"];
    let lines = ["2 [] user_event(7): 3 [$0] print($1)", "4 [] enable(2)"];
    let raise = ["5 [] raise_event(7,[8])"];
    cluster.prints(("n2", &[&rule[..], &lines, &raise].concat()), 0, "] print(0,[8])");
    let targets = r#"[{"node":"n1"},{"node":"n2"}]"#;
    let params = format!(r#"{{"part":"node","fields":["load1"],"targets":{targets}}}"#);
    let of_two = format!(r#"{{"id":1,"method":"monitor","params":{params}}}"#);
    cluster.prints(("n1", &["ask", &of_two]), 0, r#""node":"n2","status":"SUCCESS""#);
    cluster.prints(("n1", &["ask", r#"{"id":1,"method":"x"}"#]), 2, "unknown method");
}

/// Connections inside the service end with the reply, or when nothing waits for it any longer.
pub fn commands_leave_no_connections(cluster: &ExampleCluster) {
    let status = ["ask", r#"{"id":1,"method":"status"}"#];
    let connections = || {
        let printed = String::from_utf8(cluster.command("n3", &status).stdout).unwrap();
        let status: Value = serde_json::from_str(&printed).unwrap();
        status["result"]["connections"].as_u64().unwrap()
    };
    let before = connections();
    let sample = r#"{"id":1,"method":"monitor","params":{"part":"node","fields":["load1"]}}"#;
    let status = status[1];
    for line in [REQUEST, status, sample, "1 [] print(1", "1 [] nothing()"].repeat(3) {
        let output = cluster.command("n2", &["ask", "--nodes", "n3", line]);
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{line}");
    }
    until(|| (connections() <= before).then_some(()));
}

pub fn users_of_other_nodes_only_observe(cluster: &ExampleCluster) {
    let cancel = |nodes: &'static str| ["ask", "--nodes", nodes, r#"{"id":1,"method":"cancel"}"#];
    cluster.prints(("n1", &cancel("n2")), 0, r#""result""#);
    let refused = "n1: refused: cancel: users of other nodes may only observe";
    cluster.prints(("n2", &cancel("n1")), 1, refused);
}

pub fn doctor_finds_nothing(cluster: &ExampleCluster) {
    let doctor = cluster.doctor("n3");
    let words = doctor.each_ref().map(String::as_str);
    for text in ["  ok      member     n3\n", "  ok      denials ", "  ok      clock "] {
        cluster.prints(("n3", &words), 0, text);
    }
}

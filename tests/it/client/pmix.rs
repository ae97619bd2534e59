//! Samples in the PMIx form: the identity of an object comes first and its time last.

use crate::served::Served;
use serde_json::{Value, json};

/// The keys of a container, in their order.
fn keys(container: &Value) -> Vec<&str> {
    let pairs = container.as_array().expect("a list of keys with values").iter();
    pairs
        .flat_map(|it| it.as_object().expect("a key with a value").keys())
        .map(|it| &**it)
        .collect()
}

#[test]
fn a_process_that_is_a_rank_is_identified_by_it() {
    let served = Served::start("test");
    let mut session = served.connect();
    let request = json!({
        "fields": ["PMIX_PROC_RSS", "pmix.hname", "PMIX_PROC_SAMPLE_TIME"],
        "targets": [{"pid": 1234}],
        "pmix": true,
    });
    let first = |answer: &Value| answer["sample"][0]["pmix.proc.res"].clone();
    let process = first(&session.result("monitor", &request));
    let all = ["pmix.ppid", "pmix.hname", "monitor.start_time_ns", "pmix.proc.rss"];
    let all: Vec<&str> = all.into_iter().chain(["pmix.proc.samptime"]).collect();
    assert_eq!(keys(&process), all, "a process that is not a rank has its pid only");
    let _held = session.result("register", json!({"namespace": "job", "rank": 3, "pid": 1234}));
    let rank = first(&session.result("monitor", &request));
    assert_eq!(rank[0], json!({"pmix.procid": {"nspace": "job", "rank": 3}}));
    assert_eq!(keys(&rank)[1..], all);
}

#[test]
fn a_node_has_its_name_and_number_and_its_devices_have_their_ids() {
    let served = Served::start("test");
    let mut session = served.connect();
    let given = json!(["PMIX_NODEID", "PMIX_NODE_LOAD_AVG", "pmix.disk.samptime"]);
    let params = json!({"part": "node", "fields": given, "pmix": true});
    let node = session.result("monitor", &params)["sample"][0]["pmix.node.res"].clone();
    assert_eq!(node.as_array().map(Vec::len), Some(6), "{node}");
    assert_eq!(node[1], json!({"pmix.nodeid": 0}));
    let disks = ["pmix.disk.res", "pmix.disk.res"];
    let want = ["pmix.hname", "pmix.nodeid", "pmix.node.la"].into_iter().chain(disks);
    assert_eq!(keys(&node), want.chain(["pmix.node.samptime"]).collect::<Vec<_>>());
    assert_eq!(keys(&node[3]["pmix.disk.res"]), ["pmix.disk.id", "pmix.disk.samptime"]);
}

//! Three daemons in one process, members of a bus in memory, and a client of one of them.
//!
//! Each has its own threads, event loop, socket and canned values. What goes over NATS is in
//! `nodes/`.

use crate::deadline::until;
use crate::served::Folder;
use crate::socket_session::SocketSession;
use monitor_backend::BackendChoice;
use monitor_backends::canned::Canned;
use monitor_cluster::bus::local::LocalBus;
use monitor_cluster::bus::{Bus as _, BusEvent, Topic, try_event};
use monitor_cluster::scope::Node;
use monitor_loader::select;
use monitor_protocol::rollup::MAX_RACK;
use monitor_server::daemon;
use monitor_server::daemon::config::{ClusterConfig, Config, LoadedConfig};
use monitor_server::daemon::{Endpoint, Settings};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A daemon, which stops when dropped.
struct Daemon {
    socket: PathBuf,
    _folder: Folder,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Starts the next member: its number is its place in the order.
    fn start(number: u32, bus: &LocalBus, cluster: ClusterConfig) -> Self {
        let name = NAMES[number as usize].to_owned();
        let folder = Folder::new();
        let socket = folder.join("socket");
        let cluster = ClusterConfig {
            servers: vec!["memory".to_owned()],
            ledger: folder.join("ledger"),
            ..cluster
        };
        let config = Config { cluster, ..Config::default() };
        let node = Node { name, ..Node::default() };
        let bus = Box::new(bus.clone());
        let (stop, stopped) = oneshot::channel();
        let place = socket.clone();
        let thread = std::thread::spawn(move || {
            let settings = Settings {
                connector: Some(bus),
                loaded: LoadedConfig { config, ..LoadedConfig::default() },
                ..Settings::new(Endpoint::Socket(place), node, select::opener(BackendChoice::Auto))
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("an event loop").block_on(async {
                let serving = daemon::serve(settings, Box::new(Canned::fixed()), Vec::new());
                tokio::select! {
                    served = serving => served.expect("the daemon serves"),
                    _ = stopped => {}
                }
            });
        });
        until(|| socket.exists().then_some(()));
        let mut client = SocketSession::connect(&socket);
        let mut state = || client.call("members", &json!({}))["result"]["state"].clone();
        until(|| (state() == "member").then_some(()));
        Self { socket, _folder: folder, stop: Some(stop), thread: Some(thread) }
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the daemon stops");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A client whose requests are those of the cluster.
fn cluster_session(daemon: &Daemon) -> SocketSession {
    let mut client = SocketSession::connect(&daemon.socket);
    let answer = client.call("cluster_session", &json!({}));
    assert!(answer["result"]["number"].is_number(), "{answer}");
    client
}

/// Three daemons that know each other; each trusts these nodes with control.
fn start_all(control_from: [&str; 3]) -> Vec<Daemon> {
    let config =
        |from: &str| ClusterConfig { control_from: from.to_owned(), ..ClusterConfig::default() };
    start_with(&LocalBus::default(), control_from.map(config))
}

/// Three daemons that know each other.
fn start_with(bus: &LocalBus, configs: [ClusterConfig; 3]) -> Vec<Daemon> {
    let daemons: Vec<_> =
        (0..).zip(configs).map(|(number, it)| Daemon::start(number, bus, it)).collect();
    for daemon in &daemons {
        let mut client = SocketSession::connect(&daemon.socket);
        let mut members = || client.call("members", &json!({}))["result"]["members"].clone();
        until(|| (members().as_array().map(Vec::len) == Some(3)).then_some(()));
    }
    daemons
}

/// Three daemons, and a client of the first.
fn net() -> (Vec<Daemon>, SocketSession) {
    let daemons = start_all(["", "", ""]);
    let client = SocketSession::connect(&daemons[0].socket);
    (daemons, client)
}

#[test]
fn an_aggregator_publishes_for_its_rack_and_has_a_successor() {
    let bus = LocalBus::default();
    let gateway = ClusterConfig { gateway: true, ..ClusterConfig::default() };
    let rack = ClusterConfig { aggregators: "b,c".to_owned(), ..ClusterConfig::default() };
    let mut daemons = start_with(&bus, [gateway, rack.clone(), rack]);
    let mut probe = bus.connect("probe", None);
    probe.subscribe(Topic::Sample);
    let mut client = SocketSession::connect(&daemons[0].socket);
    let mut rolled_up = |n_current: usize| {
        until(|| {
            let rollup = client.call("rollup", &json!({}))["result"].clone();
            let nodes = rollup["nodes"].as_array()?;
            let current = nodes.iter().filter(|it| it["record"] == "current");
            (current.count() == n_current).then_some(rollup)
        })
    };
    let all = rolled_up(3);
    assert!(all["nodes"].as_array().unwrap().iter().all(|it| it["lost"] == 0), "{all}");
    // Which nodes each one has published for, until now.
    let mut published = BTreeSet::new();
    let mut take = || {
        while let Some(event) = try_event(&mut probe) {
            let BusEvent::Published { from, bytes, .. } = event else { continue };
            let json = match bytes.first() {
                Some(b'{') => bytes,
                _ => zstd::bulk::decompress(&bytes, MAX_RACK).unwrap(),
            };
            let record: Value = serde_json::from_slice(&json).unwrap();
            let of_rack = record["rack"].as_array().into_iter().flatten();
            let names = of_rack.map(|it| it["node"].as_str().unwrap().to_owned());
            published.insert((from, names.collect::<Vec<_>>().join(",")));
        }
        std::mem::take(&mut published)
    };
    let of = |from: &str, names: &str| (from.to_owned(), names.to_owned());
    let before = take();
    assert!(before.contains(&of("b", "b,c")) && before.contains(&of("a", "")), "{before:?}");
    assert!(!before.iter().any(|(from, _)| from == "c"), "{before:?}");
    daemons[1].stop();
    until(|| take().contains(&of("c", "c")).then_some(()));
    let rest = rolled_up(2);
    assert_eq!(rest["nodes"][1]["state"], "left", "{rest}");
}

fn node_request(every_ns: Option<u64>) -> Value {
    json!({"id": "m", "part": "node", "fields": ["load1"], "every_ns": every_ns,
        "targets": [{"node": "a"}, {"node": 1}, {"node": "c"}]})
}

fn statuses(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = answer["result"]["nodes"].as_array().expect("a result of each node");
    nodes.iter().map(|it| (text(&it["node"]), text(&it["status"]))).collect()
}

#[test]
fn a_request_gets_results_of_all_its_nodes() {
    let (_daemons, mut client) = net();
    let answer = client.call("monitor", &node_request(None));
    assert_eq!(answer["result"]["status"], "SUCCESS", "{answer}");
    let nodes = answer["result"]["nodes"].as_array().expect("a result of each node");
    for (node, name) in nodes.iter().zip(NAMES) {
        assert_eq!(node["node"], name);
        assert_eq!(node["event"]["sample"]["node_stats"]["load1"], 0.34, "{node}");
    }
}

#[test]
fn a_lost_node_is_reported_and_the_others_continue() {
    let (mut daemons, mut client) = net();
    let answer = client.call("monitor", &node_request(Some(50_000_000)));
    assert_eq!(answer["result"]["status"], "SUCCESS", "{answer}");
    daemons[1].stop();
    let again = json!({"replace": true});
    let mut request = node_request(Some(50_000_000));
    request.as_object_mut().expect("an object").extend(again.as_object().cloned().expect("one"));
    // Before the node knows that the other one has left, that is silent.
    let want = [("1", "NOT_FOUND"), ("a", "SUCCESS"), ("c", "SUCCESS")];
    let want = want.map(|(a, b)| (a.to_owned(), b.to_owned()));
    until(|| (statuses(&client.call("monitor", &request)) == want).then_some(()));
    let mut nodes: Vec<_> = (0..6).map(|_| client.event()["node"].clone()).collect();
    nodes.sort_by_key(ToString::to_string);
    nodes.dedup();
    assert_eq!(nodes, ["a", "c"]);
}

#[test]
fn a_client_that_disconnects_leaves_nothing_running_on_any_node() {
    let (daemons, mut client) = net();
    let _ = client.call("monitor", &node_request(Some(50_000_000)));
    let running = |daemon: &Daemon| {
        let answer = SocketSession::connect(&daemon.socket).call("list", &json!({}));
        answer["result"].as_array().expect("a list").len()
    };
    assert_eq!(daemons.iter().map(running).collect::<Vec<_>>(), [1, 1, 1]);
    drop(client);
    until(|| daemons.iter().all(|daemon| running(daemon) == 0).then_some(()));
}

#[test]
fn requests_of_tools_on_two_nodes_have_one_total_order() {
    let (daemons, mut one) = net();
    let mut other = cluster_session(&daemons[2]);
    one.call("cluster_session", &json!({}));
    assert_eq!(other.request("1 [] number_of_nodes()"), "1 [0,1,2] number_of_nodes(0,3)");
    let nodes = r#"2 [1] list_nodes(0,[0,"a",1,"b",2,"c"])"#;
    assert_eq!(one.request("2 [1] list_nodes()"), nodes);
    assert_eq!(other.request("3 [] define_user_event(9)"), "3 [0,1,2] define_user_event(0)");
    let stored = other.request("4 [1] user_event(9): 5 [0] print(\"far\"); 6 [$0] print($1)");
    assert_eq!(stored, "4 [1] user_event(0)");
    assert_eq!(other.request("7 [1] enable(4)"), "7 [1] enable(0)");
    assert_eq!(other.request("8 [1] raise_event(9,[7])"), "8 [1] raise_event(0)");
    assert_eq!(other.line().as_deref(), Some(r#"5 [0] print(0,["far"]); 6 [1] print(0,[7])"#));
    // The event belongs to the session of the other tool.
    let none = one.request("9 [1] raise_event(9,[8])");
    assert_eq!(none, "9 [1] raise_event(304,0,\"no event 9 is defined on node 1\")");
}

#[test]
fn stored_requests_of_the_cluster_are_listed_where_they_are() {
    let daemons = start_all(["", "", ""]);
    let mut tool = cluster_session(&daemons[0]);
    assert_eq!(tool.request("1 [] define_user_event(9)"), "1 [0,1,2] define_user_event(0)");
    assert_eq!(tool.request("2 [1] user_event(9): 3 [$0] print($1)"), "2 [1] user_event(0)");
    let listed = |daemon: &Daemon, session: &mut SocketSession| {
        let own = session.request("4 [0] define_user_event(8)");
        assert!(own.starts_with("4 [0] define_user_event("), "{own}");
        let own = session.request("5 [0] user_event(8): 6 [0] print($1)");
        assert!(own.starts_with("5 [0] user_event("), "{own}");
        let answer = SocketSession::connect(&daemon.socket).call("rules", &json!({}));
        let rows = answer["result"].as_array().expect("rows").clone();
        rows.iter().map(|it| (it["node"].clone(), it["id"].clone())).collect::<Vec<_>>()
    };
    let mut of_node = SocketSession::connect(&daemons[1].socket);
    let want = [(Value::Null, json!(5)), (json!("a"), json!(2))];
    assert_eq!(listed(&daemons[1], &mut of_node), want);
    let mut of_other = SocketSession::connect(&daemons[2].socket);
    assert_eq!(listed(&daemons[2], &mut of_other), [(Value::Null, json!(5))]);
}

#[test]
fn a_connection_without_cluster_session_is_one_of_its_node() {
    let (daemons, mut client) = net();
    assert_eq!(client.request("1 [] number_of_nodes()"), "1 [0] number_of_nodes(0,1)");
    let late = client.call("cluster_session", &json!({}));
    assert_eq!(late["error"]["message"], "call it before the first request", "{late}");
    let nested = r#"{"id":1,"method":"cluster_session"}"#;
    let gathered = SocketSession::connect(&daemons[0].socket)
        .call("gather", &json!({"nodes": "b", "line": nested}));
    assert_eq!(gathered["result"]["nodes"][0]["outcome"], "refused", "{gathered}");
}

#[test]
fn a_member_that_leaves_ends_its_sessions_everywhere() {
    let (mut daemons, _) = net();
    let mut tool = cluster_session(&daemons[0]);
    assert_eq!(tool.request("1 [] node_removed(): 2 [0] print($1)"), "1 [0,1,2] node_removed(0)");
    assert_eq!(tool.request("3 [0] enable(1)"), "3 [0] enable(0)");
    let mut theirs = cluster_session(&daemons[2]);
    assert_eq!(theirs.request("1 [0] define_user_event(9)"), "1 [0] define_user_event(0)");
    daemons[2].stop();
    assert_eq!(tool.line().as_deref(), Some("2 [0] print(0,[2])"));
    let lost = tool.request("4 [1,2] print(1)");
    assert_eq!(lost, "4 [1] print(0,[1]); 4 [2] print(200,0,\"no node 2: see list_nodes\")");
}

#[test]
fn a_user_controls_processes_of_another_node_only_if_that_trusts_its_node() {
    let daemons = start_all(["", "", "a"]);
    let mut tool = cluster_session(&daemons[0]);
    let replies = tool.request("1 [1,2] start(\"/bin/true\",[])");
    let (refused, done) = replies.split_once("; 1 [2] ").expect("two nodes");
    let denied = "start(400,0,\"users of the sending node may only observe here: root of this \
                  node permits more by naming it in cluster.control_from";
    assert!(refused.contains(denied) && refused.starts_with("1 [1]"), "{replies}");
    // It goes on to a user worker, which a test program is not.
    assert!(!done.contains("control_from") && done.starts_with("start("), "{replies}");
    // That node itself is not one that the third trusts.
    let mut third = cluster_session(&daemons[1]);
    let refused = third.request("1 [2] start(\"/bin/true\",[])");
    assert!(refused.contains(denied), "{refused}");
}

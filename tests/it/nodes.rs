//! A cluster of three by the script of docs/examples: a real server, a node that is killed, a
//! server that goes and comes back, and a sender that forges another node.
//!
//! What a cluster shows is awaited, not expected at once: on a machine without time for it a node
//! is removed as if it were dead, and joins again.

use crate::client::tool::examples;
use crate::deadline::{deadline, until};
use crate::root::privilege::skip;
use crate::served::{Folder, monitor};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// A request whose reply is the same on all nodes.
const REQUEST: &str = "1 [0] number_of_nodes()";

/// A cluster that ends with the test.
struct ExampleCluster {
    folder: Folder,
    /// An address of loopback that no other process has: its ports are all free, and a client that
    /// waits for the server cannot take its port.
    host: String,
}

impl ExampleCluster {
    fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let host = format!("127.{}.{middle}.{low}", 1 + (number + u32::from(high)) % 250);
        let cluster = Self { folder: Folder::new(), host };
        cluster.script(&["start"]);
        cluster
    }

    /// Runs the script, with the folder as second argument.
    #[track_caller]
    fn script(&self, words: &[&str]) {
        let log = std::fs::File::create(self.folder.join("script.log")).unwrap();
        let mut script = Command::new(examples().join("cluster.sh"));
        script.arg(words[0]).arg(self.folder.path()).args(&words[1..]);
        script.env("MONITOR", env!("CARGO_BIN_EXE_monitor")).env("BACKEND", "test");
        script.env("HOST", &self.host).env("DEADLINE", deadline().as_secs().to_string());
        for variable in ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG", "NOTIFY_SOCKET"] {
            script.env_remove(variable);
        }
        let output = log.try_clone().unwrap();
        let status = script.stdin(Stdio::null()).stdout(output).stderr(log).status().unwrap();
        assert!(status.success(), "{words:?}: {}", self.logs());
    }

    fn logs(&self) -> String {
        let names = ["script.log", "server.log", "n1/log", "n2/log", "n3/log"];
        let log = |name: &&str| {
            let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            format!("{name}:\n{text}\n")
        };
        names.iter().map(log).collect()
    }

    fn socket(&self, node: &str) -> PathBuf {
        self.folder.join(node).join("monitor.sock")
    }

    /// The output of a command of the program that asks a node.
    fn command(&self, node: &str, words: &[&str]) -> Output {
        monitor().args(words).env("MONITOR_SOCKET", self.socket(node)).output().unwrap()
    }

    /// Waits for a command that ends with this code and prints this text.
    #[track_caller]
    fn prints(&self, (node, words): (&str, &[&str]), code: i32, text: &str) {
        let mut last = String::new();
        let is_seen = || {
            let output = self.command(node, words);
            last = format!("{output:?}");
            let printed = [output.stdout, output.stderr].concat();
            let has_text = String::from_utf8_lossy(&printed).contains(text);
            (output.status.code() == Some(code) && has_text).then_some(())
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(is_seen)));
        assert!(found.is_ok(), "{words:?}: not {code} with {text:?}, last {last}\n{}", self.logs());
    }

    /// Waits until a node sees the others in these states.
    #[track_caller]
    fn sees(&self, node: &str, states: [&str; 3]) {
        let mut last = Value::Null;
        let is_seen = || {
            let output = self.command(node, &["nodes", "--format", "json"]);
            last = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let nodes = last["nodes"].as_array()?;
            let seen: Vec<_> = nodes.iter().map(|it| it["state"].as_str().unwrap()).collect();
            let are_known = nodes.iter().all(|it| it["state"] != "up" || it["status"].is_object());
            (seen == states && are_known).then_some(())
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(is_seen)));
        assert!(found.is_ok(), "{node} does not see {states:?}: {last}\n{}", self.logs());
    }

    /// Kills the process whose id is in this file.
    fn kill(&self, file: &str) {
        let pid = std::fs::read_to_string(self.folder.join(file)).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Publishes as a node, and returns what the server says of it.
    fn publish(&self, node: &str, subject: &str) -> String {
        let file = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap();
        let credentials = file(&format!("{node}/credentials"));
        let (user, password) = credentials.trim().split_once(':').unwrap();
        let config = file("server.conf");
        let port = config.lines().find_map(|line| line.strip_prefix("port: ")).unwrap();
        let stream = TcpStream::connect((self.host.as_str(), port.parse().unwrap())).unwrap();
        stream.set_read_timeout(Some(deadline())).unwrap();
        let mut reader = BufReader::new(stream);
        let connect = serde_json::json!({ "user": user, "pass": password, "verbose": false });
        let lines = format!("CONNECT {connect}\r\nPUB {subject} 0\r\n\r\nPING\r\n");
        reader.get_mut().write_all(lines.as_bytes()).unwrap();
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let is_over = reader.read_line(&mut line).unwrap() == 0 || line.starts_with("PONG");
            if is_over {
                return said;
            }
            // It may ask whether this client is alive.
            if !line.starts_with("INFO") && !line.starts_with("PING") {
                said += &line;
            }
        }
    }
}

impl Drop for ExampleCluster {
    fn drop(&mut self) {
        for file in ["n1/pid", "n2/pid", "n3/pid", "server.pid"] {
            // Those that were stopped have no file, and may have had one for a process that ended.
            let pid = std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

#[test]
fn three_nodes_survive_a_killed_node_and_a_server_that_comes_back() {
    const TEST: &str = "three_nodes_survive_a_killed_node_and_a_server_that_comes_back";
    let version = Command::new("nats-server").arg("--version").stdout(Stdio::null()).status();
    if version.is_err() {
        return skip(TEST, "no nats-server: apt install nats-server");
    }
    let cluster = ExampleCluster::start();
    NODES.iter().for_each(|node| cluster.sees(node, ["up", "up", "up"]));
    many_nodes_reply_as_one(&cluster);
    users_of_other_nodes_only_observe(&cluster);
    a_forged_sender_is_denied(&cluster);

    cluster.kill("n3/pid");
    // A node of which it is not known yet that it is dead, or that is no member any more.
    let within = ["ask", "--nodes", "n[1-3]", "--within", "2s", REQUEST];
    cluster.prints(("n1", &within), 4, "monitor: n3: ");
    cluster.sees("n1", ["up", "up", "dead"]);

    cluster.kill("server.pid");
    // Their own users are served, and a node that starts now waits for the server.
    cluster.prints(("n2", &["ask", REQUEST]), 0, "number_of_nodes(0,");
    let without_server = ["ask", "--nodes", "@*", "--within", "1s", REQUEST];
    cluster.prints(("n1", &without_server), 1, ": missing: no reply");
    cluster.script(&["node", "n3"]);
    cluster.prints(("n3", &["nodes"]), 0, "connecting");
    cluster.script(&["server"]);
    NODES.iter().for_each(|node| cluster.sees(node, ["up", "up", "up"]));

    // In order, a node is not dead but has left.
    cluster.script(&["stop"]);
}

fn many_nodes_reply_as_one(cluster: &ExampleCluster) {
    let ask = |nodes: &'static str| ["ask", "--nodes", nodes, REQUEST];
    cluster.prints(("n1", &ask("n[1-3]")), 0, "\nn[1-3] (3)\n");
    cluster.prints(("n2", &ask("@*!n3")), 0, "\nn[1-2] (2)\n");
    let refused = "n4: refused: the node is not a member of the cluster";
    cluster.prints(("n1", &ask("n[1-4]")), 4, refused);
    cluster.prints(("n1", &ask("n[1-")), 2, "a bracket is not closed");
    let json = ["ask", "--nodes", "n[2-3]", "--format", "json", REQUEST];
    cluster.prints(("n1", &json), 0, r#""nodes":"n[2-3]","#);
}

fn users_of_other_nodes_only_observe(cluster: &ExampleCluster) {
    let cancel = |nodes: &'static str| ["ask", "--nodes", nodes, r#"{"id":1,"method":"cancel"}"#];
    cluster.prints(("n1", &cancel("n2")), 0, r#""result""#);
    let refused = "n1: refused: cancel: users of other nodes may only observe";
    cluster.prints(("n2", &cancel("n1")), 1, refused);
}

fn a_forged_sender_is_denied(cluster: &ExampleCluster) {
    assert_eq!(cluster.publish("n3", "mon.hb.n3"), "");
    for subject in ["mon.cmd.n1.0", "mon.r.n1.n2", "mon.hb.n1", "mon.cmd.n1.removed"] {
        let said = cluster.publish("n3", subject);
        let want = format!("-ERR 'Permissions Violation for Publish to \"{subject}\"'");
        assert_eq!(said.trim(), want);
    }
}

//! The cluster of docs/examples/cluster.sh, and what its nodes are waited for.

use crate::client::tool::examples;
use crate::deadline::{deadline, until};
#[cfg(feature = "tls")]
use crate::listener::files_listen;
use crate::root::privilege::skip;
use crate::served::{Folder, monitor};
use crate::socket_session::SocketSession;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// A request whose reply is the same on all nodes.
pub const REQUEST: &str = "1 [0] number_of_nodes()";

/// Whether there is a server; prints a skip if not.
pub fn has_server(test: &str) -> bool {
    let is_there = Command::new("nats-server").arg("--version").output().is_ok();
    if !is_there {
        skip(test, "no nats-server: apt install nats-server");
    }
    is_there
}

/// A cluster that ends with the test.
pub struct ExampleCluster {
    pub folder: Folder,
    /// An address of loopback that no other process has: its ports are all free, and a client that
    /// waits for the server cannot take its port.
    pub host: String,
}

impl ExampleCluster {
    pub fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let host = format!("127.{}.{middle}.{low}", 1 + (number + u32::from(high)) % 250);
        let cluster = Self { folder: Folder::in_memory(), host };
        cluster.script(&["start"]);
        cluster
    }

    /// Runs the script, with the folder as second argument.
    #[track_caller]
    pub fn script(&self, words: &[&str]) {
        self.script_with("test", words);
    }

    /// The same; what it starts reads processes with this backend.
    #[track_caller]
    pub fn script_with(&self, backend: &str, words: &[&str]) {
        let log = std::fs::File::create(self.folder.join("script.log")).unwrap();
        let mut script = Command::new(examples().join("cluster.sh"));
        script.arg(words[0]).arg(self.folder.path()).args(&words[1..]);
        script.env("MONITOR", env!("CARGO_BIN_EXE_monitor")).env("BACKEND", backend);
        #[cfg(feature = "tls")]
        script.env("FILES_n1", files_config("server")).env("FILES_n2", files_config("client"));
        script.env("HOST", &self.host).env("DEADLINE", deadline().as_secs().to_string());
        for variable in ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG", "NOTIFY_SOCKET"] {
            script.env_remove(variable);
        }
        let output = log.try_clone().unwrap();
        let status = script.stdin(Stdio::null()).stdout(output).stderr(log).status().unwrap();
        assert!(status.success(), "{words:?}: {}", self.logs());
    }

    fn logs(&self) -> String {
        let names = ["script.log", "server.log", "nodes/n1/log", "nodes/n2/log", "nodes/n3/log"];
        let log = |name: &&str| {
            let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            format!("{name}:\n{text}\n")
        };
        names.iter().map(log).collect()
    }

    pub fn socket(&self, node: &str) -> PathBuf {
        self.folder.join("nodes").join(node).join("monitor.sock")
    }

    /// The output of a command of the program that asks a node.
    pub fn command(&self, node: &str, words: &[&str]) -> Output {
        monitor().args(words).env("MONITOR_SOCKET", self.socket(node)).output().unwrap()
    }

    /// The command that checks the links of a node.
    pub fn doctor(&self, node: &str) -> [String; 4] {
        let config = self.folder.join("nodes").join(node).join("monitor.toml");
        let words = ["cluster", "doctor", "--config"].map(str::to_owned);
        let [first, second, third] = words;
        [first, second, third, config.display().to_string()]
    }

    /// Waits for a command that ends with this code and prints this text.
    #[track_caller]
    pub fn prints(&self, (node, words): (&str, &[&str]), code: i32, text: &str) {
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
    pub fn sees(&self, node: &str, states: [&str; 3]) {
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

    /// The roll-up of the gateway that fulfils a condition.
    #[track_caller]
    pub fn rolled_up(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut client = SocketSession::connect(&self.socket("n1"));
        let mut last = Value::Null;
        let is_seen = || {
            last = client.call("rollup", &json!({}));
            is_wanted(&last["result"]).then(|| last["result"].clone())
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(is_seen)));
        found.unwrap_or_else(|_| panic!("{last}\n{}", self.logs()))
    }

    /// Kills the process whose id is in this file.
    pub fn kill(&self, file: &str) {
        let pid = std::fs::read_to_string(self.folder.join(file)).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

impl Drop for ExampleCluster {
    fn drop(&mut self) {
        for file in ["nodes/n1/pid", "nodes/n2/pid", "nodes/n3/pid", "server.pid"] {
            // Those that were stopped have no file, and may have had one for a process that ended.
            let pid = std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// The keys of `files` of a node that serves its files with TLS.
#[cfg(feature = "tls")]
fn files_config(certificate: &str) -> String {
    format!("tls = \"127.0.0.1:0\"\n{}", files_listen::certificate(certificate))
}

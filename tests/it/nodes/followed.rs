//! Commands that go on: what they print of many nodes, and what is left on nodes when they end.

use super::example_cluster::{ExampleCluster, NODES};
use crate::deadline::until;
use crate::served::{Folder, monitor};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A command that goes on, with what it prints in files.
pub struct Followed {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    /// Bytes of the output that do not count any longer.
    seen: usize,
}

impl Followed {
    pub fn start(cluster: &ExampleCluster, node: &str, words: &[&str]) -> Self {
        Self::run((&cluster.folder, &cluster.socket(node)), words)
    }

    /// A command that asks the service of a socket; what it prints is in files of the folder.
    pub fn run((folder, socket): (&Folder, &Path), words: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let files = ["out", "err"].map(|end| folder.join(&format!("command-{number}.{end}")));
        let [to, errors_to] = files.each_ref().map(|path| std::fs::File::create(path).unwrap());
        let [output, errors] = files;
        let mut command = monitor();
        command.args(words).env("MONITOR_SOCKET", socket);
        let child = command.stdin(Stdio::null()).stdout(to).stderr(errors_to).spawn().unwrap();
        Self { child, output, errors, seen: 0 }
    }

    pub fn rows(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }

    pub fn has_row_of(&self, node: &str) -> bool {
        self.rows()[self.seen..].contains(&format!(r#""node":"{node}""#))
    }

    pub fn forget_rows(&mut self) {
        self.seen = self.rows().len();
    }

    #[track_caller]
    pub fn prints_until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let seen = || is_true(self).then_some(());
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(seen)));
        assert!(found.is_ok(), "no {what}: {}{}", self.rows(), self.errors());
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end, and returns its exit code.
    #[track_caller]
    pub fn code(&mut self) -> Option<i32> {
        until(|| self.child.try_wait().unwrap()).code()
    }

    /// Whether a node has stored its rule, which is for this event, and has enabled it.
    pub fn is_watching(&self, cluster: &ExampleCluster, (node, event): (&str, &str)) -> bool {
        let rules = r#"{"id":1,"method":"rules"}"#;
        let rules = cluster.command("n1", &["ask", "--nodes", node, rules]).stdout;
        let rules = String::from_utf8_lossy(&rules).into_owned();
        rules.contains(event) && rules.contains(r#""enabled":true"#)
    }

    /// Interrupts it, and returns what it has printed on standard error.
    pub fn interrupt(&mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{}", self.errors());
        self.errors()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A watch of a set in a format.
pub const fn watch(nodes: &'static str, form: &'static str) -> [&'static str; 11] {
    let every = "50ms";
    let (top, fields) = ("1", "pid,rss_bytes");
    [
        "watch", "--nodes", nodes, "--every", every, "--format", form, "--top", top, "--fields",
        fields,
    ]
}

pub fn samples_of_many_nodes_follow_each_other(cluster: &ExampleCluster) {
    let twice = |nodes, form| [&watch(nodes, form)[..], &["--count", "2"]].concat();
    cluster.prints(("n2", &twice("n[1-3]", "csv")), 0, "monitor: n[1-3]: 2 samples\n");
    cluster.prints(("n2", &twice("@*", "csv")), 0, "monitor: 3 nodes: 6 samples\n");
    cluster.prints(("n2", &twice("n[1-3]", "table")), 0, "3 nodes  ");
    let output = cluster.command("n2", &twice("n[1-3]", "csv"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for node in NODES {
        let n_rows = text.lines().filter(|line| line.split(',').nth(1) == Some(node)).count();
        assert_eq!(n_rows, 2, "{node}: {output:?}");
    }
    let refused = "monitor: n4: refused: the node is not a member of the cluster";
    cluster.prints(("n1", &twice("n[1-4]", "csv")), 4, refused);
    cluster.prints(("n1", &twice("n4", "csv")), 1, refused);
    cluster.prints(("n1", &twice("n[1-", "csv")), 2, "a bracket is not closed");
    let lease = r#"{"id":1,"method":"monitor","params":{"every_ns":1000000,"lease_ns":1}}"#;
    let forged = format!(r#"{{"id":1,"method":"follow","params":{{"lines":[{lease:?}]}}}}"#);
    cluster.prints(
        ("n1", &["ask", "--nodes", "n2", &forged]),
        1,
        "a command sends no further ones",
    );
}

pub fn each_node_has_a_recording(cluster: &ExampleCluster) {
    let file = cluster.folder.join("run.rec");
    let file = file.to_str().unwrap();
    let words = ["record", file, "all", "--nodes", "n[1-3]", "--every", "50ms", "--count", "3"];
    let output = cluster.command("n1", &words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && errors.contains("run.rec.n[1-3]: 3 samples, "), "{errors}");
    for node in NODES {
        let words = ["replay", &format!("{file}.{node}"), "--format", "json"];
        let output = cluster.command("n1", &words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let samples: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(samples.len(), 3, "{output:?}");
        assert!(samples.iter().all(|it| it["node"] == node), "{text}");
    }
    // A file that exists is kept.
    cluster.prints(("n1", &words), 2, "run.rec.n");
    let only = ["record", file, "proc", "--nodes", "n1"];
    cluster.prints(("n1", &only), 2, "record all or node");
}

pub fn nodes_keep_a_monitor_until_it_is_cancelled(cluster: &ExampleCluster) {
    let start = ["start", "kept", "--every", "20ms", "--detach", "--top", "1", "--nodes", "n[1-3]"];
    let printed = |node: &str, words: &[&str]| {
        let output = cluster.command(node, words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = printed("n2", &start);
    assert!(text.contains("n[1-3]: refused: monitor: a series that is left there"), "{text}");
    assert_eq!(code, Some(1));
    let (code, text) = printed("n1", &start);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("monitor \"kept\" reads every 20ms on n[1-3]; "), "{text}");
    cluster.prints(("n1", &["list", "--nodes", "@*"]), 0, "\nkept ");
    for node in NODES {
        let line = format!("{node}: kept #");
        cluster.prints(("n1", &["events", "kept", "--nodes", "n[1-3]"]), 0, &line);
    }
    let follow = ["events", "kept", "--follow", "--for", "300ms"];
    let json = [&follow[..], &["--format", "json", "--nodes", "n3"]].concat();
    cluster.prints(("n1", &json), 0, "\"node\":\"n3\"");
    let (code, text) = printed("n1", &["cancel", "kept", "--nodes", "@*"]);
    assert_eq!((code, text.as_str()), (Some(0), "n[1-3]: kept\n"));
    cluster.prints(("n1", &["cancel", "kept", "--nodes", "n3"]), 1, "you have no monitor \"kept\"");
}

pub fn a_monitor_with_a_name_is_that_of_each_node(cluster: &ExampleCluster) {
    let words = ["start", "named", "--every", "20ms", "--count", "2", "--top", "1"];
    let series = [&words[..], &["--nodes", "n[1-3]", "--format", "json"]].concat();
    // A node whose users only observe here may do that too.
    let output = cluster.command("n2", &series);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let count = |node: &str| text.matches(&format!("\"node\":\"{node}\"")).count();
    assert_eq!(NODES.map(count), [2; 3], "{text}");
    let replacing = [&series[..], &["--replace"]].concat();
    cluster.prints(("n2", &replacing), 1, "a series that replaces another one changes the node");
    cluster.prints(("n1", &replacing), 0, "\"node\":\"n3\"");
    // While it runs, the nodes list it.
    let mut endless = Followed::start(cluster, "n1", &[&words[..4], &["--nodes", "n3"]].concat());
    until(|| {
        let listed = cluster.command("n3", &["list"]);
        String::from_utf8_lossy(&listed.stdout).contains("named ").then_some(())
    });
    endless.child.kill().unwrap();
    endless.child.wait().unwrap();
}

pub fn what_a_node_executes_ends_with_the_tool(cluster: &ExampleCluster) {
    let list = |text: &str| cluster.prints(("n2", &["list", "--format", "json"]), 0, text);
    let series = r#""period_ns":50000000"#;
    let mut watch = Followed::start(cluster, "n1", &watch("n2", "json"));
    list(series);
    let pid = rustix::process::Pid::from_child(&watch.child);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    watch.child.wait().unwrap();
    until(|| {
        let listed = cluster.command("n2", &["list", "--format", "json"]);
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        (listed.status.success() && !text.contains(series)).then_some(())
    });
}

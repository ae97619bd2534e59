//! Processes that migrate between nodes of their own processes, and services that are killed
//! meanwhile.
//!
//! A process counts in a file, to which it adds each number. Where two copies had run, a number
//! would be there twice; where one had run before its images were complete, one would be missing.

use super::namespace_cluster::{Namespaces, can_start};
use crate::deadline::until;
use crate::root::privilege::skip;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Each test has its own folder, so its file is that of one process.
const COUNTS: &str = "
import os, sys, time
os.closerange(3, 1024)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
number = 0
while True:
    number += 1
    os.write(file, b'%d\\n' % number)
    time.sleep(0.002)
";
/// Rounds with kills; more are set by the soak.
const ROUNDS: &str = "MONITOR_MIGRATION_ROUNDS";

/// The folder with the CRIU of `cargo xtask criu`, if it works on this kernel.
fn criu(test: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("criu");
    let check = Command::new(folder.join("criu")).arg("check").output();
    match check {
        Ok(output) if output.status.success() => Some(folder),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            skip(test, &format!("CRIU does not work here: {why}"));
            None
        }
        Err(_) => {
            skip(test, "no CRIU in target/criu: cargo xtask criu");
            None
        }
    }
}

/// A process that counts.
struct Counter<'a> {
    nodes: &'a Namespaces,
    file: PathBuf,
    pid: u32,
}

impl<'a> Counter<'a> {
    /// With a pid that no other node has.
    fn start(nodes: &'a Namespaces, node: &str, name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1000);
        Self::start_after(nodes, (node, NEXT.fetch_add(50, Ordering::Relaxed)), name)
    }

    /// With the pid after this one.
    fn start_after(nodes: &'a Namespaces, (node, pid): (&str, u32), name: &str) -> Self {
        let (program, file) = (nodes.folder.join("counts.py"), nodes.folder.join(name));
        std::fs::write(&program, COUNTS).unwrap();
        let script = format!(
            "cd /; echo {pid} > /proc/sys/kernel/ns_last_pid
            setsid /usr/bin/python3 {} {} > /dev/null 2>&1 < /dev/null & echo $!",
            program.display(),
            file.display()
        );
        let output = nodes.script(&["enter", node, "sh", "-c", &script]).output().unwrap();
        let pid = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        let it = Self { nodes, file, pid };
        it.goes_on();
        it
    }

    /// The numbers that it has written.
    fn numbers(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |it| it.0);
        whole.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until it has counted on, each number once.
    #[track_caller]
    fn goes_on(&self) {
        let before = self.numbers().len();
        let numbers = until(|| Some(self.numbers()).filter(|it| it.len() > before + 10));
        let all = 1..=numbers.len() as u64;
        assert!(numbers.iter().copied().eq(all), "a number is missing, or there twice");
    }

    /// The nodes that it runs on.
    fn places(&self) -> Vec<&'static str> {
        let has_it = |node: &&'static str| {
            let name = format!("{}$", self.file.display());
            let mut look = self.nodes.script(&["enter", node, "pgrep", "-f", &name]);
            look.stdin(Stdio::null()).output().unwrap().status.success()
        };
        ["n1", "n2", "n3"].into_iter().filter(has_it).collect()
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        for node in ["n1", "n2", "n3"] {
            let name = format!("{}$", self.file.display());
            let _ = self.nodes.script(&["enter", node, "pkill", "-9", "-f", &name]).status();
        }
    }
}

/// The migrations that a node lists; `None` while its service does not reply.
fn listed(nodes: &Namespaces, node: &str) -> Option<Vec<Value>> {
    let output = nodes.command_of(node, &["migrate", "--list", "--format", "json"]).output();
    let list: Value = serde_json::from_slice(&output.unwrap().stdout).ok()?;
    list["migrations"].as_array().cloned()
}

/// Whether both nodes know where each process runs.
fn is_decided(nodes: &Namespaces) -> bool {
    let is_open = |it: &Value| {
        let state = it["state"].as_str().unwrap_or_default();
        !matches!(state, "committed" | "aborted" | "running" | "dropped")
    };
    ["n1", "n2"].iter().all(|node| listed(nodes, node).is_some_and(|it| !it.iter().any(is_open)))
}

#[test]
fn root_a_process_goes_on_on_another_node_or_stays() {
    const TEST: &str = "root_a_process_goes_on_on_another_node_or_stays";
    let Some(criu) = criu(TEST).filter(|_| can_start(TEST)) else { return };
    let nodes = Namespaces::start(&[&criu]);
    let migrate = |pid: &str, to: &str| {
        let output = nodes.command(&["migrate", pid, "--to", to]);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let counter = Counter::start(&nodes, "n1", "count");
    let pid = counter.pid.to_string();
    // It is asked for before the process is frozen.
    let (code, text) = migrate(&pid, "n9");
    assert!(code == 1 && text.contains("n9: the node is not a member"), "{code}: {text}");
    let (code, text) = migrate(&pid, "n1");
    assert!(code == 2 && text.contains("is on n1 already"), "{code}: {text}");
    let (code, text) = migrate("999999", "n2");
    assert!(code == 6 && text.contains("no process 999999"), "{code}: {text}");
    // A user that is not root.
    let program = env!("CARGO_BIN_EXE_monitor");
    let socket = nodes.folder.join("nodes/n1/monitor.sock").display().to_string();
    let words = ["enter", "n1", "setpriv", "--reuid", "65534", "--clear-groups", "--", program];
    let words = [&words[..], &["migrate", &pid, "--to", "n2", "--socket", &socket]].concat();
    for folder in ["", "nodes", "nodes/n1"] {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(nodes.folder.join(folder), open).unwrap();
    }
    let refused = nodes.script(&words).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    let code = refused.status.code();
    assert!(code == Some(5) && text.contains("user 65534 migrates no processes"), "{text}");
    counter.goes_on();

    // Once: a second migration at the same time is refused, whichever comes first.
    let mut second = nodes.command_of("n1", &["migrate", &pid, "--to", "n3"]);
    let second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (code, text) = migrate(&pid, "n3");
    let second = second.wait_with_output().unwrap();
    let other = [second.stdout, second.stderr].concat();
    let other = String::from_utf8(other).unwrap();
    let n_done = [&text, &other].iter().filter(|it| it.contains("runs on n3")).count();
    assert_eq!(n_done, 1, "{code}: {text}{other}");
    assert_eq!(counter.places(), ["n3"]);
    counter.goes_on();

    let counter = Counter::start(&nodes, "n1", "count-again");
    let pid = counter.pid.to_string();
    let (code, text) = migrate(&pid, "n2");
    assert!(code == 0 && text.contains("runs on n2, frozen for "), "{code}: {text}");
    assert_eq!(counter.places(), ["n2"]);
    counter.goes_on();
    assert_eq!(listed(&nodes, "n1").unwrap().len() + listed(&nodes, "n2").unwrap().len(), 0);

    // This node lets no users of n2 control its processes.
    let of_n2 = Counter::start(&nodes, "n2", "count-n2");
    let words = ["migrate", &of_n2.pid.to_string(), "--to", "n1"];
    let foreign = nodes.command_of("n2", &words).output().unwrap();
    let text = String::from_utf8(foreign.stderr).unwrap();
    assert!(text.contains("cluster.control_from"), "{text}");
    of_n2.goes_on();

    // A pid that another process has: nothing is frozen, and nothing moves.
    let others = [("n1", "other"), ("n2", "same")];
    let others = others.map(|(node, name)| Counter::start_after(&nodes, (node, 900), name));
    let (code, text) = migrate(&others[0].pid.to_string(), "n2");
    assert!(code == 1 && text.contains("another process of this node has the pid 901"), "{text}");
    others.iter().for_each(Counter::goes_on);
    counter.goes_on();
}

#[test]
fn root_one_copy_runs_whatever_is_killed() {
    const TEST: &str = "root_one_copy_runs_whatever_is_killed";
    let Some(criu) = criu(TEST).filter(|_| can_start(TEST)) else { return };
    let nodes = Namespaces::start(&[&criu]);
    let rounds = std::env::var(ROUNDS).ok().and_then(|it| it.parse().ok()).unwrap_or(8_usize);
    let mut ended = [0, 0];
    for round in 0..rounds {
        let counter = Counter::start(&nodes, "n1", &format!("count-{round}"));
        let pid = counter.pid.to_string();
        let mut command = nodes.command_of("n1", &["migrate", &pid, "--to", "n2"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut command = command.spawn().unwrap();
        let (node, state) = STEPS[round % STEPS.len()];
        // The command ends first if the step was missed.
        until(|| {
            let is_there = nodes.has_written(node, state);
            (is_there || command.try_wait().unwrap().is_some()).then_some(())
        });
        // Each of the two, and both.
        let killed: &[&str] = [&["n1"][..], &["n2"], &["n1", "n2"]][round / STEPS.len() % 3];
        killed.iter().for_each(|node| nodes.run(&["kill", node]));
        killed.iter().for_each(|node| nodes.run(&["serve", node]));
        command.wait().unwrap();
        until(|| is_decided(&nodes).then_some(()));
        let places = counter.places();
        let [place] = places[..] else {
            panic!("{state} on {node}, killed {killed:?}: {places:?}")
        };
        ended[usize::from(place == "n2")] += 1;
        counter.goes_on();
    }
    println!("{rounds} rounds: {} stayed, {} migrated", ended[0], ended[1]);
}

/// The states at which services are killed, and the node that writes each down.
const STEPS: [(&str, &str); 8] = [
    ("n1", "dumping"),
    ("n1", "sent"),
    ("n2", "restoring"),
    ("n2", "restored"),
    ("n1", "deciding"),
    ("n2", "running"),
    ("n1", "committed"),
    ("n1", "aborting"),
];

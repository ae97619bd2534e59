//! One rule on three nodes, each with processes of its own, that fires once: when all of them
//! together have more than a number of events.

use super::followed::Followed;
use super::namespace_cluster::{Namespaces, can_start};
use crate::deadline::until;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The name of the processes.
const NAME: &str = "it-total";

/// A process of a node: it reads its standard input, and exits when that ends.
struct NodeProcess(Child);

impl NodeProcess {
    fn start(nodes: &Namespaces, node: &str, program: &Path) -> Self {
        let mut script = nodes.script(&["enter", node, program.to_str().unwrap()]);
        Self(script.stdin(Stdio::piped()).spawn().unwrap())
    }

    /// Ends it; its event follows.
    fn end(&mut self) {
        drop(self.0.stdin.take());
    }

    /// The signal that ended it.
    fn signal(&mut self) -> Option<i32> {
        until(|| self.0.try_wait().unwrap()).signal()
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.end();
        let _ = self.0.wait();
    }
}

/// Three nodes, and what is started on them.
struct Site {
    nodes: Namespaces,
    program: PathBuf,
}

impl Site {
    fn start(&self, node: &str) -> NodeProcess {
        NodeProcess::start(&self.nodes, node, &self.program)
    }

    /// Waits until the nodes together have this many of the processes.
    #[track_caller]
    fn has(&self, n: usize) {
        let words = ["sample", "--nodes", "@*", "--fields", "pid,comm", "--format", "csv"];
        until(|| {
            let output = self.nodes.command(&words);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let n_seen = text.lines().filter(|line| line.ends_with(NAME)).count();
            (n_seen == n).then_some(())
        });
    }

    /// A rule on the ends of the processes, asked at a node.
    fn rule(&self, node: &str, words: &[&str]) -> Followed {
        let rule = ["when", "end", "--comm", NAME, "--nodes", "@*"];
        let words = [&rule, words].concat();
        Followed::run((&self.nodes.folder, &self.nodes.socket(node)), &words)
    }

    /// Waits until each node has this many rules, all of them enabled.
    #[track_caller]
    fn watches(&self, n: usize) {
        let call = r#"{"id":1,"method":"rules"}"#;
        for node in ["n1", "n2", "n3"] {
            until(|| {
                let output = self.nodes.command(&["ask", "--nodes", node, call]);
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let is_so = text.matches("process_terminated").count() == n
                    && text.matches(r#""enabled":true"#).count() == n;
                is_so.then_some(())
            });
        }
    }
}

/// What a rule has printed, as JSON.
fn objects(rule: &Followed) -> Vec<Value> {
    rule.rows().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn root_a_total_over_nodes_fires_once() {
    const TEST: &str = "root_a_total_over_nodes_fires_once";
    if !can_start(TEST) {
        return;
    }
    let nodes = Namespaces::start(&[]);
    let program = nodes.folder.join(NAME);
    std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
    let site = Site { nodes, program };
    two_nodes_pass_the_total_together(&site);
    a_signal_goes_to_the_processes_of_all_nodes(&site);
    a_lost_node_makes_a_total_the_least(&site);
}

fn two_nodes_pass_the_total_together(site: &Site) {
    let mut at_nodes = ["n1", "n2", "n3"].map(|node| [site.start(node), site.start(node)]);
    site.has(6);
    let mut all = site.rule("n1", &["print", "--format", "json"]);
    let mut once = site.rule("n2", &["--total-above", "2", "--format", "json"]);
    site.watches(2);
    at_nodes[0][0].end();
    at_nodes[1][0].end();
    all.prints_until("two events", |all| objects(all).len() == 2);
    assert!(once.is_running() && once.rows().is_empty(), "{}", once.rows());
    at_nodes[1][1].end();
    at_nodes[2][0].end();
    assert_eq!(once.code(), Some(0), "{}", once.errors());
    let found = objects(&once);
    let [event, total] = &found[..] else { panic!("{found:?}") };
    assert_eq!(event["event"], "end", "{event}");
    assert_eq!((&total["event"], &total["total"]), (&json!("total"), &json!(3)), "{total}");
    assert_eq!((&total["above"], &total["is_complete"]), (&json!(2), &json!(true)), "{total}");
    let events = total["nodes"].as_array().unwrap().iter().map(|it| it["events"].as_u64().unwrap());
    assert_eq!(events.sum::<u64>(), 3, "{total}");
    all.prints_until("four events", |all| objects(all).len() == 4);
    let errors = all.interrupt();
    assert!(errors.contains("monitor: 3 nodes: 4 events\n"), "{errors}");

    // What does not happen in time has a code of its own.
    let mut never = site.rule("n1", &["--total-above", "7", "--for", "200ms"]);
    assert_eq!((never.code(), never.rows().as_str()), (Some(124), ""), "{}", never.errors());
    assert!(never.errors().contains(" 0, not above 7\n"), "{}", never.errors());
}

fn a_signal_goes_to_the_processes_of_all_nodes(site: &Site) {
    let mut first = site.start("n3");
    let mut second = site.start("n1");
    let mut others = ["n1", "n2", "n2", "n3"].map(|node| site.start(node));
    site.has(6);
    // No node permits control by users of n2.
    let mut denied = site.rule("n2", &["kill TERM", "--total-above", "0"]);
    site.watches(1);
    first.end();
    assert_eq!(denied.code(), Some(5), "{}", denied.errors());
    let errors = denied.errors();
    assert!(errors.contains("n[1-3]: refused: ") && errors.contains("control_from"), "{errors}");
    assert_eq!(denied.rows(), "total 1, above 0\nsent SIGTERM to no process\n");
    site.has(5);
    let mut fires = site.rule("n1", &["kill TERM", "--total-above", "0"]);
    site.watches(1);
    second.end();
    assert_eq!(fires.code(), Some(0), "{}", fires.errors());
    // The one that has ended may be there as a zombie.
    let rows = fires.rows();
    assert!(rows.starts_with("total 1, above 0\nsent SIGTERM to "), "{rows}");
    assert!(rows.ends_with(" processes on n[1-3]\n"), "{rows}");
    others.iter_mut().for_each(|it| assert_eq!(it.signal(), Some(15)));
    site.has(0);
}

fn a_lost_node_makes_a_total_the_least(site: &Site) {
    let mut far = site.start("n3");
    let mut near = ["n1", "n2"].map(|node| site.start(node));
    site.has(3);
    let all = site.rule("n1", &["print", "--format", "json"]);
    let mut rule = site.rule("n1", &["--total-above", "2"]);
    site.watches(2);
    far.end();
    near[0].end();
    all.prints_until("two events", |all| objects(all).len() == 2);
    // A reply of each node comes after its events.
    site.has(1);
    site.nodes.run(&["cut", "n3"]);
    site.nodes.see(["up", "up", "dead"]);
    site.nodes.run(&["join", "n3"]);
    site.nodes.see(["up", "up", "up"]);
    rule.prints_until("n3 again", |rule| rule.errors().contains("n3: is followed again"));
    site.watches(2);
    // The event of n3 counts once, though its rule was stored twice.
    assert!(rule.is_running(), "{}", rule.rows());
    near[1].end();
    assert_eq!(rule.code(), Some(4), "{}", rule.errors());
    assert!(rule.rows().ends_with("\ntotal at least 3, above 2\n"), "{}", rule.rows());
    let errors = rule.errors();
    assert!(errors.contains("3 nodes: at least 3 events"), "{errors}");
    assert!(errors.contains("n3: at least 1 event\n"), "{errors}");
}

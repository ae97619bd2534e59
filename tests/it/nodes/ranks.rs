//! One job of many nodes: its table, and what acts on its ranks.

use super::example_cluster::ExampleCluster;
use super::followed::Followed;
use crate::deadline::until;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};

/// Processes that are the ranks of a job; they end with the test.
pub struct Ranks(Vec<Child>);

impl Ranks {
    /// They execute this file, which they also have their name from.
    pub fn start(job: &str, program: &std::path::Path) -> Self {
        std::os::unix::fs::symlink("/bin/sleep", program).unwrap();
        Self((0..2).map(|number| start_rank(job, program, (number, "600"))).collect())
    }

    /// The process of each rank.
    pub fn pids(&self) -> [u32; 2] {
        [self.0[0].id(), self.0[1].id()]
    }

    fn wait_for_state(&self, state: char) {
        for rank in &self.0 {
            let path = format!("/proc/{}/stat", rank.id());
            let sought = format!(") {state} ");
            until(|| std::fs::read_to_string(&path).unwrap().contains(&sought).then_some(()));
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

/// A rank that sleeps for a time, in seconds.
fn start_rank(job: &str, program: &std::path::Path, (number, seconds): (u32, &str)) -> Child {
    let mut rank = Command::new(program);
    rank.arg(seconds).env("PMIX_NAMESPACE", job).env("PMIX_RANK", number.to_string());
    rank.spawn().unwrap()
}

/// Only n3 sees the processes, and users of n1 may control them.
pub fn ranks_on_nodes_are_those_of_one_job(cluster: &ExampleCluster) {
    let job = format!("it-nodes-{}", std::process::id());
    let ranks = Ranks::start(&job, &cluster.folder.join("it-nodes-rank"));
    let verb = |words: &[&'static str]| -> Vec<String> {
        let words = words.iter().map(|it| (*it).to_owned());
        ["job".to_owned()].into_iter().chain(words).chain(["--nodes".into(), "@*".into()]).collect()
    };
    let prints = |node: &str, words: &[String], code, text: &str| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cluster.prints((node, &words), code, text);
    };
    let on = |words: &[&'static str], name: &str| -> Vec<String> {
        let mut all = verb(&words[..1]);
        all.insert(2, name.to_owned());
        all.extend(words[1..].iter().map(|it| (*it).to_owned()));
        all
    };
    let some = format!("{job}:1");
    prints("n2", &on(&["show", "--for", "50ms"], &job), 0, "2 ranks on n3, measured over ");
    prints("n2", &on(&["show", "--for", "50ms"], &job[..9]), 0, "\nRANK NODE ");
    let list = ["job", "list", "--nodes", "@*", "--format", "csv"].map(str::to_owned);
    prints("n2", &list, 0, ",n3,1,2,");
    prints("n2", &on(&["stacks"], &job), 5, "monitor: n3: refused: ");
    prints("n1", &on(&["stacks"], &job), 0, "2 ranks on n3\n");
    prints("n1", &on(&["stacks", "--format", "json"], &some), 0, "\"node\":\"n3\"");
    prints("n1", &on(&["calls", "--for", "50ms"], &job), 2, "1 to 55 whole seconds");
    prints("n1", &on(&["calls", "--for", "1s"], &job), 1, "calls are measured by eBPF only");
    prints("n2", &on(&["show"], "it-no-such"), 6, "no job \"it-no-such\" on these nodes");
    let why = "monitor: n3: refused: users of the sending node may only observe here: root of this \
               node permits more by naming it in cluster.control_from\n";
    prints("n2", &on(&["hold"], &job), 5, why);
    prints("n1", &on(&["hold"], &job), 0, &format!("job {job}: held ranks 0-1 on n3\n"));
    ranks.wait_for_state('T');
    prints("n1", &on(&["release"], &some), 0, &format!("job {job}: released rank 1 on n3\n"));
    prints("n1", &on(&["release"], &job), 0, &format!("job {job}: released ranks 0-1 on n3\n"));
    ranks.wait_for_state('S');
    let rule = ["when", "end", "--comm", "it-nodes-rank", "--nodes", "n3", "--lines", "2"];
    let when = Followed::start(cluster, "n1", &rule);
    until(|| when.is_watching(cluster, ("n3", "process_terminated")).then_some(()));
    prints("n1", &on(&["end"], &job), 0, &format!("job {job}: sent SIGTERM to ranks 0-1 on n3\n"));
    when.prints_until("ends of both", |when| {
        let is_printed = |rank: &Child| when.rows().contains(&format!(" {} ended", rank.id()));
        ranks.0.iter().all(is_printed) && when.errors().contains("monitor: n3: 2 events\n")
    });
}

/// The job is on n3 alone: the other nodes have nothing to count, and nothing to do.
pub fn a_total_of_a_job_acts_on_its_ranks(cluster: &ExampleCluster) {
    let job = format!("it-total-{}", std::process::id());
    let mut ranks = Ranks::start(&job, &cluster.folder.join("it-total-rank"));
    let once = ["--job", &job, "--nodes", "n[2-3]", "--total-above", "0", "--format", "json"];
    let mut when =
        Followed::start(cluster, "n1", &[&["when", "end", "kill TERM"], &once[..]].concat());
    until(|| when.is_watching(cluster, ("n3", "process_terminated")).then_some(()));
    assert_eq!(when.rows(), "");
    ranks.0[0].kill().unwrap();
    assert_eq!(ranks.0[1].wait().unwrap().signal(), Some(15), "{}", when.errors());
    assert_eq!(when.code(), Some(0), "{}", when.errors());
    let rows = when.rows();
    let objects: Vec<serde_json::Value> =
        rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [total, signalled] = &objects[..] else { panic!("{rows}") };
    assert_eq!((&total["total"], &total["is_complete"]), (&json!(1), &json!(true)), "{rows}");
    assert_eq!((&signalled["nodes"], &signalled["missing"]), (&json!("n3"), &json!([])), "{rows}");
    let rule = |job: &str| ["when", "end", "--job", job, "--nodes", "n3"].map(str::to_owned);
    let prints = |job: &str, code, text: &str| {
        let words = rule(job);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cluster.prints(("n1", &words), code, text);
    };
    prints("it-no-such", 6, "no job \"it-no-such\" on these nodes");
    prints(&format!("{job}:0"), 2, "name it without ranks");
}

/// Two ranks are there when the rule begins, and others start then, also in the place of one that
/// has ended.
pub fn a_rank_that_starts_later_is_watched(cluster: &ExampleCluster) {
    let job = format!("it-late-{}", std::process::id());
    let program = cluster.folder.join("it-late-rank");
    let mut ranks = Ranks::start(&job, &program);
    let rule = ["when", "end", "--job", &job, "--nodes", "n[2-3]"];
    let when = Followed::start(cluster, "n1", &rule);
    until(|| when.is_watching(cluster, ("n3", "process_terminated")).then_some(()));
    let is_printed = |pid: u32| when.rows().contains(&format!(" {pid} ended"));
    ranks.0[1].kill().unwrap();
    when.prints_until("end of a rank", |_| is_printed(ranks.0[1].id()));
    // Of one that is gone before the node has looked for it, nothing is seen.
    for number in [1, 7] {
        let mut late = Vec::new();
        until(|| {
            let mut rank = start_rank(&job, &program, (number, "0.5"));
            let status = rank.wait().unwrap();
            assert!(status.success(), "{status}");
            late.push(rank.id());
            late.iter().any(|pid| is_printed(*pid)).then_some(())
        });
    }
    // The job of another name is not meant.
    let other = format!("{job}-other");
    let mut other = start_rank(&other, &program, (0, "1"));
    let _ = other.wait();
    ranks.0[0].kill().unwrap();
    when.prints_until("end of the last one", |_| is_printed(ranks.0[0].id()));
    assert!(!is_printed(other.id()), "{}", when.rows());
}

/// n2 has no rank, and asks n3.
pub fn ranks_of_other_nodes_are_targets(cluster: &ExampleCluster) {
    let job = format!("it-target-{}", std::process::id());
    let ranks = Ranks::start(&job, &cluster.folder.join("it-target-rank"));
    let call = |targets: Value| {
        let params = json!({"fields": ["comm"], "targets": targets});
        let call = json!({"id": 1, "method": "monitor", "params": params}).to_string();
        let output = cluster.command("n2", &["ask", &call]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|why| panic!("{why}: {output:?}"))
    };
    let rank = |number: u32| json!({"namespace": job, "rank": number});
    let pids = |node: &Value| -> Vec<u64> {
        let rows = node["event"]["sample"]["processes"].as_array().unwrap();
        rows.iter().map(|it| it["pid"].as_u64().unwrap()).collect()
    };
    let one = &call(json!([rank(1)]))["result"];
    assert_eq!((&one["status"], &one["nodes"][0]["node"]), (&json!("SUCCESS"), &json!("n3")));
    assert_eq!(pids(&one["nodes"][0]), [u64::from(ranks.0[1].id())], "{one}");
    let all = &call(json!([{"namespace": job}]))["result"];
    assert_eq!(all["nodes"].as_array().unwrap().len(), 1, "{all}");
    let mut both: Vec<u64> = ranks.0.iter().map(|it| it.id().into()).collect();
    both.sort_unstable();
    assert_eq!(pids(&all["nodes"][0]), both, "{all}");
    let partly = &call(json!([rank(0), rank(9)]))["result"];
    assert_eq!(partly["status"], "PARTIAL_SUCCESS", "{partly}");
    let none = &call(json!([rank(9)]))["error"];
    assert_eq!(none["data"]["status"], "NOT_FOUND", "{none}");
}

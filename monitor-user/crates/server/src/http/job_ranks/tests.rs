//! Rounds of replies, and what viewers get of them.

use super::*;
use serde_json::{Value as Json, json};

/// A second.
const SECOND: u64 = 1_000_000_000;

/// A rank of a reply: its number and its seconds on a CPU.
fn rank(number: u32, cpu_s: f64) -> String {
    format!("\"77\",{number},\"x\",{},\"/a/b\",\"R\",{cpu_s:.2},-1.0,4096", 70 + number)
}

fn replies(of: &[(&str, &[String])]) -> Gathered {
    let node = |(node, ranks): &(&str, &[String])| NodeReply {
        node: (*node).to_owned(),
        outcome: NodeOutcome::Executed,
        late_ns: Some(0),
        reply: Some(format!("1 [0] job_ranks(0,[{}])", ranks.join(","))),
        why: None,
    };
    Gathered { sent_unix_ns: 0, nodes: of.iter().map(node).collect() }
}

fn without_reply(node: &str, outcome: NodeOutcome, why: Option<&str>) -> NodeReply {
    let why = why.map(str::to_owned);
    NodeReply { node: node.to_owned(), outcome, late_ns: None, reply: None, why }
}

fn part(nodes: &[&str]) -> RollupPart {
    let nodes = nodes.iter().map(|it| (*it).to_owned()).collect();
    RollupPart { is_listed: true, nodes }
}

fn table(ranks: &JobRanks) -> Json {
    json!(ranks.table(&part(&[]), 5))
}

#[test]
fn what_a_rank_uses_is_that_between_two_replies_of_its_node() {
    let mut ranks = JobRanks::default();
    assert_eq!(ranks.targets(&part(&["n2", "n1"])).as_deref(), Some("n[1-2]"));
    ranks.take(replies(&[("n1", &[rank(0, 1.0)]), ("n2", &[rank(1, 3.0)])]), Ns(0));
    let first = table(&ranks);
    assert_eq!(first["ranks"][0]["cpu_percent"], Json::Null);
    let mut second = replies(&[("n1", &[rank(0, 2.0)]), ("n2", &[rank(1, 3.5)])]);
    // This one came a second later.
    second.nodes[1].late_ns = Some(SECOND);
    ranks.take(second, Ns(SECOND));
    let all = table(&ranks);
    let want = json!({
        "job": "77", "rank": 0, "node": "n1", "pid": 70, "program": "b", "state": "R",
        "cpu_percent": 100.0, "rss_bytes": 4096, "cpu_ns": 2 * SECOND,
    });
    assert_eq!((&all["ranks"][0], &all["ranks"][1]["cpu_percent"]), (&want, &json!(25.0)));
    let want = json!([
        { "id": "77", "n_ranks": 2, "slowest": [0, "n1"], "imbalance_percent": 42.9 },
    ]);
    assert_eq!((&all["jobs"], &all["is_listed"]), (&want, &json!(true)));
}

#[test]
fn ranks_of_a_node_without_a_reply_remain_without_values() {
    let mut ranks = JobRanks::default();
    let both = || replies(&[("n1", &[rank(0, 1.0)]), ("n2", &[rank(1, 3.0)])]);
    ranks.take(both(), Ns(0));
    let mut one = both();
    one.nodes[1] = without_reply("n2", NodeOutcome::Missing, None);
    one.nodes.push(without_reply("n3", NodeOutcome::Refused, Some("not a member")));
    ranks.take(one, Ns(SECOND));
    let all = table(&ranks);
    let want = json!({
        "job": "77", "rank": 1, "node": "n2", "pid": 71, "program": "b", "missing": "no reply",
    });
    assert_eq!(all["ranks"][1], want);
    let want = json!([
        { "nodes": "n2", "why": "no reply" }, { "nodes": "n3", "why": "not a member" },
    ]);
    assert_eq!((&all["missing"], &all["jobs"][0]["n_ranks"]), (&want, &json!(1)));
    // It is asked again, and the use since its last reply is right.
    assert_eq!(ranks.targets(&part(&["n1"])).as_deref(), Some("n[1-3]"));
    ranks.take(replies(&[("n1", &[]), ("n2", &[rank(1, 4.0)]), ("n3", &[])]), Ns(4 * SECOND));
    let all = table(&ranks);
    assert_eq!((&all["missing"], &all["ranks"][0]["cpu_percent"]), (&json!([]), &json!(25.0)));
    assert_eq!(ranks.targets(&part(&[])).as_deref(), Some("n2"));
}

#[test]
fn a_job_that_has_ended_has_no_ranks_and_is_asked_for_nowhere() {
    let mut ranks = JobRanks::default();
    ranks.take(replies(&[("n1", &[rank(0, 1.0)])]), Ns(0));
    ranks.take(replies(&[("n1", &[])]), Ns(SECOND));
    let all = json!(ranks.table(&RollupPart::from_job(None), 5));
    assert_eq!((&all["ranks"], &all["is_listed"]), (&json!([]), &json!(false)));
    assert_eq!(ranks.targets(&RollupPart::from_job(None)), None);
}

#[test]
fn a_rank_that_two_nodes_see_is_counted_once() {
    let mut ranks = JobRanks::default();
    ranks.take(replies(&[("n1", &[rank(0, 1.0)]), ("n2", &[rank(0, 1.0)])]), Ns(0));
    let all = table(&ranks);
    assert_eq!((&all["jobs"][0]["n_ranks"], &all["ranks"][1]), (&json!(1), &Json::Null));
    let note = all["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("rank 0 of job 77 is on n1 and on n2: "), "{note}");
}

#[test]
fn of_many_ranks_those_with_the_least_cpu_time_are_shown_and_all_are_compared() {
    let mut ranks = JobRanks::default();
    let many: Vec<String> = (0..300).map(|it| rank(it, f64::from(300 - it))).collect();
    ranks.take(replies(&[("n1", &many)]), Ns(0));
    let all = table(&ranks);
    let shown = all["ranks"].as_array().expect("rows");
    assert_eq!((shown.len(), &all["other_ranks"]), (MAX_ROWS, &json!(44)));
    assert_eq!((&shown[0]["rank"], &shown[255]["rank"]), (&json!(44), &json!(299)));
    assert_eq!(all["jobs"][0]["slowest"], json!([299, "n1"]));
    assert_eq!(all["jobs"][0]["n_ranks"], 300);
}

#[test]
fn a_rank_far_from_the_median_is_marked() {
    let mut ranks = JobRanks::default();
    let all = |last: f64| -> Vec<String> {
        (0..5).map(|it| rank(it, if it == 4 { last } else { 1.0 })).collect()
    };
    ranks.take(replies(&[("n1", &all(1.0))]), Ns(0));
    ranks.take(replies(&[("n1", &all(1.9))]), Ns(SECOND));
    let found = table(&ranks);
    assert_eq!(found["ranks"][4]["straggles_by"], json!(["cpu", 90.0]));
    assert_eq!(found["ranks"][0]["straggles_by"], Json::Null);
}

#[test]
fn more_nodes_than_are_asked_are_counted() {
    let names: Vec<String> = (0..MAX_NODES + 3).map(|it| format!("n{it:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut ranks = JobRanks::default();
    assert_eq!(ranks.targets(&part(&names)).as_deref(), Some("n[0000-0511]"));
    assert_eq!(table(&ranks)["other_nodes"], 3);
}

#[test]
fn a_reply_that_is_none_is_a_reason() {
    let why = |reply: &str| {
        let mut gathered = replies(&[("n1", &[])]);
        gathered.nodes[0].reply = Some(reply.to_owned());
        ranks_of(&gathered.nodes[0]).expect_err("no ranks")
    };
    assert_eq!(
        why("1 [0] job_ranks(101,\"there is no such service\")"),
        "there is no such service"
    );
    assert_eq!(why("1 [0] job_ranks(400)"), "status 400");
    assert_eq!(why("1 [0] job_ranks(0,[1,2])"), "its reply is malformed");
    assert_eq!(why("nonsense"), "its reply is malformed");
}

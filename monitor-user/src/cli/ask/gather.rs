//! `monitor ask --nodes`: many nodes execute requests, and equal replies are printed once.
//!
//! In: requests and a set of nodes. Out: each reply below the nodes that sent it, as `clush -b`
//! prints it, or JSON; nodes without a reply are named on standard error. A request is sent when
//! the one before has ended on all nodes.

use super::worst_status::WorstStatus;
use crate::cli::args::daemon::AskArgs;
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, notice};
use monitor_client::{Client, Gather, Gathered};
use monitor_cluster::node_set::fold;
use monitor_format::human;
use monitor_model::id::Ns;
use monitor_omis::{Dialect, caret, parse};
use monitor_protocol::cluster::NodeOutcome;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// The line above and below the names of nodes.
const RULE: &str = "---------------\n";

/// Lets the nodes execute the requests, and prints what became of them.
pub fn ask_nodes(args: &AskArgs, nodes: &str) -> Result<Exit, Failure> {
    args.request.iter().try_for_each(|request| check(request))?;
    with_daemon(args.reader.socket.as_deref(), async |client| -> Result<Exit, Failure> {
        let mut worst = Exit::Ok;
        for request in &args.request {
            let exit = ask_once(args, (nodes, request), &client).await?;
            worst = if worst == Exit::Ok { exit } else { worst };
        }
        Ok(worst)
    })
}

/// Refuses what no node could execute.
fn check(request: &str) -> Result<(), Failure> {
    if request == "-" {
        let why = "--nodes: requests are arguments; standard input is not read";
        return Err(Failure::usage(why));
    }
    // A call of the socket is checked by the nodes.
    if request.trim_start().starts_with('{') {
        return Ok(());
    }
    let line = request.as_bytes();
    parse::request(line, Dialect::Extended).map(drop).map_err(|fault| {
        caret::render(line, &fault).lines().for_each(notice);
        Failure::usage(fault)
    })
}

async fn ask_once(
    args: &AskArgs,
    (nodes, request): (&str, &str),
    client: &Client,
) -> Result<Exit, Failure> {
    let params = Gather {
        nodes: Some(nodes.to_owned()),
        line: request.to_owned(),
        within_ns: Some(Ns::from(args.within).0),
    };
    let gathered = client.gather(&params).await?;
    let replies = FoldedReplies::new(&gathered);
    let text = match args.format.as_str() {
        "json" => output::json(&replies.to_json(request))?,
        _ => replies.to_text(),
    };
    let exit = output::print(text.as_bytes())?;
    replies.notices().iter().for_each(|line| notice(line));
    Ok(if exit == Exit::Ok { replies.exit() } else { exit })
}

/// The nodes with their results, equal ones together.
struct FoldedReplies<'a> {
    /// The nodes of each reply, in the order of the first one.
    replies: Vec<(&'a str, Vec<&'a str>)>,
    /// The nodes without a reply, by outcome and reason.
    others: BTreeMap<(NodeOutcome, &'a str), Vec<&'a str>>,
}

impl<'a> FoldedReplies<'a> {
    fn new(gathered: &'a Gathered) -> Self {
        let mut folded = Self { replies: Vec::new(), others: BTreeMap::new() };
        for node in &gathered.nodes {
            let name = node.node.as_str();
            if let Some(reply) = node.reply.as_deref() {
                match folded.replies.iter_mut().find(|(known, _)| *known == reply) {
                    Some((_, nodes)) => nodes.push(name),
                    None => folded.replies.push((reply, vec![name])),
                }
            } else {
                let key = (node.outcome, node.why.as_deref().unwrap_or_default());
                folded.others.entry(key).or_default().push(name);
            }
        }
        folded
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for (reply, nodes) in &self.replies {
            let count = if nodes.len() > 1 { format!(" ({})", nodes.len()) } else { String::new() };
            let nodes = human::escaped_text(&fold(nodes.iter().copied()));
            text += &format!("{RULE}{nodes}{count}\n{RULE}{}\n", human::escaped_text(reply));
        }
        text
    }

    fn to_json(&self, request: &str) -> Json {
        let replies: Vec<Json> = self
            .replies
            .iter()
            .map(|(reply, nodes)| {
                let set = fold(nodes.iter().copied());
                json!({ "nodes": set, "n_nodes": nodes.len(), "reply": reply })
            })
            .collect();
        let others: Vec<Json> = self
            .others
            .iter()
            .map(|((outcome, why), nodes)| {
                let set = fold(nodes.iter().copied());
                let why = (!why.is_empty()).then_some(why);
                json!({ "nodes": set, "n_nodes": nodes.len(), "outcome": outcome, "why": why })
            })
            .collect();
        json!({ "schema_version": 1, "request": request, "replies": replies, "others": others })
    }

    /// A line for each reason why nodes have no reply.
    fn notices(&self) -> Vec<String> {
        let line = |((outcome, why), nodes): (&(NodeOutcome, &str), &Vec<&str>)| {
            let set = fold(nodes.iter().copied());
            let why = match (outcome, *why) {
                (NodeOutcome::Missing, "") => "no reply: it may have been executed",
                (NodeOutcome::Expired, "") => "not executed in time",
                (_, why) => why,
            };
            format!("{set}: {}: {why}", outcome.name())
        };
        self.others.iter().map(line).collect()
    }

    /// The exit code: that of the worst reply; otherwise whether nodes are missing.
    fn exit(&self) -> Exit {
        let mut worst = WorstStatus::default();
        for (reply, _) in &self.replies {
            // The reply of a call of the socket is none of the language.
            if let Ok(reply) = parse::reply(reply.as_bytes()) {
                worst.add(&reply);
            }
        }
        match (worst.exit(), self.others.is_empty(), self.replies.is_empty()) {
            (Exit::Ok, true, _) => Exit::Ok,
            (Exit::Ok, false, false) => Exit::Partial,
            (Exit::Ok, false, true) => Exit::Failed,
            (worst, ..) => worst,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::NodeReply;

    fn node(node: &str, reply: Option<&str>, outcome: NodeOutcome) -> NodeReply {
        let (node, reply) = (node.to_owned(), reply.map(str::to_owned));
        NodeReply { node, outcome, late_ns: None, reply, why: None }
    }

    fn gathered(rest: &[NodeReply]) -> Gathered {
        let executed = |name, reply| node(name, Some(reply), NodeOutcome::Executed);
        let mut nodes = vec![
            executed("n1", "1 [0] a(0,7)"),
            executed("n2", "1 [0] a(0,8)"),
            executed("n3", "1 [0] a(0,7)"),
        ];
        nodes.extend(rest.iter().cloned());
        Gathered { sent_unix_ns: 0, nodes }
    }

    #[test]
    fn equal_replies_are_printed_once_below_their_nodes() {
        let gathered = gathered(&[]);
        let replies = FoldedReplies::new(&gathered);
        let first = format!("{RULE}n[1,3] (2)\n{RULE}1 [0] a(0,7)\n");
        let second = format!("{RULE}n2\n{RULE}1 [0] a(0,8)\n");
        assert_eq!(replies.to_text(), first + &second);
        assert_eq!((replies.notices(), replies.exit()), (Vec::new(), Exit::Ok));
    }

    #[test]
    fn missing_nodes_are_named_and_the_answer_is_partial() {
        let gathered = gathered(&["n4", "n5"].map(|it| node(it, None, NodeOutcome::Missing)));
        let replies = FoldedReplies::new(&gathered);
        let want = "n[4-5]: missing: no reply: it may have been executed";
        assert_eq!((replies.notices(), replies.exit()), (vec![want.to_owned()], Exit::Partial));
        let json = replies.to_json("1 [0] a()");
        assert_eq!(json["others"][0]["nodes"], "n[4-5]");
        assert_eq!(json["replies"][0]["n_nodes"], 2);
    }

    #[test]
    fn a_failure_of_a_node_decides_the_exit_code() {
        let denied = node("n4", Some("1 [0] a(400)"), NodeOutcome::Executed);
        let missing = node("n5", None, NodeOutcome::Missing);
        let gathered = gathered(&[denied, missing]);
        assert_eq!(FoldedReplies::new(&gathered).exit(), Exit::Denied);
    }
}

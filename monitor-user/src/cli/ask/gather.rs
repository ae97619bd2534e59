//! `monitor ask --nodes`: many nodes execute requests, and equal replies are printed once.
//!
//! In: requests and a set of nodes. Out: each reply below the nodes that sent it, as `clush -b`
//! prints it, or JSON; nodes without a reply are named on standard error. A request is sent when
//! the one before has ended on all nodes.

use super::worst_status::WorstStatus;
use crate::cli::args::daemon::AskArgs;
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::node_blocks::{NodeBlock, blocks};
use crate::cli::node_replies::{MissingNodes, gather};
use crate::cli::output::{self, notice};
use monitor_client::{Client, Gathered};
use monitor_format::human;
use monitor_omis::{Dialect, caret, parse};
use serde_json::{Value as Json, json};

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
    let gathered = gather(client, (nodes, args.within), request.to_owned()).await?;
    let replies = FoldedReplies::new(&gathered);
    let text = match args.format.as_str() {
        "json" => output::json(&replies.to_json(request))?,
        _ => replies.to_text(),
    };
    let exit = output::print(text.as_bytes())?;
    let exit = if exit == Exit::Ok { replies.worst() } else { exit };
    Ok(replies.others.end(replies.replies.len(), exit))
}

/// The nodes with their results, equal ones together.
struct FoldedReplies<'a> {
    /// The replies.
    replies: Vec<NodeBlock<'a, &'a str>>,
    /// The nodes without one.
    others: MissingNodes,
}

impl<'a> FoldedReplies<'a> {
    fn new(gathered: &'a Gathered) -> Self {
        let replied = gathered.nodes.iter();
        let replied = replied.filter_map(|it| Some((it.node.as_str(), it.reply.as_deref()?)));
        Self { replies: blocks(replied), others: MissingNodes::from_gathered(gathered) }
    }

    fn to_text(&self) -> String {
        let block = |it: &NodeBlock<'_, &str>| {
            format!("{}{}\n", it.heading(), human::escaped_text(it.text))
        };
        self.replies.iter().map(block).collect()
    }

    fn to_json(&self, request: &str) -> Json {
        let replies: Vec<Json> = self
            .replies
            .iter()
            .map(|it| json!({ "nodes": it.set(), "n_nodes": it.nodes.len(), "reply": it.text }))
            .collect();
        let others = self.others.to_json();
        json!({ "schema_version": 1, "request": request, "replies": replies, "others": others })
    }

    /// The exit code of the worst reply.
    fn worst(&self) -> Exit {
        let mut worst = WorstStatus::default();
        for block in &self.replies {
            // The reply of a call of the socket is none of the language.
            if let Ok(reply) = parse::reply(block.text.as_bytes()) {
                worst.add(&reply);
            }
        }
        worst.exit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::{NodeOutcome, NodeReply};

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
        let rule = "---------------\n";
        let first = format!("{rule}n[1,3] (2)\n{rule}1 [0] a(0,7)\n");
        let second = format!("{rule}n2\n{rule}1 [0] a(0,8)\n");
        assert_eq!(replies.to_text(), first + &second);
        assert_eq!((replies.others.is_empty(), replies.worst()), (true, Exit::Ok));
    }

    #[test]
    fn missing_nodes_are_named_and_the_answer_is_partial() {
        let gathered = gathered(&["n4", "n5"].map(|it| node(it, None, NodeOutcome::Missing)));
        let replies = FoldedReplies::new(&gathered);
        let want = "n[4-5]: missing: no reply: it may have been executed";
        assert_eq!((replies.others.notices(), replies.worst()), (vec![want.to_owned()], Exit::Ok));
        let json = replies.to_json("1 [0] a()");
        assert_eq!(json["others"][0]["nodes"], "n[4-5]");
        assert_eq!(json["replies"][0]["n_nodes"], 2);
    }

    #[test]
    fn a_failure_of_a_node_decides_the_exit_code() {
        let denied = node("n4", Some("1 [0] a(400)"), NodeOutcome::Executed);
        let missing = node("n5", None, NodeOutcome::Missing);
        let gathered = gathered(&[denied, missing]);
        let replies = FoldedReplies::new(&gathered);
        assert_eq!(replies.others.end(4, replies.worst()), Exit::Denied);
    }
}

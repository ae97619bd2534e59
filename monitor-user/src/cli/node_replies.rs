//! A line that many nodes execute: their replies, and the nodes without one.
//!
//! In: a set of nodes, a request or a call. Out: what each node has replied, and a line for each
//! reason why others have not. The service of this node sends it to the others.

use super::exit::{Exit, Failure};
use super::output::notice;
use monitor_client::{Client, Gather, Gathered};
use monitor_cluster::node_set::fold;
use monitor_model::id::Ns;
use monitor_protocol::call::Call;
use monitor_protocol::cluster::NodeOutcome;
use monitor_protocol::reply::CallReply;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The nodes without a reply, by outcome and reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MissingNodes {
    by_reason: BTreeMap<(NodeOutcome, String), Vec<String>>,
}

impl MissingNodes {
    /// Those of a result.
    pub fn from_gathered(gathered: &Gathered) -> Self {
        let mut missing = Self::default();
        for node in gathered.nodes.iter().filter(|it| it.reply.is_none()) {
            missing.add(&node.node, (node.outcome, node.why.as_deref().unwrap_or_default()));
        }
        missing
    }

    /// Adds a node.
    pub fn add(&mut self, node: &str, (outcome, why): (NodeOutcome, &str)) {
        self.by_reason.entry((outcome, why.to_owned())).or_default().push(node.to_owned());
    }

    /// Adds all of others.
    pub fn extend(&mut self, others: Self) {
        for (reason, nodes) in others.by_reason {
            self.by_reason.entry(reason).or_default().extend(nodes);
        }
    }

    /// Whether each node has replied.
    pub fn is_empty(&self) -> bool {
        self.by_reason.is_empty()
    }

    /// A line for each reason.
    pub fn notices(&self) -> Vec<String> {
        let line = |((outcome, why), nodes): (&(NodeOutcome, String), &Vec<String>)| {
            let set = fold(nodes.iter().map(String::as_str));
            let why = match (outcome, why.as_str()) {
                (NodeOutcome::Missing, "") => "no reply: it may have been executed",
                (NodeOutcome::Expired, "") => "not executed in time",
                (_, why) => why,
            };
            format!("{set}: {}: {why}", outcome.name())
        };
        self.by_reason.iter().map(line).collect()
    }

    /// An object for each reason.
    pub fn to_json(&self) -> Vec<Json> {
        let reasons = self.by_reason.iter();
        let object = |((outcome, why), nodes): (&(NodeOutcome, String), &Vec<String>)| {
            let set = fold(nodes.iter().map(String::as_str));
            let why = (!why.is_empty()).then_some(why);
            json!({ "nodes": set, "n_nodes": nodes.len(), "outcome": outcome, "why": why })
        };
        reasons.map(object).collect()
    }

    /// Prints the reasons, and makes the exit code: that of what was printed, unless nodes are
    /// missing.
    pub fn end(&self, n_replies: usize, exit: Exit) -> Exit {
        self.notices().iter().for_each(|line| notice(line));
        match (exit, self.is_empty(), n_replies) {
            (Exit::Ok, false, 0) => Exit::Failed,
            (Exit::Ok, false, _) => Exit::Partial,
            (exit, ..) => exit,
        }
    }
}

/// Replies to a line, and the nodes without one.
#[derive(Debug, Default)]
pub struct NodeReplies<T> {
    /// The name of a node, and its reply.
    pub replies: Vec<(String, T)>,
    /// The others.
    pub missing: MissingNodes,
}

impl<T> NodeReplies<T> {
    /// Reads the replies; a node whose reply is an error counts as missing, with that reason.
    pub fn read(gathered: &Gathered, parse: impl Fn(&str) -> Result<T, String>) -> Self {
        let mut missing = MissingNodes::from_gathered(gathered);
        let mut replies = Vec::new();
        for node in &gathered.nodes {
            match node.reply.as_deref().map(&parse) {
                Some(Ok(reply)) => replies.push((node.node.clone(), reply)),
                Some(Err(why)) => missing.add(&node.node, (NodeOutcome::Refused, &why)),
                None => {}
            }
        }
        Self { replies, missing }
    }
}

/// Lets nodes execute a line.
pub async fn gather(
    client: &Client,
    (nodes, within): (&str, Duration),
    line: String,
) -> Result<Gathered, Failure> {
    let (nodes, within_ns) = (Some(nodes.to_owned()), Some(Ns::from(within).0));
    Ok(client.gather(&Gather { nodes, line, within_ns }).await?)
}

/// Lets nodes execute a call; the replies are its results.
pub async fn gather_call(
    client: &Client,
    on: (&str, Duration),
    call: &Call,
) -> Result<NodeReplies<Box<RawValue>>, Failure> {
    Ok(NodeReplies::read(&gather(client, on, call.to_text()).await?, call_result))
}

/// The result in the reply to a call.
///
/// # Errors
/// It is an error, or no reply to a call.
pub fn call_result(reply: &str) -> Result<Box<RawValue>, String> {
    let reply: CallReply<Box<RawValue>> =
        serde_json::from_str(reply).map_err(|why| why.to_string())?;
    reply.into_result("its reply has no result")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::NodeReply;

    #[test]
    fn a_node_whose_reply_is_an_error_is_missing_with_that_reason() {
        let node = |node: &str, reply: Option<&str>, outcome| NodeReply {
            node: node.to_owned(),
            outcome,
            late_ns: None,
            reply: reply.map(str::to_owned),
            why: None,
        };
        let gathered = Gathered {
            sent_unix_ns: 0,
            nodes: vec![
                node("n1", Some(r#"{"id":1,"result":{"a":1}}"#), NodeOutcome::Executed),
                node("n2", Some(r#"{"id":1,"error":{"message":"no"}}"#), NodeOutcome::Executed),
                node("n3", None, NodeOutcome::Missing),
            ],
        };
        let found = NodeReplies::read(&gathered, call_result);
        assert_eq!(found.replies.len(), 1);
        assert_eq!(found.replies[0].1.get(), r#"{"a":1}"#);
        let want = ["n2: refused: no", "n3: missing: no reply: it may have been executed"];
        assert_eq!(found.missing.notices(), want);
        assert_eq!(found.missing.end(1, Exit::Ok), Exit::Partial);
        assert_eq!(found.missing.end(0, Exit::Ok), Exit::Failed);
        assert_eq!(MissingNodes::default().end(0, Exit::Ok), Exit::Ok);
    }
}

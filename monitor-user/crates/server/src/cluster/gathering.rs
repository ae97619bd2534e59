//! A line for many nodes: from the call to the command of the bus, and from its result to the
//! answer.
//!
//! In: the parameters of `gather`, and the members. Out: the options of a command; what became of
//! it on each node, as the answer of the call.

use super::job::GatherCall;
use monitor_cluster::bus::entry::Targets;
use monitor_cluster::bus::membership::Membership;
use monitor_cluster::command::{CallOptions, CallResult, CommandOutcome, MAX_WITHIN};
use monitor_cluster::node_set::expand;
use monitor_model::{Ns, Refusal, name};
use monitor_protocol::cluster::{Gathered, NodeOutcome, NodeReply};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// How long replies are awaited if the caller does not say.
const WITHIN: Ns = Ns(5_000_000_000);
/// The longest text of a command: with its envelope it fits in a message of the bus.
pub const MAX_LINE: usize = 512 << 10;
/// The largest result of a command, for the same reason.
pub const MAX_RESULT: usize = 768 << 10;

/// The result of a command, as the bus carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionReply {
    /// The reply.
    Reply(String),
    /// Why there is none.
    Error(String),
}

impl From<Result<String, String>> for ExecutionReply {
    fn from(reply: Result<String, String>) -> Self {
        match reply {
            Ok(line) => Self::Reply(line),
            Err(why) => Self::Error(why),
        }
    }
}

impl ExecutionReply {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // A text can always be written as JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From bytes; those that are none are an error of the node.
    fn from_bytes(bytes: &[u8]) -> Self {
        let malformed = |why| Self::Error(format!("its result is malformed: {why}"));
        serde_json::from_slice(bytes).unwrap_or_else(malformed)
    }
}

/// A command that waits for its result.
pub struct Gathering {
    /// When it was sent, on the boot clock and on the realtime clock.
    pub sent: (Ns, u64),
    /// Where the answer goes.
    pub answer: oneshot::Sender<Result<Gathered, Refusal>>,
}

/// The command of a call.
///
/// # Errors
/// The set of nodes, the line or the time is none.
pub fn command(call: GatherCall, members: &Membership) -> Result<CallOptions, Refusal> {
    let GatherCall { uid, params } = call;
    let within = within(params.within_ns)?;
    if params.line.len() > MAX_LINE {
        let bytes = params.line.len();
        return Err(Refusal::bad(format!("line: it has {bytes} bytes; at most {MAX_LINE}")));
    }
    // The payload of other commands has one: no user writes those.
    if params.line.contains('\n') {
        return Err(Refusal::bad("line: a command is one line"));
    }
    let targets = match &params.nodes {
        None => Targets::All,
        Some(text) => Targets::Names(names(text, members)?),
    };
    let (begin_within, reply_within) = (within, within);
    let payload = params.line.into_bytes();
    Ok(CallOptions { targets, uid, begin_within, reply_within, payload })
}

/// The time for replies.
///
/// # Errors
/// It is 0, or too long.
pub fn within(within_ns: Option<u64>) -> Result<Ns, Refusal> {
    let within = within_ns.map_or(WITHIN, Ns);
    if within == Ns(0) || within > MAX_WITHIN {
        let most = MAX_WITHIN.seconds();
        return Err(Refusal::bad(format!("within_ns: expected up to {most} s, and not 0")));
    }
    Ok(within)
}

/// The nodes of a set.
///
/// # Errors
/// It is none, or is empty.
pub fn names(text: &str, members: &Membership) -> Result<BTreeSet<String>, Refusal> {
    let all = members.iter().map(|member| member.node.clone()).collect();
    let names = expand(text, &all).map_err(|why| Refusal::bad(format!("nodes: {why}")))?;
    if names.is_empty() {
        return Err(Refusal::bad(format!("nodes: {text:?} has no node")));
    }
    Ok(names)
}

/// The answer of a call whose command was sent at this time.
pub fn gathered(result: CallResult, sent: (Ns, u64), members: &Membership) -> Gathered {
    let names: BTreeSet<&str> = members.iter().map(|member| member.node.as_str()).collect();
    let CallResult { outcomes, arrivals, .. } = result;
    let reply = |(node, outcome): (String, CommandOutcome)| {
        let late_ns = arrivals.get(&node).map(|at| at.since(sent.0).0);
        let (outcome, reply, why) = match outcome {
            CommandOutcome::Executed(bytes) => match ExecutionReply::from_bytes(&bytes) {
                ExecutionReply::Reply(line) => (NodeOutcome::Executed, Some(line), None),
                ExecutionReply::Error(why) => (NodeOutcome::Executed, None, Some(why)),
            },
            CommandOutcome::Expired => (NodeOutcome::Expired, None, None),
            CommandOutcome::Missing => (NodeOutcome::Missing, None, None),
            CommandOutcome::Refused(why) => {
                (NodeOutcome::Refused, None, Some(with_hint(why, &node, &names)))
            }
        };
        NodeReply { node, outcome, late_ns, reply, why }
    };
    let nodes = outcomes.into_iter().map(reply).collect();
    Gathered { sent_unix_ns: sent.1, nodes }
}

/// The reason with the member that was probably meant, if the node is none.
pub fn with_hint(why: String, node: &str, names: &BTreeSet<&str>) -> String {
    let likely = || name::likely(names.iter().copied(), node);
    match (names.contains(node), why.contains("not a member")) {
        (false, true) => match likely() {
            Some(other) => format!("{why}; did you mean {other:?}?"),
            None => why,
        },
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_cluster::bus::MemberRecord;
    use monitor_cluster::bus::entry::{EntryId, FORMATS, Incarnation, LedgerId, Seq};
    use monitor_protocol::cluster::Gather;

    fn members() -> Membership {
        let record = |node: &str| MemberRecord {
            node: node.to_owned(),
            ledger: LedgerId(1),
            incarnation: Incarnation(1),
            since: Seq(1),
            is_draining: false,
            formats: FORMATS,
            aggregators: String::new(),
        };
        Membership::new(Seq(1), vec![record("login1"), record("n2")])
    }

    fn call(nodes: Option<&str>, within_ns: Option<u64>) -> GatherCall {
        let nodes = nodes.map(str::to_owned);
        GatherCall { uid: 7, params: Gather { nodes, line: "x".to_owned(), within_ns } }
    }

    #[test]
    fn a_set_of_nodes_is_resolved_and_what_is_none_is_refused() {
        let targets = |nodes| command(call(nodes, None), &members()).map(|it| it.targets);
        let names = |names: &[&str]| {
            Ok(Targets::Names(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert_eq!(targets(None), Ok(Targets::All));
        assert_eq!(targets(Some("@*!n2")), names(&["login1"]));
        assert_eq!(targets(Some("n[2-3]")), names(&["n2", "n3"]));
        let refused = |nodes| targets(nodes).expect_err("a refusal").message;
        assert_eq!(refused(Some("n2!n2")), "nodes: \"n2!n2\" has no node");
        assert!(refused(Some("n[")).starts_with("nodes: "));
        let forged = GatherCall {
            uid: 7,
            params: Gather { nodes: None, line: "\n{}".to_owned(), within_ns: None },
        };
        let refused = command(forged, &members()).expect_err("a refusal").message;
        assert_eq!(refused, "line: a command is one line");
        assert!(command(call(None, Some(0)), &members()).is_err());
        assert!(command(call(None, Some(60_000_000_001)), &members()).is_err());
    }

    #[test]
    fn each_node_has_its_outcome() {
        let reply = ExecutionReply::Reply("a line".to_owned()).to_bytes();
        let refused = "the node is not a member of the cluster";
        let result = CallResult {
            id: EntryId::default(),
            seq: Some(Seq(3)),
            outcomes: [
                ("login".to_owned(), CommandOutcome::Refused(refused.to_owned())),
                ("login1".to_owned(), CommandOutcome::Executed(reply)),
                ("n2".to_owned(), CommandOutcome::Missing),
            ]
            .into(),
            arrivals: [("login1".to_owned(), Ns(12))].into(),
        };
        let found = gathered(result, (Ns(2), 99), &members());
        let texts: Vec<_> = found
            .nodes
            .iter()
            .map(|it| (it.outcome.name(), it.late_ns, it.reply.as_deref(), it.why.as_deref()))
            .collect();
        let hint = format!("{refused}; did you mean \"login1\"?");
        let want = [
            ("refused", None, None, Some(hint.as_str())),
            ("executed", Some(10), Some("a line"), None),
            ("missing", None, None, None),
        ];
        assert_eq!(texts, want);
    }
}

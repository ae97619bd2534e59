//! The members of a cluster, for `nodes/`: which there are, in which state, and where they serve
//! their files.
//!
//! In: answers of the calls `members`, and of `node_status` on each member. Out: the members as
//! `nodes/` lists them. It asks no node; `membership.rs` does.

use super::address::check_node_name;
use monitor_protocol::cluster::{Gathered, Member, MemberState, NodeStatus};
use monitor_remote::Address;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// After which time a member that has not answered is asked for its address again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// A member as `nodes/` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberNode {
    /// Its name.
    pub name: String,
    /// Where it serves its files to other nodes, as it has said.
    pub address: Option<Address>,
    /// Its state in the cluster, as a status.
    pub word: &'static str,
}

/// The addresses that members have said.
#[derive(Default)]
pub struct MemberAddresses {
    known: BTreeMap<String, Known>,
}

/// What a member has said.
struct Known {
    /// Since when it was a member then: one that has joined again may have another address.
    since: Option<u64>,
    address: Option<Address>,
    /// When it was asked, if it has not answered.
    asked: Option<Instant>,
}

/// The reply of a node to `node_status`.
#[derive(Deserialize)]
struct StatusReply {
    result: NodeStatus,
}

/// The state of a member as a status of a node.
const fn word(state: MemberState) -> &'static str {
    match state {
        MemberState::Up => "up",
        MemberState::Draining => "draining",
        MemberState::Left => "down(left)",
        MemberState::Dead => "down(dead)",
    }
}

const fn is_member(state: MemberState) -> bool {
    matches!(state, MemberState::Up | MemberState::Draining)
}

impl MemberAddresses {
    /// The members that must be asked for their address; they count as asked.
    pub fn take_due(&mut self, members: &[Member], now: Instant) -> Vec<String> {
        let mut names = Vec::new();
        for member in members.iter().filter(|it| is_member(it.state)) {
            let known = self.known.get(&member.node).filter(|it| it.since == member.since_unix_ns);
            let waits = |at: Instant| now.duration_since(at) < ASK_AGAIN;
            if known.is_some_and(|it| it.asked.is_none_or(waits)) {
                continue;
            }
            let address = self.known.get(&member.node).and_then(|it| it.address.clone());
            let known = Known { since: member.since_unix_ns, address, asked: Some(now) };
            self.known.insert(member.node.clone(), known);
            names.push(member.node.clone());
        }
        names
    }

    /// Notes what members have replied. An address that is not with TLS is none: another node must
    /// not name a socket of this one.
    pub fn note(&mut self, gathered: &Gathered) {
        for it in &gathered.nodes {
            let reply = it.reply.as_deref().and_then(|line| serde_json::from_str(line).ok());
            let Some(StatusReply { result: status }) = reply else { continue };
            let Some(known) = self.known.get_mut(&it.node) else { continue };
            let address = status.files.and_then(|written| written.parse().ok());
            known.address = address.filter(|it| matches!(it, Address::Tls(_)));
            known.asked = None;
        }
    }

    /// The members as `nodes/` lists them, members first; `own` is this node with its address.
    pub fn listed(&self, members: &[Member], own: (&str, Option<Address>)) -> Vec<MemberNode> {
        let node = |it: &Member| {
            let known = || self.known.get(&it.node).and_then(|it| it.address.clone());
            let address = if it.node == own.0 { own.1.clone() } else { known() };
            MemberNode { name: it.node.clone(), address, word: word(it.state) }
        };
        let named = || members.iter().filter(|it| check_node_name(&it.node).is_ok());
        let there = named().filter(|it| is_member(it.state));
        there.chain(named().filter(|it| !is_member(it.state))).map(node).collect()
    }

    /// Forgets nodes that are not listed any longer.
    pub fn retain(&mut self, members: &[Member]) {
        self.known.retain(|name, _| members.iter().any(|it| it.node == *name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::{MessageFormats, NodeOutcome, NodeReply};

    fn member(node: &str, state: MemberState, since_unix_ns: u64) -> Member {
        let (node, since_unix_ns) = (node.to_owned(), Some(since_unix_ns));
        Member { node, state, since_unix_ns, formats: MessageFormats::default() }
    }

    fn reply(node: &str, files: &str) -> NodeReply {
        let result = NodeStatus { files: Some(files.to_owned()), ..NodeStatus::default() };
        let line = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let outcome = NodeOutcome::Executed;
        NodeReply { node: node.to_owned(), outcome, late_ns: None, reply: Some(line), why: None }
    }

    fn noted(addresses: &mut MemberAddresses, replies: Vec<NodeReply>) {
        addresses.note(&Gathered { sent_unix_ns: 0, nodes: replies });
    }

    #[test]
    fn a_member_is_asked_until_it_has_said_its_address_and_again_when_it_has_joined_again() {
        let mut it = MemberAddresses::default();
        let (start, up) = (Instant::now(), MemberState::Up);
        let members = [member("a", up, 1), member("b", up, 1), member("c", MemberState::Dead, 1)];
        assert_eq!(it.take_due(&members, start), ["a", "b"]);
        noted(&mut it, vec![reply("a", "tls!a!5641"), reply("x", "tls!x!1")]);
        assert_eq!(it.take_due(&members, start), [""; 0]);
        assert_eq!(it.take_due(&members, start + ASK_AGAIN), ["b"]);
        let again = [member("a", up, 2), member("b", up, 1)];
        assert_eq!(it.take_due(&again, start + ASK_AGAIN), ["a"]);
        // What it has said before stays until it says something else.
        let address = it.listed(&again, ("z", None))[0].address.clone();
        assert_eq!(address.map(|it| it.to_string()).as_deref(), Some("tls!a!5641"));
    }

    #[test]
    fn an_address_on_this_machine_is_none_but_for_this_node_itself() {
        let mut it = MemberAddresses::default();
        let members = ["a", "b", "c", "own"].map(|node| member(node, MemberState::Up, 1));
        it.take_due(&members, Instant::now());
        let written = ["/run/monitor/monitor.sock.9p", "tcp!127.0.0.1!5640", "nonsense"];
        let replies = ["a", "b", "c"].into_iter().zip(written).map(|it| reply(it.0, it.1));
        noted(&mut it, replies.collect());
        let listed = it.listed(&members, ("own", Some(Address::unix("/run/own.9p"))));
        let addresses = listed.iter().map(|it| it.address.is_some()).collect::<Vec<_>>();
        assert_eq!(addresses, [false, false, false, true]);
    }

    #[test]
    fn former_members_are_listed_last_and_names_of_files_not_at_all() {
        let it = MemberAddresses::default();
        let state = |node: &str, state| member(node, state, 1);
        let members = [
            state("a", MemberState::Dead),
            state("b", MemberState::Left),
            state("ctl", MemberState::Up),
            state("d", MemberState::Draining),
        ];
        let listed = it.listed(&members, ("own", None));
        let listed: Vec<_> = listed.iter().map(|it| (it.name.as_str(), it.word)).collect();
        assert_eq!(listed, [("d", "draining"), ("a", "down(dead)"), ("b", "down(left)")]);
    }
}

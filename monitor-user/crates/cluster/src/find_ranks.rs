//! Requests that name ranks go to the nodes that have them, and to no others.
//!
//! In: a request with ranks as targets. Out: its parts for the nodes of the ranks. They are found
//! by one sample of each node with the rights of the user there: of this node first, and of all
//! others at once, unless this one has all ranks. A node without a reply in time is named.

use super::engine::reply;
use super::fan_in::DEADLINE;
use super::message::{ClientIds, Message, Ticket};
use super::rank_search::RankSearch;
use super::scope::{self, RankPlaces, RequestScope};
use super::{Cluster, ClusterOutput};
use monitor_model::{MonitorRequest, Ns, Refusal, Target};
use monitor_monitors::{MonitorInput, MonitorKey};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::{Conn, event::Event};
use std::collections::BTreeMap;

/// Most searches of one user at a time: each asks all nodes.
const MOST_OF_USER: usize = 64;

impl Cluster {
    /// Whether the ranks of a request must be looked for: other nodes may have them.
    pub(super) fn must_search(&self, request: &MonitorRequest) -> bool {
        let names_rank = request.targets.iter().any(|it| matches!(it, Target::Rank(_)));
        let is_of_one = request.local_only || request.lease_ns.is_some();
        names_rank && !self.others.is_empty() && !is_of_one && !request.follow
    }

    /// Looks for the ranks of a request, and starts it on their nodes then.
    pub(super) fn search_ranks(
        &mut self,
        (conn, tag): (Conn, Option<Tag>),
        request: Box<MonitorRequest>,
        (now, acts): (Ns, &mut Vec<ClusterOutput>),
    ) {
        let Some(caller) = self.engine.caller(conn) else { return };
        let client = ClientIds { uid: caller.uid, gid: caller.gid, pid: caller.pid };
        let of_user = self.searches.values().filter(|it| it.client.uid == client.uid);
        if of_user.count() >= MOST_OF_USER {
            let text = format!(
                "the ranks of {MOST_OF_USER} requests of user {} are looked for: try again",
                client.uid
            );
            return self.refuse(conn, tag, Refusal::limit(text), acts);
        }
        let search = RankSearch::new((conn, tag), client, request);
        let key = self.next_number();
        self.searches.insert(key, search);
        self.ask_for_ranks(key, vec![self.own.name.clone()], (now, acts));
    }

    /// Asks nodes which of the ranks they have.
    fn ask_for_ranks(
        &mut self,
        key: MonitorKey,
        nodes: Vec<String>,
        (now, acts): (Ns, &mut Vec<ClusterOutput>),
    ) {
        let tickets: Vec<Ticket> = nodes.iter().map(|_| self.next_number()).collect();
        let Some(search) = self.searches.get_mut(&key) else { return };
        search.deadline = Ns(now.0.saturating_add(DEADLINE.0));
        let (caller, request) = (search.client, search.question());
        let questions: Vec<(Ticket, String)> = tickets.into_iter().zip(nodes).collect();
        search.waiting.extend(questions.iter().cloned());
        for (ticket, node) in questions {
            let request = Box::new(request.clone());
            self.send(now, &node, Message::Start { ticket, caller, request }, acts);
        }
    }

    /// Handles the reply of a node, if it is one of a search; whether it was.
    pub(super) fn search_answered(
        &mut self,
        ticket: Ticket,
        answer: &Result<(Event, bool), Refusal>,
        (now, acts): (Ns, &mut Vec<ClusterOutput>),
    ) -> bool {
        let found = self.searches.iter_mut().find(|(_, it)| it.waiting.contains_key(&ticket));
        let Some((&key, search)) = found else { return false };
        if !search.add(ticket, answer) {
            return false;
        }
        self.advance_search(key, (now, acts));
        true
    }

    /// Ends the searches whose time is over.
    pub(super) fn end_late_searches(&mut self, now: Ns, acts: &mut Vec<ClusterOutput>) {
        let late = self.searches.iter().filter(|(_, it)| it.deadline <= now);
        let late: Vec<MonitorKey> = late.map(|(key, _)| *key).collect();
        for key in late {
            if let Some(search) = self.searches.get_mut(&key) {
                search.give_up();
            }
            self.advance_search(key, (now, acts));
        }
    }

    fn advance_search(&mut self, key: MonitorKey, (now, acts): (Ns, &mut Vec<ClusterOutput>)) {
        let Some(search) = self.searches.get_mut(&key) else { return };
        if !search.has_all() && !search.waiting.is_empty() {
            return;
        }
        if !search.has_all() && !search.asked_others {
            search.asked_others = true;
            let others = self.others.iter().map(|it| it.name.clone()).collect();
            return self.ask_for_ranks(key, others, (now, acts));
        }
        if let Some(search) = self.searches.remove(&key) {
            self.start_on_nodes(search, (now, acts));
        }
    }

    /// Starts a request on the nodes of its ranks. What no node has is asked of this one, which
    /// says so.
    fn start_on_nodes(&mut self, search: RankSearch, (now, acts): (Ns, &mut Vec<ClusterOutput>)) {
        let RankSearch { conn: from, tag, request, places, failed, .. } = search;
        let places = RankPlaces::Found(places);
        let mut parts = match scope::resolve(&request, &self.own, &self.others, &places) {
            Ok(RequestScope::Here(request)) if failed.is_empty() => {
                let call = Call::Monitor(request);
                return self.input_engine(now, MonitorInput::Called { from, tag, call }, acts);
            }
            Ok(RequestScope::Here(request)) => {
                BTreeMap::from([(self.own.name.clone(), Ok(*request))])
            }
            Ok(RequestScope::Nodes(parts)) => parts,
            Err(refusal) => {
                self.engine.count_refusal_to(from, "monitor", &refusal);
                return reply(from, tag, Err(refusal), acts);
            }
        };
        for (node, why) in failed {
            parts.entry(node).or_insert(Err(why));
        }
        self.fan_out((from, tag), *request, parts, (now, acts));
    }
}

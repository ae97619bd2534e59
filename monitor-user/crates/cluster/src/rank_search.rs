//! What is known of the nodes of the ranks that a request names, while they are looked for.
//!
//! In: the request, and a sample of each node in the form of PMIx. Out: the nodes of each rank.
//! Which nodes are asked, and what follows, is decided in `find_ranks.rs`.

use super::fan_in::timed_out;
use super::message::{ClientIds, Ticket};
use monitor_model::{MonitorRequest, Ns, RankTarget, Refusal, Status, Target};
use monitor_monitors::MonitorKey;
use monitor_protocol::call::Tag;
use monitor_protocol::{Conn, event::Event};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The searches that have not ended.
pub type RankSearches = BTreeMap<MonitorKey, RankSearch>;

/// A request whose ranks are looked for.
pub struct RankSearch {
    /// The connection of the client.
    pub conn: Conn,
    /// The tag of its call.
    pub tag: Option<Tag>,
    /// The client.
    pub client: ClientIds,
    /// The request.
    pub request: Box<MonitorRequest>,
    /// The nodes of each rank so far.
    pub places: HashMap<RankTarget, BTreeSet<String>>,
    /// The nodes that have not replied.
    pub waiting: BTreeMap<Ticket, String>,
    /// The nodes that refuse, and why.
    pub failed: BTreeMap<String, Refusal>,
    /// Whether the other nodes were asked.
    pub asked_others: bool,
    /// When it ends, whatever is missing.
    pub deadline: Ns,
}

impl RankSearch {
    /// One that has asked no node.
    pub fn new(
        (conn, tag): (Conn, Option<Tag>),
        client: ClientIds,
        request: Box<MonitorRequest>,
    ) -> Self {
        let rank = |it: &Target| match it {
            Target::Rank(rank) => Some((rank.clone(), BTreeSet::new())),
            Target::Pid { .. } | Target::Node { .. } => None,
        };
        Self {
            conn,
            tag,
            client,
            places: request.targets.iter().filter_map(rank).collect(),
            request,
            waiting: BTreeMap::new(),
            failed: BTreeMap::new(),
            asked_others: false,
            deadline: Ns(u64::MAX),
        }
    }

    /// Whether each rank is found, and no target is a whole namespace.
    pub fn has_all(&self) -> bool {
        self.places.iter().all(|(target, nodes)| target.rank.is_some() && !nodes.is_empty())
    }

    /// Adds the reply of a node; whether it was one to this search.
    pub fn add(&mut self, ticket: Ticket, answer: &Result<(Event, bool), Refusal>) -> bool {
        let Some(node) = self.waiting.remove(&ticket) else { return false };
        match answer {
            Ok((event, _)) => self.add_sample(&node, event),
            // It has none of them.
            Err(why) if why.status == Status::NotFound => {}
            Err(why) => drop(self.failed.insert(node, why.clone())),
        }
        true
    }

    /// Gives up the nodes that have not replied.
    pub fn give_up(&mut self) {
        for node in std::mem::take(&mut self.waiting).into_values() {
            let why = timed_out(&node);
            let why = Refusal::new(why.status, why.message.unwrap_or_default());
            self.failed.insert(node, why);
        }
    }

    fn add_sample(&mut self, node: &str, event: &Event) {
        let sample = event.sample.as_ref().map(|it| serde_json::from_str(it.get()));
        let Some(Ok(sample)) = sample else { return };
        let mut ranks = Vec::new();
        collect_ranks(&sample, &mut ranks);
        for (target, nodes) in &mut self.places {
            let is_it = |(namespace, rank): &(&str, u64)| {
                *namespace == target.namespace
                    && target.rank.is_none_or(|wanted| u64::from(wanted) == *rank)
            };
            if ranks.iter().any(is_it) {
                nodes.insert(node.to_owned());
            }
        }
    }

    /// The request that a node answers with the ranks that it has.
    pub fn question(&self) -> MonitorRequest {
        MonitorRequest {
            part: "proc".to_owned(),
            fields: Some(vec!["state".to_owned()]),
            targets: self.places.keys().cloned().map(Target::Rank).collect(),
            pmix: true,
            ..MonitorRequest::default()
        }
    }
}

/// The ranks that a sample in the form of PMIx names: `{"pmix.procid":{"nspace":…,"rank":…}}`.
fn collect_ranks<'j>(json: &'j Json, found: &mut Vec<(&'j str, u64)>) {
    match json {
        Json::Array(all) => all.iter().for_each(|it| collect_ranks(it, found)),
        Json::Object(object) => {
            let id = object.get("pmix.procid");
            let rank = id.and_then(|id| Some((id["nspace"].as_str()?, id["rank"].as_u64()?)));
            found.extend(rank);
            object.values().for_each(|it| collect_ranks(it, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_of_a_sample_in_the_form_of_pmix_are_found() {
        let json = r#"[{"pmix.proc.res":[{"pmix.procid":{"nspace":"job","rank":3}}]},
            {"pmix.proc.res":[{"pmix.ppid":8}]}]"#;
        let json: Json = serde_json::from_str(json).expect("JSON");
        let mut found = Vec::new();
        collect_ranks(&json, &mut found);
        assert_eq!(found, [("job", 3)]);
    }
}

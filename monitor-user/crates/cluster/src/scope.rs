//! Resolves the nodes that a request addresses, before any part runs.
//!
//! In: a request, the nodes, and which of them have the ranks that it names. Out: the part of each
//! node: the union of all targets, in any order; with `local_only` those on this node. A node is
//! named by its number, its name, short or fully qualified, or an address.

use monitor_model::{
    MonitorRequest, NodeName, RankTarget, Refusal, Status, Target, scope::Scope as Category,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A node of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Other names and addresses.
    pub aliases: Vec<String>,
}

/// The nodes that have ranks.
pub enum RankPlaces {
    /// This one.
    Here,
    /// Any, now or later.
    Everywhere,
    /// Those of each rank; a rank that none has is one of this node.
    Found(HashMap<RankTarget, BTreeSet<String>>),
}

/// The nodes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestScope {
    /// This node alone.
    Here(Box<MonitorRequest>),
    /// The part of each node; a refusal for an unknown node.
    Nodes(BTreeMap<String, Result<MonitorRequest, Refusal>>),
}

impl Node {
    /// Whether the node has this name.
    pub fn has_name(&self, name: &NodeName) -> bool {
        match name {
            NodeName::Number(number) => *number == self.number,
            NodeName::Name(name) => {
                let short = |name: &str| name.split('.').next().map(str::to_ascii_lowercase);
                name.eq_ignore_ascii_case(&self.name)
                    || self.aliases.iter().any(|it| it.eq_ignore_ascii_case(name))
                    // One of the two is the short form of the other.
                    || (name.contains('.') != self.name.contains('.')
                        && name.parse::<std::net::IpAddr>().is_err()
                        && short(name) == short(&self.name))
            }
        }
    }
}

/// Resolves the nodes of a request.
pub fn resolve(
    request: &MonitorRequest,
    own: &Node,
    others: &[Node],
    places: &RankPlaces,
) -> Result<RequestScope, Refusal> {
    let processes =
        request.part.is_empty() || request.part.parse::<Category>().is_ok_and(Category::processes);
    let mut parts: BTreeMap<String, Result<Vec<Target>, Refusal>> = BTreeMap::new();
    for target in &request.targets {
        for (node, target) in nodes_of_target(target, own, others, places) {
            let part = parts.entry(node).or_insert_with(|| Ok(Vec::new()));
            match (part, target) {
                (Ok(part), Ok(target)) => part.push(target),
                (part, Err(refusal)) => *part = Err(refusal),
                (Err(_), Ok(_)) => {}
            }
        }
    }
    if request.local_only {
        parts.retain(|node, _| *node == own.name);
        if parts.is_empty() && !request.targets.is_empty() {
            let text = "local_only: no target is on this node";
            return Err(Refusal::absent(text));
        }
    }
    let of = |targets: Vec<Target>| MonitorRequest {
        targets: if processes { collapse_to_node(targets) } else { Vec::new() },
        ..request.clone()
    };
    if parts.is_empty() {
        return Ok(RequestScope::Here(Box::new(of(Vec::new()))));
    }
    if let (1, Some(Ok(targets))) = (parts.len(), parts.get(&own.name)) {
        return Ok(RequestScope::Here(Box::new(of(targets.clone()))));
    }
    if let (1, Some((_, Err(refusal)))) = (parts.len(), parts.first_key_value()) {
        return Err(refusal.clone());
    }
    Ok(RequestScope::Nodes(parts.into_iter().map(|(node, part)| (node, part.map(&of))).collect()))
}

/// No targets, if one of them is the whole node.
fn collapse_to_node(targets: Vec<Target>) -> Vec<Target> {
    let all = |it: &Target| matches!(it, Target::Node { .. } | Target::Pid { pid: -1, .. });
    if targets.iter().any(all) { Vec::new() } else { targets }
}

/// The nodes of a target, with the target as seen there.
fn nodes_of_target(
    target: &Target,
    own: &Node,
    others: &[Node],
    places: &RankPlaces,
) -> Vec<(String, Result<Target, Refusal>)> {
    let here = |target: &Target| vec![(own.name.clone(), Ok(target.clone()))];
    match target {
        Target::Pid { node: None, .. } => here(target),
        Target::Pid { pid, node: Some(node) } => {
            node_part(node, own, others, Target::Pid { pid: *pid, node: None })
        }
        Target::Node { node } => node_part(node, own, others, target.clone()),
        Target::Rank(rank) => match places {
            RankPlaces::Here => here(target),
            RankPlaces::Everywhere => {
                let names = std::iter::once(own).chain(others).map(|node| node.name.clone());
                names.map(|name| (name, Ok(target.clone()))).collect()
            }
            RankPlaces::Found(found) => match found.get(rank).filter(|it| !it.is_empty()) {
                Some(nodes) => {
                    nodes.iter().map(|name| (name.clone(), Ok(target.clone()))).collect()
                }
                None => here(target),
            },
        },
    }
}

fn node_part(
    name: &NodeName,
    own: &Node,
    others: &[Node],
    target: Target,
) -> Vec<(String, Result<Target, Refusal>)> {
    if let Some(node) = std::iter::once(own).chain(others).find(|node| node.has_name(name)) {
        return vec![(node.name.clone(), Ok(target))];
    }
    let name = match name {
        NodeName::Number(number) => number.to_string(),
        NodeName::Name(name) => name.clone(),
    };
    let refusal = if others.is_empty() {
        Refusal::new(
            Status::Unreach,
            format!("node {name}: this is {}, without a connection to other nodes", own.name),
        )
    } else {
        Refusal::absent(format!("node {name}: no node has this name or number"))
    };
    vec![(name, Err(refusal))]
}

/// The refusal for an unreachable node.
pub fn unreachable(node: &str) -> Refusal {
    Refusal::new(Status::Unreach, format!("node {node} is unreachable"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::RankTarget;

    fn node(name: &str, number: u32) -> Node {
        Node { name: name.into(), number, ..Node::default() }
    }

    fn nodes() -> [Node; 3] {
        let mut all = [node("a.cluster", 0), node("b", 1), node("c", 2)];
        all[0].aliases.push("10.0.0.1".into());
        all
    }

    fn pid(pid: i64, node: &str) -> Target {
        let node = (!node.is_empty()).then(|| NodeName::Name(node.into()));
        Target::Pid { pid, node }
    }

    /// The resolved nodes, with their number of targets.
    fn check(part: &str, targets: Vec<Target>, local_only: bool) -> Vec<(String, usize)> {
        let [own, b, c] = nodes();
        let request =
            MonitorRequest { part: part.into(), targets, local_only, ..MonitorRequest::default() };
        match resolve(&request, &own, &[b, c], &RankPlaces::Here) {
            Ok(RequestScope::Here(request)) => vec![("here".into(), request.targets.len())],
            Ok(RequestScope::Nodes(parts)) => parts
                .into_iter()
                .map(|(node, part)| (node, part.map_or(99, |it| it.targets.len())))
                .collect(),
            Err(refusal) => vec![(refusal.message, refusal.status.number().unsigned_abs() as _)],
        }
    }

    #[test]
    fn without_targets_a_request_is_for_this_node() {
        assert_eq!(check("proc", vec![], false), [("here".into(), 0)]);
    }

    #[test]
    fn this_node_has_many_names() {
        for name in ["a.cluster", "A", "a", "10.0.0.1"] {
            assert_eq!(check("proc", vec![pid(7, name)], false), [("here".into(), 1)], "{name}");
        }
        assert_eq!(check("proc", vec![pid(7, "a.other")], false)[0].1, 46);
    }

    #[test]
    fn targets_are_a_union_in_any_order() {
        let mut targets = vec![pid(7, ""), pid(8, "b"), pid(-1, "c"), pid(9, "c")];
        let want = [("a.cluster".to_owned(), 1), ("b".into(), 1), ("c".into(), 0)];
        assert_eq!(check("proc", targets.clone(), false), want);
        targets.reverse();
        assert_eq!(check("proc", targets, false), want);
    }

    #[test]
    fn local_only_keeps_the_targets_of_this_node() {
        let targets = vec![pid(8, "b"), pid(7, "")];
        assert_eq!(check("proc", targets, true), [("here".into(), 1)]);
        assert_eq!(check("proc", vec![pid(8, "b")], true)[0].1, 46);
    }

    #[test]
    fn a_rank_is_on_the_nodes_that_have_it() {
        let rank = |rank| RankTarget { namespace: "job".into(), rank };
        let targets = [rank(Some(2)), rank(Some(3)), rank(None), rank(Some(9))];
        let check = |part: &str, places: &RankPlaces| {
            let targets = targets.iter().cloned().map(Target::Rank).collect();
            let part = part.into();
            let request = MonitorRequest { part, targets, ..MonitorRequest::default() };
            let [own, b, c] = nodes();
            match resolve(&request, &own, &[b, c], places) {
                Ok(RequestScope::Here(request)) => vec![("here".to_owned(), request.targets.len())],
                Ok(RequestScope::Nodes(parts)) => {
                    let n_targets = |it: Result<MonitorRequest, Refusal>| it.map(|it| it.targets);
                    let n_targets = |it| n_targets(it).expect("a part").len();
                    parts.into_iter().map(|(node, it)| (node, n_targets(it))).collect()
                }
                Err(refusal) => panic!("{refusal:?}"),
            }
        };
        assert_eq!(check("proc", &RankPlaces::Here), [("here".into(), 4)]);
        let all = |n: usize| ["a.cluster", "b", "c"].map(|name| (name.to_owned(), n));
        assert_eq!(check("proc", &RankPlaces::Everywhere), all(4));
        let set = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let found = [(rank(Some(2)), set(&["b"])), (rank(Some(3)), set(&["c"]))];
        let found = found.into_iter().chain([(rank(None), set(&["b", "c"]))]);
        let places = RankPlaces::Found(found.collect());
        // This node says that no node has rank 9.
        let want = [("a.cluster".to_owned(), 1), ("b".into(), 2), ("c".into(), 2)];
        assert_eq!(check("proc", &places), want);
        // Of another part, the nodes that have them are meant.
        assert_eq!(check("node", &places), all(0));
    }

    #[test]
    fn an_unknown_node_does_not_affect_the_others() {
        let parts = check("proc", vec![pid(1, "z"), pid(8, "b")], false);
        assert_eq!(parts, [("b".into(), 1), ("z".into(), 99)]);
        assert_eq!(check("proc", vec![pid(1, "z")], false)[0].1, 46);
    }

    #[test]
    fn without_a_cluster_other_nodes_are_unreachable() {
        let request = MonitorRequest { targets: vec![pid(1, "b")], ..MonitorRequest::default() };
        let refusal = resolve(&request, &node("a", 0), &[], &RankPlaces::Here);
        let refusal = refusal.expect_err("node b is unknown");
        assert_eq!(refusal.status, Status::Unreach);
    }
}

//! Whom a request means: this node, others, or both. Decided before anything runs.
//!
//! In: a request, and who there is. Out: the part of each node. The union of all targets, whatever
//! their order; `local_only` leaves what is of this node. A node is known by its number, its name,
//! short or fully qualified, or an address.

use monitor_model::request::{NodeName, Rank, Request, Target};
use monitor_model::scope::Scope as Category;
use monitor_model::status::{Refusal, Status};
use std::collections::BTreeMap;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Other names and addresses.
    pub aliases: Vec<String>,
    /// Ranks that are known to be there.
    pub ranks: Vec<Rank>,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    /// This node alone has it all.
    Here(Box<Request>),
    /// Each of these has a part; a node that does not exist has the reason.
    Nodes(BTreeMap<String, Result<Request, Refusal>>),
}

impl Node {
    /// Whether it is called that.
    pub fn is(&self, name: &NodeName) -> bool {
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

    fn hosts(&self, rank: &Rank) -> bool {
        let same = |it: &&Rank| it.namespace == rank.namespace;
        self.ranks.iter().filter(same).any(|it| rank.rank.is_none() || it.rank == rank.rank)
    }
}

/// Whom it means.
pub fn resolve(request: &Request, own: &Node, others: &[Node]) -> Result<Scope, Refusal> {
    let processes =
        request.part.is_empty() || request.part.parse::<Category>().is_ok_and(Category::processes);
    let mut parts: BTreeMap<String, Result<Vec<Target>, Refusal>> = BTreeMap::new();
    for target in &request.targets {
        for (node, target) in places(target, own, others) {
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
            let text = "local_only: none of the targets is of this node";
            return Err(Refusal::absent(text));
        }
    }
    let of = |targets: Vec<Target>| Request {
        targets: if processes { everyone(targets) } else { Vec::new() },
        ..request.clone()
    };
    if parts.is_empty() {
        return Ok(Scope::Here(Box::new(of(Vec::new()))));
    }
    if let (1, Some(Ok(targets))) = (parts.len(), parts.get(&own.name)) {
        return Ok(Scope::Here(Box::new(of(targets.clone()))));
    }
    if let (1, Some((_, Err(refusal)))) = (parts.len(), parts.first_key_value()) {
        return Err(refusal.clone());
    }
    Ok(Scope::Nodes(parts.into_iter().map(|(node, part)| (node, part.map(&of))).collect()))
}

/// All of a node among its targets means that no other needs to be named.
fn everyone(targets: Vec<Target>) -> Vec<Target> {
    let all = |it: &Target| matches!(it, Target::Node { .. } | Target::Pid { pid: -1, .. });
    if targets.iter().any(all) { Vec::new() } else { targets }
}

/// The nodes of a target, each with the target as it is called there.
fn places(target: &Target, own: &Node, others: &[Node]) -> Vec<(String, Result<Target, Refusal>)> {
    let here = |target: &Target| vec![(own.name.clone(), Ok(target.clone()))];
    match target {
        Target::Pid { node: None, .. } => here(target),
        Target::Pid { pid, node: Some(node) } => {
            one(node, own, others, Target::Pid { pid: *pid, node: None })
        }
        Target::Node { node } => one(node, own, others, target.clone()),
        Target::Rank(rank) => {
            let all = std::iter::once(own).chain(others).filter(|node| node.hosts(rank));
            let hosts: Vec<_> = all.map(|node| (node.name.clone(), Ok(target.clone()))).collect();
            // Whoever is known nowhere may still come to be here.
            if hosts.is_empty() { here(target) } else { hosts }
        }
    }
}

fn one(
    name: &NodeName,
    own: &Node,
    others: &[Node],
    target: Target,
) -> Vec<(String, Result<Target, Refusal>)> {
    if let Some(node) = std::iter::once(own).chain(others).find(|node| node.is(name)) {
        return vec![(node.name.clone(), Ok(target))];
    }
    let name = match name {
        NodeName::Number(number) => number.to_string(),
        NodeName::Name(name) => name.clone(),
    };
    let refusal = if others.is_empty() {
        Refusal::new(
            Status::Unreach,
            format!("node {name}: this is {}, and it has no link to others", own.name),
        )
    } else {
        Refusal::absent(format!("node {name}: there is none of that name or number"))
    };
    vec![(name, Err(refusal))]
}

/// A node that cannot be reached.
pub fn unreachable(node: &str) -> Refusal {
    Refusal::new(Status::Unreach, format!("node {node} cannot be reached"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, number: u32) -> Node {
        Node { name: name.into(), number, ..Node::default() }
    }

    fn nodes() -> [Node; 3] {
        let rank = |n| Rank { namespace: "job".into(), rank: Some(n) };
        let mut all = [node("a.cluster", 0), node("b", 1), node("c", 2)];
        all[0].aliases.push("10.0.0.1".into());
        all[0].ranks = vec![rank(0), rank(1)];
        all[2].ranks = vec![rank(2)];
        all
    }

    fn pid(pid: i64, node: &str) -> Target {
        let node = (!node.is_empty()).then(|| NodeName::Name(node.into()));
        Target::Pid { pid, node }
    }

    /// The nodes that are asked, and how many targets each has.
    fn check(part: &str, targets: Vec<Target>, local_only: bool) -> Vec<(String, usize)> {
        let [own, b, c] = nodes();
        let request = Request { part: part.into(), targets, local_only, ..Request::default() };
        match resolve(&request, &own, &[b, c]) {
            Ok(Scope::Here(request)) => vec![("here".into(), request.targets.len())],
            Ok(Scope::Nodes(parts)) => parts
                .into_iter()
                .map(|(node, part)| (node, part.map_or(99, |it| it.targets.len())))
                .collect(),
            Err(refusal) => vec![(refusal.message, refusal.status.number().unsigned_abs() as _)],
        }
    }

    #[test]
    fn nothing_named_is_this_node() {
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
    fn targets_are_a_union_whatever_their_order() {
        let mut targets = vec![pid(7, ""), pid(8, "b"), pid(-1, "c"), pid(9, "c")];
        let want = [("a.cluster".to_owned(), 1), ("b".into(), 1), ("c".into(), 0)];
        assert_eq!(check("proc", targets.clone(), false), want);
        targets.reverse();
        assert_eq!(check("proc", targets, false), want);
    }

    #[test]
    fn local_only_leaves_what_is_of_this_node() {
        let targets = vec![pid(8, "b"), pid(7, "")];
        assert_eq!(check("proc", targets, true), [("here".into(), 1)]);
        assert_eq!(check("proc", vec![pid(8, "b")], true)[0].1, 46);
    }

    #[test]
    fn a_rank_is_where_it_is_known_to_be_and_a_wildcard_everywhere() {
        let rank = |n| Target::Rank(Rank { namespace: "job".into(), rank: n });
        assert_eq!(check("proc", vec![rank(Some(1))], false), [("here".into(), 1)]);
        assert_eq!(check("proc", vec![rank(Some(2)), rank(Some(0))], false).len(), 2);
        assert_eq!(check("proc", vec![rank(None)], false).len(), 2);
        assert_eq!(check("node", vec![rank(None)], false)[1], ("c".into(), 0));
    }

    #[test]
    fn a_node_that_does_not_exist_does_not_lose_the_others() {
        let parts = check("proc", vec![pid(1, "z"), pid(8, "b")], false);
        assert_eq!(parts, [("b".into(), 1), ("z".into(), 99)]);
        assert_eq!(check("proc", vec![pid(1, "z")], false)[0].1, 46);
    }

    #[test]
    fn without_others_a_node_is_out_of_reach() {
        let request = Request { targets: vec![pid(1, "b")], ..Request::default() };
        let refusal = resolve(&request, &node("a", 0), &[]).expect_err("there is no b");
        assert_eq!(refusal.status, Status::Unreach);
    }
}

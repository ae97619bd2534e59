//! The answers of many nodes to one basic request, those that are equal as one.
//!
//! In: answers, in the order in which they come, also ones that were already unified further
//! down a tree of nodes. Out: one answer for each that differs, by its lowest node.
//! One gathering is one basic request at one occurrence: more is never unified.

use super::name::Name;
use super::reply::{Answer, Reply};
use super::request::{Node, RequestId};
use super::status::Status;
use super::value::Value;
use std::collections::HashMap;

/// The answers so far.
#[derive(Clone, Debug)]
pub struct Gathering {
    id: RequestId,
    service: Name,
    nodes: HashMap<(Status, Vec<Value>), Vec<Node>>,
}

impl Gathering {
    /// Nobody has answered.
    pub fn new(id: RequestId, service: Name) -> Self {
        Self { id, service, nodes: HashMap::new() }
    }

    /// Nodes answer.
    pub fn add(&mut self, nodes: &[Node], status: Status, results: Vec<Value>) {
        self.nodes.entry((status, results)).or_default().extend_from_slice(nodes);
    }

    /// Of those that should answer, who has not, ascending.
    pub fn missing(&self, expected: &[Node]) -> Vec<Node> {
        let mut answered: Vec<Node> = self.nodes.values().flatten().copied().collect();
        answered.sort_unstable();
        let is_missing = |node: &&Node| answered.binary_search(node).is_err();
        let mut missing: Vec<Node> = expected.iter().filter(is_missing).copied().collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// What they answered.
    pub fn answers(self) -> Vec<Answer> {
        let (id, service) = (self.id, self.service);
        let mut answers = Vec::with_capacity(self.nodes.len());
        for ((status, results), mut nodes) in self.nodes {
            nodes.sort_unstable();
            nodes.dedup();
            answers.push(Answer { id, nodes, service: service.clone(), status, results });
        }
        // A node that answered twice, and differently, is no reason for a changing order.
        answers.sort_by_cached_key(|answer| (answer.nodes.clone(), answer.to_string()));
        answers
    }
}

impl Reply {
    /// The reply to a request: its basic requests in their order.
    pub fn unified(gatherings: Vec<Gathering>) -> Self {
        Self(gatherings.into_iter().flat_map(Gathering::answers).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop() -> Gathering {
        Gathering::new(RequestId(7.into()), Name::new("stop").unwrap())
    }

    fn gathered(answers: &[(u32, i32, &[i32])]) -> Gathering {
        let mut gathering = stop();
        for (node, status, results) in answers {
            let results = results.iter().map(|result| Value::from(*result)).collect();
            gathering.add(&[Node(*node)], Status(*status), results);
        }
        gathering
    }

    #[track_caller]
    fn check(answers: &[(u32, i32, &[i32])], want: &str) {
        assert_eq!(Reply::unified(vec![gathered(answers)]).to_string(), want);
    }

    #[test]
    fn equal_answers_are_one() {
        check(&[(2, 0, &[5]), (0, 0, &[5]), (1, 0, &[5])], "7 [0,1,2] stop(0,5)");
    }

    #[test]
    fn answers_that_differ_come_by_their_lowest_node() {
        let answers: &[(u32, i32, &[i32])] =
            &[(3, 0, &[]), (2, 301, &[]), (1, 0, &[]), (0, 301, &[1])];
        check(answers, "7 [0] stop(301,1); 7 [1,3] stop(0); 7 [2] stop(301)");
    }

    #[test]
    fn requests_keep_their_order_and_are_never_unified() {
        let reply = Reply::unified(vec![gathered(&[(1, 0, &[])]), gathered(&[(0, 0, &[])])]);
        assert_eq!(reply.to_string(), "7 [1] stop(0); 7 [0] stop(0)");
    }

    #[test]
    fn silent_nodes_are_named() {
        let mut gathering = gathered(&[(1, 0, &[])]);
        let missing = gathering.missing(&[Node(9), Node(1), Node(7)]);
        gathering.add(&missing, Status::NODE_DOWN, vec![]);
        assert_eq!(Reply::unified(vec![gathering]).to_string(), "7 [1] stop(0); 7 [7,9] stop(201)");
    }

    #[test]
    fn inner_nodes_of_a_tree_unify_before_the_root() {
        let mut root = stop();
        for child in [&[(4, 0, &[][..]), (2, 0, &[])], &[(1, 0, &[]), (3, 1, &[])]] {
            for answer in gathered(child).answers() {
                root.add(&answer.nodes, answer.status, answer.results);
            }
        }
        assert_eq!(Reply::unified(vec![root]).to_string(), "7 [1,2,4] stop(0); 7 [3] stop(1)");
    }
}

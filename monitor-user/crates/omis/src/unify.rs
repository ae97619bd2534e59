//! Unification: merges equal answers of many nodes to one basic request.
//!
//! In: answers in order of arrival, possibly unified already by an inner node of a tree.
//! Out: one answer for each distinct result, ordered by its lowest node.
//! Answers to different requests or to different occurrences are never merged.

use super::{Answer, Name, Node, Reply, RequestId, Status, Value};
use std::collections::HashMap;

/// The answers to one basic request received so far, grouped by result.
#[derive(Clone, Debug)]
pub struct AnswerSet {
    id: RequestId,
    service: Name,
    nodes: HashMap<(Status, Vec<Value>), Vec<Node>>,
}

impl AnswerSet {
    /// Creates an empty set for the basic request `id` of `service`.
    pub fn new(id: RequestId, service: Name) -> Self {
        Self { id, service, nodes: HashMap::new() }
    }

    /// Returns the service.
    pub const fn service(&self) -> &Name {
        &self.service
    }

    /// Adds the answer of some nodes.
    pub fn add(&mut self, nodes: &[Node], status: Status, results: Vec<Value>) {
        self.nodes.entry((status, results)).or_default().extend_from_slice(nodes);
    }

    /// Returns the `expected` nodes that have not answered, ascending.
    pub fn missing(&self, expected: &[Node]) -> Vec<Node> {
        let mut answered: Vec<Node> = self.nodes.values().flatten().copied().collect();
        answered.sort_unstable();
        let is_missing = |node: &&Node| answered.binary_search(node).is_err();
        let mut missing: Vec<Node> = expected.iter().filter(is_missing).copied().collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Returns one answer for each distinct result, ordered by lowest node.
    pub fn answers(self) -> Vec<Answer> {
        let (id, service) = (self.id, self.service);
        let mut answers = Vec::with_capacity(self.nodes.len());
        for ((status, results), mut nodes) in self.nodes {
            nodes.sort_unstable();
            nodes.dedup();
            answers.push(Answer { id, nodes, service: service.clone(), status, results });
        }
        // The text breaks ties, so the order is fixed even if one node gave two different answers.
        answers.sort_by_cached_key(|answer| (answer.nodes.clone(), answer.to_string()));
        answers
    }
}

impl Reply {
    /// Builds the reply to a request from the answers to its basic requests, in their order.
    pub fn unified(sets: Vec<AnswerSet>) -> Self {
        Self(sets.into_iter().flat_map(AnswerSet::answers).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop() -> AnswerSet {
        AnswerSet::new(RequestId(7.into()), Name::new("stop").unwrap())
    }

    fn answer_set(answers: &[(u32, i32, &[i32])]) -> AnswerSet {
        let mut set = stop();
        for (node, status, results) in answers {
            let results = results.iter().map(|result| Value::from(*result)).collect();
            set.add(&[Node(*node)], Status(*status), results);
        }
        set
    }

    #[track_caller]
    fn check(answers: &[(u32, i32, &[i32])], want: &str) {
        assert_eq!(Reply::unified(vec![answer_set(answers)]).to_string(), want);
    }

    #[test]
    fn equal_answers_are_merged() {
        check(&[(2, 0, &[5]), (0, 0, &[5]), (1, 0, &[5])], "7 [0,1,2] stop(0,5)");
    }

    #[test]
    fn different_answers_are_ordered_by_their_lowest_node() {
        let answers: &[(u32, i32, &[i32])] =
            &[(3, 0, &[]), (2, 301, &[]), (1, 0, &[]), (0, 301, &[1])];
        check(answers, "7 [0] stop(301,1); 7 [1,3] stop(0); 7 [2] stop(301)");
    }

    #[test]
    fn answers_to_different_requests_are_never_merged() {
        let reply = Reply::unified(vec![answer_set(&[(1, 0, &[])]), answer_set(&[(0, 0, &[])])]);
        assert_eq!(reply.to_string(), "7 [1] stop(0); 7 [0] stop(0)");
    }

    #[test]
    fn nodes_that_did_not_answer_are_listed() {
        let mut set = answer_set(&[(1, 0, &[])]);
        let missing = set.missing(&[Node(9), Node(1), Node(7)]);
        set.add(&missing, Status::NODE_DOWN, vec![]);
        assert_eq!(Reply::unified(vec![set]).to_string(), "7 [1] stop(0); 7 [7,9] stop(201)");
    }

    #[test]
    fn answers_unified_by_inner_nodes_are_merged_again_at_the_root() {
        let mut root = stop();
        for child in [&[(4, 0, &[][..]), (2, 0, &[])], &[(1, 0, &[]), (3, 1, &[])]] {
            for answer in answer_set(child).answers() {
                root.add(&answer.nodes, answer.status, answer.results);
            }
        }
        assert_eq!(Reply::unified(vec![root]).to_string(), "7 [1,2,4] stop(0); 7 [3] stop(1)");
    }
}

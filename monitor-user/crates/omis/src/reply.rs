//! A reply as data: what each service answered, on which nodes.
//!
//! One reply answers an unconditional request, the definition of a conditional one, or one
//! occurrence of its event; its line is the same in all three cases.

use super::dialect::Dialect;
use super::name::Name;
use super::request::{Node, RequestId};
use super::status::Status;
use super::value::Value;

/// One line of the monitor. There is at least one answer in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply(pub Vec<Answer>);

/// A basic reply: what one service answered on nodes that all answered the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The number of the basic request.
    pub id: RequestId,
    /// Who answers so, ascending; no node, if the line was understood by none.
    pub nodes: Vec<Node>,
    /// The service.
    pub service: Name,
    /// The first result.
    pub status: Status,
    /// The other results.
    pub results: Vec<Value>,
}

impl Answer {
    /// A refusal; what the specification does not know, the reason and the system's error number,
    /// is left out where only the specification counts.
    pub fn with_reason(mut self, errno: i32, reason: &str, dialect: Dialect) -> Self {
        if dialect == Dialect::Extended && !self.status.is_success() {
            self.results.extend([Value::from(errno), Value::from(reason)]);
        }
        self
    }

    /// Whether it says no more than that the service was done.
    pub fn is_acknowledge(&self) -> bool {
        self.status == Status::OK && self.results.is_empty()
    }
}

impl Reply {
    /// Whether it says no more than that all was done.
    ///
    /// At the occurrence of an event such a reply is not sent, as in the example of the
    /// specification (5.3.1); an unconditional request is always answered.
    pub fn is_acknowledge(&self) -> bool {
        self.0.iter().all(Answer::is_acknowledge)
    }

    /// What one node answered.
    pub fn of_node(&self, node: Node) -> impl Iterator<Item = &Answer> {
        self.0.iter().filter(move |answer| answer.nodes.contains(&node))
    }

    /// The worst that happened: the first status that is no success, else the highest.
    pub fn status(&self) -> Status {
        let statuses = || self.0.iter().map(|answer| answer.status);
        let failed = statuses().find(|status| !status.is_success());
        failed.or_else(|| statuses().max()).unwrap_or(Status::OK)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn reply(line: &str) -> Reply {
        parse::reply(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_reply_of_acknowledges_only_is_known() {
        assert!(reply("1 [0] stop(0); 2 [1] enable(0)").is_acknowledge());
        assert!(!reply("1 [0] stop(0); 2 [1] read_memory(0,[])").is_acknowledge());
        assert!(!reply("1 [0] stop(301)").is_acknowledge());
    }

    #[test]
    fn the_first_failure_is_the_status_of_a_reply() {
        assert_eq!(reply("1 [0] stop(0); 2 [1] stop(301); 3 [1] stop(900)").status(), Status::GONE);
        assert_eq!(reply("1 [0] stop(2); 2 [1] stop(1)").status(), Status::OK_DEGRADED);
    }

    #[test]
    fn a_node_has_its_own_answers() {
        let reply = reply("1 [0,2] stop(0); 1 [1] stop(301); 2 [0] enable(0)");
        let answers = reply.of_node(Node(0)).map(|answer| answer.service.as_str());
        assert_eq!(Vec::from_iter(answers), ["stop", "enable"]);
        assert_eq!(reply.of_node(Node(3)).count(), 0);
    }

    #[test]
    fn the_reason_is_left_out_where_only_the_specification_counts() {
        let refused = || reply("1 [0] stop(400)").0.remove(0);
        let told = refused().with_reason(1, "not yours", Dialect::Extended);
        assert_eq!(told.to_string(), r#"1 [0] stop(400,1,"not yours")"#);
        let strict = refused().with_reason(1, "not yours", Dialect::Strict);
        assert_eq!(strict.to_string(), "1 [0] stop(400)");
    }
}

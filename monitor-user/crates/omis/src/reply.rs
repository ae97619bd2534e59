//! A reply as data: the results of each service, by node.
//!
//! One reply answers an unconditional request, the definition of a conditional request, or one
//! occurrence of its event; the line has the same form in all three cases. No I/O.

use super::{Name, Node, RequestId, Status, Value};

/// One line sent by the monitor: at least one answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply(pub Vec<Answer>);

/// A basic reply: the results of one service, on all nodes that returned the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The number of the basic request.
    pub id: RequestId,
    /// The nodes that answered this, ascending; empty if the line did not parse.
    pub nodes: Vec<Node>,
    /// The name of the service.
    pub service: Name,
    /// The first result.
    pub status: Status,
    /// The other results.
    pub results: Vec<Value>,
}

impl Answer {
    /// Returns whether the answer is status 0 without results.
    pub fn is_acknowledge(&self) -> bool {
        self.status == Status::OK && self.results.is_empty()
    }
}

impl Reply {
    /// Returns whether every answer is status 0 without results.
    ///
    /// Such a reply is not sent for an occurrence of an event, as in the example of the
    /// specification (5.3.1); an unconditional request is always answered.
    pub fn is_acknowledge(&self) -> bool {
        self.0.iter().all(Answer::is_acknowledge)
    }

    /// Returns the first status that is a failure, else the highest status.
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
    fn a_reply_without_results_or_failures_is_an_acknowledgement() {
        assert!(reply("1 [0] stop(0); 2 [1] enable(0)").is_acknowledge());
        assert!(!reply("1 [0] stop(0); 2 [1] read_memory(0,[])").is_acknowledge());
        assert!(!reply("1 [0] stop(301)").is_acknowledge());
    }

    #[test]
    fn the_first_failure_is_the_status_of_a_reply() {
        assert_eq!(reply("1 [0] stop(0); 2 [1] stop(301); 3 [1] stop(900)").status(), Status::GONE);
        assert_eq!(reply("1 [0] stop(2); 2 [1] stop(1)").status(), Status::OK_DEGRADED);
    }
}

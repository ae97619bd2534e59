//! `monitor when --nodes --total-above`: what is done once, when all nodes together have more than
//! a number of events.
//!
//! In: events of the nodes, in the order of their arrival; what each node has sent. Out: the event
//! that exceeds the number, lines that say so, and a signal to the watched processes of all nodes,
//! by one command in the order of the cluster: each node executes it at most once.

use super::watched_processes::WatchedProcesses;
use crate::cli::exit::{Exit, Failure};
use crate::cli::followed_nodes::{FollowedNodes, NodeCount};
use crate::cli::job::job_on_nodes::call;
use crate::cli::node_replies::MissingNodes;
use crate::cli::output;
use monitor_client::Client;
use monitor_cluster::node_set::fold;
use monitor_format::{events, human};
use monitor_model::event::Signal;
use monitor_protocol::cluster::NodeOutcome;
use serde_json::{Value as Json, json};
use std::time::Duration;

/// The number of events of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTotal {
    n: u64,
    above: u64,
}

impl EventTotal {
    /// No event; `above` is the number that is to be exceeded.
    pub const fn new(above: u64) -> Self {
        Self { n: 0, above }
    }

    /// Counts an event; whether it is the one that exceeds the number. No later one is.
    pub fn count(&mut self) -> bool {
        self.n += 1;
        self.n.checked_sub(1) == Some(self.above)
    }

    /// Whether the number is exceeded.
    pub const fn is_exceeded(self) -> bool {
        self.n > self.above
    }

    /// What is printed when the number is exceeded, or was not until the end.
    pub fn text(self, nodes: &FollowedNodes) -> String {
        self.line(nodes.is_complete())
    }

    fn line(self, is_complete: bool) -> String {
        let Self { n, above } = self;
        let least = if is_complete { "" } else { "at least " };
        let is_not = if self.is_exceeded() { "" } else { "not " };
        format!("total {least}{n}, {is_not}above {above}")
    }

    /// The same as an object, with what each node has sent.
    pub fn to_json(self, nodes: &FollowedNodes) -> Json {
        let of_nodes: Vec<Json> = nodes.counts().iter().map(count_json).collect();
        json!({
            "schema_version": 1, "event": "total", "total": self.n, "above": self.above,
            "is_complete": nodes.is_complete(), "nodes": of_nodes,
        })
    }
}

fn count_json(NodeCount { node, n, lost, is_complete }: &NodeCount) -> Json {
    json!({ "node": node, "events": n, "lost": lost, "is_complete": is_complete })
}

/// What became of a signal to the processes of all nodes.
pub struct SignalledNodes {
    number: u32,
    /// The nodes that have sent it to a process.
    nodes: Vec<String>,
    /// The number of processes, if that is known.
    n_processes: Option<usize>,
    missing: MissingNodes,
    is_denied: bool,
}

impl SignalledNodes {
    /// Lets all nodes send a signal to the watched processes.
    ///
    /// # Errors
    /// The service does not answer.
    pub async fn signal(
        client: &Client,
        on: (&str, Duration),
        (watched, number): (&WatchedProcesses, u32),
    ) -> Result<Self, Failure> {
        let called = call(client, on, &watched.signal(number)).await?;
        // A node without the job has nothing to do.
        let (mut missing, is_denied) = (called.missing, called.is_denied);
        let (mut nodes, mut n_processes) = (Vec::new(), Some(0));
        for (node, results) in called.results {
            let refused = watched.n_refused(&results);
            if refused > 0 {
                let why = format!("{refused} processes did not get the signal");
                missing.add(&node, (NodeOutcome::Refused, &why));
            }
            let n = watched.n_signalled(&results);
            n_processes = n_processes.zip(n).map(|(sum, n)| sum + n);
            if n != Some(0) {
                nodes.push(node);
            }
        }
        Ok(Self { number, nodes, n_processes, missing, is_denied })
    }

    /// What is printed of it.
    pub fn text(&self) -> String {
        let what = format!("sent {} to", self.name());
        let nodes = human::escaped_text(&self.set());
        match self.n_processes {
            _ if self.nodes.is_empty() => format!("{what} no process"),
            Some(1) => format!("{what} 1 process on {nodes}"),
            Some(n) => format!("{what} {n} processes on {nodes}"),
            None => format!("{what} the ranks on {nodes}"),
        }
    }

    /// The same as an object.
    pub fn to_json(&self) -> Json {
        json!({
            "schema_version": 1, "event": "signalled",
            "signal": { "number": self.number, "name": self.name() },
            "nodes": self.set(), "n_nodes": self.nodes.len(), "processes": self.n_processes,
            "missing": self.missing.to_json(),
        })
    }

    /// Prints the nodes that have not done it, and makes the exit code.
    pub fn end(&self) -> Exit {
        let exit = self.missing.end(self.nodes.len(), Exit::Ok);
        if self.is_denied && self.nodes.is_empty() { Exit::Denied } else { exit }
    }

    fn set(&self) -> String {
        fold(self.nodes.iter().map(String::as_str))
    }

    fn name(&self) -> String {
        events::signal_name(&Signal { number: self.number, code: 0, thread: None })
    }
}

/// A line of a total or of a signal: the text, or the object.
///
/// # Errors
/// The object has no form.
pub fn line(text: String, object: &Json, is_json: bool) -> Result<String, Failure> {
    if is_json { output::json(object) } else { Ok(text + "\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_exceeded_by_one_event_alone() {
        let mut total = EventTotal::new(2);
        let exceeding: Vec<bool> = (0..6).map(|_| total.count()).collect();
        assert_eq!(exceeding, [false, false, true, false, false, false]);
        assert!(EventTotal::new(0).count());
        assert!(!EventTotal::new(u64::MAX).count());
    }

    #[test]
    fn a_total_says_whether_it_may_be_more() {
        let (mut total, mut lines) = (EventTotal::new(1), Vec::new());
        for is_complete in [true, false] {
            let _exceeds = total.count();
            lines.push(total.line(is_complete));
        }
        assert_eq!(lines, ["total 1, not above 1", "total at least 2, above 1"]);
    }

    #[test]
    fn a_signal_is_printed_with_its_nodes() {
        let nodes = |n: usize| ["n1", "n2", "n3"][..n].iter().map(|it| (*it).to_owned()).collect();
        let text = |n: usize, n_processes| {
            let missing = MissingNodes::default();
            let (number, nodes, is_denied) = (15, nodes(n), false);
            SignalledNodes { number, nodes, n_processes, missing, is_denied }.text()
        };
        assert_eq!(text(3, Some(4)), "sent SIGTERM to 4 processes on n[1-3]");
        assert_eq!(text(1, Some(1)), "sent SIGTERM to 1 process on n1");
        assert_eq!(text(2, None), "sent SIGTERM to the ranks on n[1-2]");
        assert_eq!(text(0, Some(0)), "sent SIGTERM to no process");
    }
}

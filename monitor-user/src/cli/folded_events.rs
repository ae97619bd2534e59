//! Events of many nodes, equal ones as one line: `n[001-127]: 2026-11-29T10:00:00Z 77 failed`.
//!
//! In: events with the name of their node. Out: lines, a moment later. What a line has of its node
//! alone, such as a pid, is left out where several nodes have the event; events of one node are
//! printed each as it is.

use monitor_cluster::node_set::fold;
use monitor_format::human;
use monitor_model::id::Ns;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// How long an event waits for those of other nodes.
const WAIT: Duration = Duration::from_millis(300);
/// The most events that wait: with more they are printed at once.
const MAX_WAITING: usize = 4096;

/// An event of a node.
#[derive(Clone, Debug)]
pub struct NodeEvent {
    /// The name of the node.
    pub node: String,
    /// When it was there, or came.
    pub at: Ns,
    /// What it is on any node.
    pub what: String,
    /// What it is on this one.
    pub text: String,
}

/// The events that wait.
#[derive(Debug, Default)]
pub struct FoldedEvents {
    /// Those that are the same, in the order of the first.
    groups: Vec<Vec<NodeEvent>>,
    n_waiting: usize,
    due: Option<Instant>,
}

impl FoldedEvents {
    /// Adds an event.
    pub fn add(&mut self, event: NodeEvent) {
        self.n_waiting += 1;
        let wait = if self.n_waiting < MAX_WAITING { WAIT } else { Duration::ZERO };
        let due = Instant::now() + wait;
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        match self.groups.iter_mut().find(|it| it[0].what == event.what) {
            Some(group) => group.push(event),
            None => self.groups.push(vec![event]),
        }
    }

    /// When the lines are to be taken.
    pub const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The lines of all that wait.
    pub fn take(&mut self) -> String {
        (self.due, self.n_waiting) = (None, 0);
        self.groups.drain(..).map(|group| lines(&group)).collect()
    }
}

fn lines(group: &[NodeEvent]) -> String {
    let nodes: BTreeSet<&str> = group.iter().map(|it| it.node.as_str()).collect();
    if nodes.len() == 1 {
        return group.iter().map(|it| line(&it.node, it.at, &it.text)).collect();
    }
    let (first, rest) = (&group[0], &group[1..]);
    let is_same = rest.iter().all(|it| it.text == first.text);
    let mut text = if is_same { first.text.clone() } else { first.what.clone() };
    if group.len() > nodes.len() {
        text += &format!(" ({} times)", group.len());
    }
    let at = group.iter().map(|it| it.at).min().unwrap_or(first.at);
    line(&fold(nodes), at, &text)
}

fn line(nodes: &str, at: Ns, text: &str) -> String {
    let mut out = format!("{}: ", human::escaped_text(nodes));
    human::timestamp(at, &mut out);
    out + &format!(" {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(node: &str, what: &str, text: &str) -> NodeEvent {
        let (node, at) = (node.to_owned(), Ns(5_000_000_000));
        NodeEvent { node, at, what: what.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn an_event_of_several_nodes_is_one_line() {
        let mut folded = FoldedEvents::default();
        for node in ["n1", "n2", "n3"] {
            folded.add(event(node, "77 running", "77 running: 2 ranks"));
        }
        folded.add(event("n1", "oom kill", "oom kill: pid 7"));
        folded.add(event("n1", "oom kill", "oom kill: pid 8"));
        for (node, text) in [("n2", "ended: 1s"), ("n3", "ended: 2s"), ("n3", "ended: 3s")] {
            folded.add(event(node, "ended", text));
        }
        assert!(folded.due().is_some());
        let at = "1970-01-01T00:00:05Z";
        let want = format!(
            "n[1-3]: {at} 77 running: 2 ranks\nn1: {at} oom kill: pid 7\nn1: {at} oom kill: pid 8\n\
             n[2-3]: {at} ended (3 times)\n"
        );
        assert_eq!(folded.take(), want);
        assert_eq!((folded.take(), folded.due()), (String::new(), None));
    }
}

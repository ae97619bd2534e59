//! Nodes that execute lines and go on to send: what a command prints of their state.
//!
//! In: a set of nodes, lines, the notices of the service. Out: the lines of each node, and on
//! standard error the nodes that do not begin, that come later or go, and at the end what each has
//! sent and what was lost. Nodes with the same update are one line.

use super::exit::{Exit, Failure};
use super::node_blocks::blocks;
use super::output::notice;
use super::run_loop::tick;
use monitor_client::{Client, Follow, FollowNotice, FollowedState, Following};
use monitor_model::id::Ns;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long updates of nodes wait for those of others: they are printed together.
const UPDATE_WAIT: Duration = Duration::from_millis(100);

/// What is counted of each node.
#[derive(Clone, Copy, Debug)]
pub struct CountedName {
    /// One of them.
    pub one: &'static str,
    /// Several.
    pub many: &'static str,
    /// Whether there are at least as many where something is missing.
    pub is_total: bool,
}

impl CountedName {
    fn count(self, n: u64) -> String {
        format!("{n} {}", if n == 1 { self.one } else { self.many })
    }
}

/// What a node has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCount {
    /// The name of the node.
    pub node: String,
    /// The number that has come.
    pub n: u64,
    /// Lines that were lost.
    pub lost: u64,
    /// Whether nothing is missing: it was followed all the time, and nothing was lost.
    pub is_complete: bool,
}

/// The nodes that are followed.
pub struct FollowedNodes {
    following: Following,
    counted: CountedName,
    nodes: BTreeMap<String, FollowedNode>,
    /// Updates that are not printed yet, by node.
    updates: Vec<(String, String)>,
    updates_due: Option<Instant>,
}

/// A node.
#[derive(Debug, Default)]
struct FollowedNode {
    /// `None` while it is not known whether it begins.
    state: Option<FollowedState>,
    /// It has sent what was asked for.
    is_done: bool,
    /// Whether it has executed the lines at any time.
    has_begun: bool,
    n: u64,
    lost: u64,
    /// What was lost and is not among the updates yet.
    unprinted_lost: u64,
    /// Whether it was not followed for a time, so that it is not known what there was.
    had_gap: bool,
}

impl FollowedNode {
    /// Whether further lines may come.
    fn may_send(&self) -> bool {
        use FollowedState::{Dead, Expired, Left, Refused};
        !self.is_done && !matches!(self.state, Some(Refused | Expired | Left | Dead))
    }

    /// Whether nothing of what it had is missing.
    fn is_complete(&self) -> bool {
        let is_followed = self.is_done || self.state == Some(FollowedState::Open);
        is_followed && !self.had_gap && self.lost == 0
    }
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub enum FollowedItem {
    /// A line of a node, with its number since the node began.
    Line(String, u64, String),
    /// The state of a node has changed, so that it may have nothing to send any longer.
    Changed,
}

impl FollowedNodes {
    /// Lets the nodes of a set execute lines, and follows them.
    ///
    /// # Errors
    /// The service refuses it: the set is none, or this node is in no cluster.
    pub async fn start(
        client: &Client,
        (nodes, within): (&str, Duration),
        lines: Vec<String>,
        counted: CountedName,
    ) -> Result<Self, Failure> {
        let (nodes, within_ns) = (Some(nodes.to_owned()), Some(Ns::from(within).0));
        let following = client.follow(&Follow { nodes, lines, within_ns }).await?;
        let names = following.followed().nodes.iter();
        let nodes = names.map(|name| (name.clone(), FollowedNode::default())).collect();
        Ok(Self { following, counted, nodes, updates: Vec::new(), updates_due: None })
    }

    /// Waits for the next item, and prints updates of nodes meanwhile. Cancel safe.
    ///
    /// # Errors
    /// The connection to the service is lost.
    pub async fn next(&mut self) -> Result<FollowedItem, Failure> {
        loop {
            let due = self.updates_due;
            tokio::select! {
                biased;
                () = tick(due) => self.print_updates(),
                notice = self.following.next() => {
                    let lost = || Failure {
                        message: "the service has closed the connection".to_owned(),
                        exit: Exit::NoDaemon,
                    };
                    return Ok(self.note(notice.ok_or_else(lost)?));
                }
            }
        }
    }

    fn note(&mut self, notice: FollowNotice) -> FollowedItem {
        let FollowNotice { node: name, state, line, seq, lost, why, .. } = notice;
        let is_new = !self.nodes.contains_key(&name);
        let node = self.nodes.entry(name.clone()).or_default();
        if node.is_done {
            return FollowedItem::Changed;
        }
        node.lost += lost;
        node.unprinted_lost += lost;
        if let Some(state) = state {
            let before = node.state.replace(state);
            node.has_begun |= state == FollowedState::Open;
            // The session of a silent node goes on, and its lines have numbers.
            node.had_gap |= !matches!(state, FollowedState::Open | FollowedState::Silent);
            if let Some(text) = update_text((before, is_new), state, why.as_deref()) {
                self.add_update(name.clone(), text);
            }
        } else if let Some(why) = why {
            self.add_update(name.clone(), why);
        }
        if lost > 0 {
            self.updates_due.get_or_insert_with(|| Instant::now() + UPDATE_WAIT);
        }
        match line {
            Some(line) => FollowedItem::Line(name, seq.unwrap_or_default(), line),
            None => FollowedItem::Changed,
        }
    }

    /// Counts what a node has sent.
    pub fn count(&mut self, name: &str, n: u64) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.n += n;
        }
    }

    /// Counts what a node has lost before it was sent.
    pub fn count_lost(&mut self, name: &str, n: u64) {
        if n > 0
            && let Some(node) = self.nodes.get_mut(name)
        {
            node.lost += n;
            node.unprinted_lost += n;
            self.updates_due.get_or_insert_with(|| Instant::now() + UPDATE_WAIT);
        }
    }

    /// Notes that a node has sent what was asked for.
    pub fn done(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.is_done = true;
        }
    }

    /// Notes that a node does not do what was asked for; why. What it refuses after that follows
    /// from it.
    pub fn refused(&mut self, name: &str, why: &str) {
        if let Some(node) = self.nodes.get_mut(name)
            && node.state != Some(FollowedState::Refused)
        {
            (node.state, node.has_begun) = (Some(FollowedState::Refused), false);
            self.add_update(name.to_owned(), format!("refused: {why}"));
        }
    }

    /// Notes that a node has had something that is not known here; why.
    pub fn incomplete(&mut self, name: &str, why: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.had_gap = true;
            self.add_update(name.to_owned(), why.to_owned());
        }
    }

    /// What each node has sent, by name.
    pub fn counts(&self) -> Vec<NodeCount> {
        let count = |(name, node): (&String, &FollowedNode)| NodeCount {
            node: name.clone(),
            n: node.n,
            lost: node.lost,
            is_complete: node.is_complete(),
        };
        self.nodes.iter().map(count).collect()
    }

    /// Whether nothing of any node is missing.
    pub fn is_complete(&self) -> bool {
        self.nodes.values().all(FollowedNode::is_complete)
    }

    /// Number of nodes that send now.
    pub fn n_sending(&self) -> usize {
        let is_open = |it: &&FollowedNode| it.may_send() && it.state == Some(FollowedState::Open);
        self.nodes.values().filter(is_open).count()
    }

    /// The nodes that send now.
    pub fn sending(&self) -> Vec<String> {
        let is_open = |it: &FollowedNode| it.may_send() && it.state == Some(FollowedState::Open);
        self.nodes.iter().filter(|(_, it)| is_open(it)).map(|(name, _)| name.clone()).collect()
    }

    /// Whether no line can come any longer, unless a node joins.
    pub fn is_over(&self) -> bool {
        !self.nodes.values().any(FollowedNode::may_send)
    }

    /// Prints what each node has sent, and returns the exit code: that of what was printed, unless
    /// nodes were missing.
    pub fn end(mut self, exit: Exit) -> Exit {
        self.print_updates();
        let begun = || self.nodes.iter().filter(|(_, node)| node.has_begun);
        let text = |node: &FollowedNode, is_complete: bool| {
            let least = if self.counted.is_total && !is_complete { "at least " } else { "" };
            let count = self.counted.count(node.n);
            match node.lost {
                0 => format!("{least}{count}"),
                lost => format!("{least}{count}, {lost} lost"),
            }
        };
        let of_node = |node: &FollowedNode| text(node, node.is_complete());
        for block in blocks(begun().map(|(name, node)| (name.as_str(), of_node(node)))) {
            notice(&format!("{}: {}", block.set(), block.text));
        }
        let sum = |part: fn(&FollowedNode) -> u64| begun().map(|(_, node)| part(node)).sum::<u64>();
        let n_begun = begun().count();
        if n_begun > 1 {
            let all = FollowedNode {
                n: sum(|node| node.n),
                lost: sum(|node| node.lost),
                ..FollowedNode::default()
            };
            notice(&format!("{n_begun} nodes: {}", text(&all, self.is_complete())));
        }
        let is_whole = |node: &FollowedNode| {
            node.is_done || node.has_begun && node.state == Some(FollowedState::Open)
        };
        let is_complete = !self.counted.is_total || self.is_complete();
        let are_whole = is_complete && self.nodes.values().all(is_whole);
        match (exit, n_begun, are_whole) {
            (Exit::Ok, 0, _) => Exit::Failed,
            (Exit::Ok, _, false) => Exit::Partial,
            (exit, ..) => exit,
        }
    }

    fn add_update(&mut self, name: String, text: String) {
        self.updates.push((name, text));
        self.updates_due.get_or_insert_with(|| Instant::now() + UPDATE_WAIT);
    }

    /// Prints the updates of all nodes, equal ones once.
    pub fn print_updates(&mut self) {
        self.updates_due = None;
        for (name, node) in &mut self.nodes {
            if node.unprinted_lost > 0 {
                let lost = std::mem::take(&mut node.unprinted_lost);
                self.updates.push((name.clone(), format!("{lost} lost")));
            }
        }
        let updates = std::mem::take(&mut self.updates);
        for block in blocks(updates.iter().map(|(name, text)| (name.as_str(), text.as_str()))) {
            notice(&format!("{}: {}", block.set(), block.text));
        }
    }
}

/// What is printed of a state; nothing of a node that begins as expected.
fn update_text(
    (before, is_new): (Option<FollowedState>, bool),
    state: FollowedState,
    why: Option<&str>,
) -> Option<String> {
    let text = match (before, state) {
        (None, FollowedState::Open) if is_new => "has joined".to_owned(),
        (None, FollowedState::Open) => return None,
        (Some(_), FollowedState::Open) => "is followed again".to_owned(),
        (_, FollowedState::Expired) => "expired: not executed in time".to_owned(),
        (_, FollowedState::Missing) => "missing: no reply: it may have begun".to_owned(),
        (_, FollowedState::Silent) => "gives no sign of life".to_owned(),
        (_, FollowedState::Left) => "has left the cluster".to_owned(),
        (_, FollowedState::Dead) => "is dead: removed from the cluster".to_owned(),
        (_, FollowedState::Refused | FollowedState::Interrupted) => state.name().to_owned(),
    };
    Some(why.map_or(text.clone(), |why| format!("{text}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use FollowedState::{Dead, Expired, Open, Refused, Silent};

    #[test]
    fn a_count_is_complete_unless_something_was_lost_or_not_followed() {
        let open = || FollowedNode { state: Some(Open), n: 3, ..FollowedNode::default() };
        assert!(open().is_complete());
        assert!(!FollowedNode { lost: 1, ..open() }.is_complete());
        // It was removed and is followed again: what happened meanwhile is not known.
        assert!(!FollowedNode { had_gap: true, ..open() }.is_complete());
        for state in [Silent, Dead, Refused] {
            assert!(!FollowedNode { state: Some(state), ..open() }.is_complete());
        }
        assert!(FollowedNode { state: Some(Dead), is_done: true, ..open() }.is_complete());
    }

    #[test]
    fn a_node_that_comes_later_or_goes_is_named() {
        let text = |before, state, why| update_text(before, state, why);
        assert_eq!(text((None, false), Open, None), None);
        assert_eq!(text((None, true), Open, None).as_deref(), Some("has joined"));
        assert_eq!(text((Some(Dead), false), Open, None).as_deref(), Some("is followed again"));
        let refused = text((None, false), Refused, Some("no such member"));
        assert_eq!(refused.as_deref(), Some("refused: no such member"));
        let expired = text((None, false), Expired, None);
        assert_eq!(expired.as_deref(), Some("expired: not executed in time"));
    }
}

//! The nodes of the simulator, and which of them is due next.
//!
//! In: changes of nodes. Out: when a node has something to do that is no packet. Only nodes that
//! were changed are asked again when they are due, so that there may be many.

use super::network::{SimNetwork, SimPort};
use crate::bus::entry::Seq;
use crate::command::executor::PAUSE;
use crate::command::ledger::MemoryLedger;
use crate::command::node::CommandNode;
use std::collections::{BTreeSet, HashMap};
use std::ops::{Index, IndexMut};

/// A node.
pub struct SimNode {
    pub name: String,
    /// Boot clock minus true time.
    pub boot: u64,
    pub ledger: MemoryLedger,
    pub running: Option<(CommandNode<MemoryLedger>, SimPort)>,
    /// Until when it is stopped, disconnected, or not started.
    pub paused_until: u64,
    pub paused_since: u64,
    pub cut_until: u64,
    pub down_until: u64,
    /// The last executed position, and of which generation of the log.
    pub last: (u64, Seq),
    /// Executions that take a time.
    pub ends: Vec<(u64, Seq)>,
}

impl SimNode {
    /// A node that has not been started.
    pub fn new((name, boot): (String, u64), ledger: MemoryLedger) -> Self {
        Self {
            name,
            boot,
            ledger,
            running: None,
            paused_until: 0,
            paused_since: 0,
            cut_until: 0,
            down_until: 0,
            last: (0, Seq(0)),
            ends: Vec::new(),
        }
    }

    /// Whether the node was removed by the end of a pause of more than a second, and a position is
    /// one from before.
    pub fn is_removed_in_pause(&self, now: u64, seq: Seq, network: &SimNetwork) -> bool {
        let was_long = self.paused_until.saturating_sub(self.paused_since) > PAUSE.0;
        let shared = network.lock();
        was_long
            && self.paused_until <= now
            && shared.removals.iter().any(|removal| {
                removal.node == self.name && removal.at <= self.paused_until && seq < removal.seq
            })
    }

    /// When something is to be done that is no packet.
    fn due(&self) -> u64 {
        let Some((commands, _)) = &self.running else { return self.down_until };
        let ends = self.ends.iter().map(|(at, _)| *at);
        ends.fold(commands.due().0 - self.boot, u64::min).max(self.paused_until)
    }
}

/// All nodes.
pub struct SimNodes {
    nodes: Vec<SimNode>,
    /// Those that may be due at another time than is known.
    changed: BTreeSet<usize>,
    /// When each is due, as far as is known.
    due_of: Vec<u64>,
    /// The same, in the order of time.
    due: BTreeSet<(u64, usize)>,
    by_port: HashMap<u64, usize>,
    by_name: HashMap<String, usize>,
}

impl SimNodes {
    pub fn new(nodes: Vec<SimNode>) -> Self {
        let due_of: Vec<u64> = nodes.iter().map(SimNode::due).collect();
        let due = due_of.iter().enumerate().map(|(index, at)| (*at, index)).collect();
        let by_name = nodes.iter().enumerate().map(|(index, node)| (node.name.clone(), index));
        let by_name = by_name.collect();
        let (changed, by_port) = (BTreeSet::new(), HashMap::new());
        Self { nodes, changed, due_of, due, by_port, by_name }
    }

    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The index of a node by its name.
    pub fn by_name(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The index of the node that has a port.
    pub fn by_port(&self, port: u64) -> Option<usize> {
        self.by_port.get(&port).copied()
    }

    /// Notes which node has a port now.
    pub fn connected(&mut self, index: usize, port: u64) {
        self.by_port.insert(port, index);
    }

    /// When a node is due next.
    pub fn due(&mut self) -> Option<u64> {
        for index in std::mem::take(&mut self.changed) {
            let due = self.nodes[index].due();
            self.due.remove(&(self.due_of[index], index));
            self.due.insert((due, index));
            self.due_of[index] = due;
        }
        self.due.first().map(|(at, _)| *at)
    }

    /// Those that are due, in the order of their numbers.
    pub fn due_at(&mut self, now: u64) -> BTreeSet<usize> {
        self.due();
        self.due.range(..=(now, usize::MAX)).map(|(_, index)| *index).collect()
    }
}

impl Index<usize> for SimNodes {
    type Output = SimNode;

    fn index(&self, index: usize) -> &SimNode {
        &self.nodes[index]
    }
}

impl IndexMut<usize> for SimNodes {
    fn index_mut(&mut self, index: usize) -> &mut SimNode {
        self.changed.insert(index);
        &mut self.nodes[index]
    }
}

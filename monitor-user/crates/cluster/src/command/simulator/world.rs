//! The world of the simulator: nodes over a network, the true time, and what was executed.

use super::network::{Faults, MS, SimNetwork};
use super::nodes::{SimNode, SimNodes};
use super::outcomes::SimCommands;
use super::run_kind::{Failures, Size};
use crate::bus::entry::{EntryId, Seq, Targets};
use crate::command::caller::{CallOptions, CallResult, CommandOutcome};
use crate::command::executor::{Check, Execution, ExecutionResult};
use crate::command::ledger::{Ledger as _, MemoryLedger};
use crate::command::node::{CommandNode, NodeIdentity, NodeOutput};
use monitor_model::Ns;
use std::collections::BTreeMap;

pub const SECOND: u64 = 1_000 * MS;
/// Number of entries that a node's ledger knows: few, so that the order is needed where entries
/// come again.
const N_KEYS: usize = 24;
/// The same where the server loses entries and gets copies of them: as many as in a file.
const N_KEYS_OF_FILE: usize = 1024;

/// What a seed lets happen.
pub struct SimWorld {
    pub network: SimNetwork,
    /// What fails besides nodes and messages.
    pub failures: Failures,
    /// The check that nodes do not make.
    without: Option<Check>,
    /// The first promise that was broken.
    pub violation: Option<String>,
    pub commands: SimCommands,
    pub nodes: SimNodes,
    n_starts: u64,
    /// Calls whose caller has not crashed, and until when each ends.
    pub calls: BTreeMap<EntryId, (usize, u64)>,
    /// Number of nodes that have executed the last command with a result.
    n_last_executed: usize,
    pub counts: BTreeMap<&'static str, u64>,
    /// Hash of all that happened.
    pub trace: u64,
}

impl SimWorld {
    pub fn new(seed: u64, size: Size, without: Option<Check>) -> Self {
        let (failures, n_keys) = match seed % 2 {
            0 => (Failures::Reboots, N_KEYS),
            _ => (Failures::LossOfEntries, N_KEYS_OF_FILE),
        };
        let nodes = (0..size.n_nodes).map(|number| {
            let boot = (number + 1) * 1_000_000 * SECOND;
            let ledger = MemoryLedger::with_n_keys(number + 1, n_keys);
            SimNode::new((format!("n{number}"), boot), ledger)
        });
        Self {
            network: SimNetwork::new(seed),
            failures,
            without,
            violation: None,
            commands: SimCommands::default(),
            nodes: SimNodes::new(nodes.collect()),
            n_starts: 0,
            calls: BTreeMap::new(),
            n_last_executed: 0,
            counts: BTreeMap::new(),
            trace: 0,
        }
    }

    pub fn now(&self) -> u64 {
        self.network.lock().now
    }

    pub fn random(&self, below: u64) -> u64 {
        self.network.lock().random.below(below)
    }

    /// The index of any node.
    pub fn pick(&self) -> usize {
        usize::try_from(self.random(self.nodes.len() as u64)).unwrap()
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn expect(&mut self, is_true: bool, what: impl FnOnce() -> String) {
        if !is_true {
            self.violation.get_or_insert_with(what);
        }
    }

    /// Runs until this true time.
    pub fn run_until(&mut self, end: u64) {
        loop {
            let due = self.nodes.due().unwrap_or(end).max(self.now());
            let packet = self.network.lock().due();
            let next = packet.unwrap_or(end).min(due);
            if next >= end || self.violation.is_some() {
                self.network.lock().now = end;
                return;
            }
            if packet.is_some_and(|at| at <= next) {
                let concerned = self.network.lock().advance();
                if let Some(index) = concerned.and_then(|port| self.nodes.by_port(port)) {
                    self.step(index, self.now());
                }
                continue;
            }
            self.network.lock().now = next;
            for index in self.nodes.due_at(next) {
                self.step(index, next);
            }
        }
    }

    fn start(&mut self, index: usize, now: u64) {
        self.n_starts += 1;
        let node = &mut self.nodes[index];
        let from = node.ledger.last().map(|last| Seq(last.0 + 1));
        let mut port = self.network.connect(&node.name, node.boot, from);
        self.network.lock().cut(port.number, node.cut_until);
        let identity =
            NodeIdentity { name: &node.name, start: self.n_starts, ..NodeIdentity::default() };
        let joined =
            CommandNode::join(identity, node.ledger.clone(), Ns(now + node.boot), &mut port);
        let mut commands = joined.unwrap();
        if let Some(check) = self.without {
            commands.take_out(check);
        }
        (node.paused_since, node.paused_until) = (0, 0);
        let number = port.number;
        node.running = Some((commands, port));
        self.nodes.connected(index, number);
    }

    /// Lets a node do what it has to do.
    fn step(&mut self, index: usize, now: u64) {
        let node = &mut self.nodes[index];
        let Some((commands, port)) = &mut node.running else {
            if node.down_until <= now {
                self.start(index, now);
            }
            return;
        };
        if now < node.paused_until {
            return;
        }
        let boot_now = Ns(now + node.boot);
        let has_events = self.network.lock().has_events(port.number);
        node.ends.retain(|(at, seq)| {
            let is_over = *at <= now;
            if is_over {
                let result = ExecutionResult::Executed(seq.0.to_le_bytes().to_vec());
                commands.finish(boot_now, port, (*seq, result));
            }
            !is_over
        });
        if !has_events && boot_now < commands.due() {
            return;
        }
        for output in commands.step(boot_now, port) {
            if !self.handle(index, now, output) {
                return;
            }
        }
    }

    /// Handles an output; false if the node is killed by that.
    fn handle(&mut self, index: usize, now: u64, output: NodeOutput) -> bool {
        match output {
            NodeOutput::Execute(execution) => {
                // Killed between the ledger and the execution.
                let faults = self.network.lock().faults;
                if faults == Faults::Frequent && self.random(600) == 0 {
                    self.kill(index, now);
                    return false;
                }
                self.execute(index, now, &execution);
            }
            NodeOutput::Concluded(result) => self.concluded(now, &result),
            NodeOutput::NameInUse | NodeOutput::Failed(_) | NodeOutput::Bus(_) => {
                let name = self.nodes[index].name.clone();
                self.expect(false, || format!("{name}: {output:?}"));
            }
            NodeOutput::Members(_) => self.count("changes of members"),
        }
        true
    }

    fn execute(&mut self, index: usize, now: u64, execution: &Execution) {
        let number = u64::from_le_bytes(execution.payload.as_slice().try_into().unwrap());
        let number = usize::try_from(number).unwrap();
        let (id, begin_within) = self.commands.get(number);
        let placed = self.network.lock().placed[&(id, execution.seq)];
        let node = &mut self.nodes[index];
        let (name, seq) = (node.name.clone(), execution.seq);
        let last = std::mem::replace(&mut node.last, (placed.generation, seq));
        let is_removed = node.is_removed_in_pause(now, seq, &self.network);
        let n_times = self.commands.executed(number, index);
        self.expect(n_times == 1, || format!("{name}: executed twice: {id:?}"));
        let is_in_order = last < (placed.generation, seq);
        self.expect(is_in_order, || format!("{name}: out of order at {seq:?}"));
        let is_in_time = now < placed.at + begin_within;
        self.expect(is_in_time, || format!("{name}: after the deadline: {id:?}"));
        self.expect(!is_removed, || format!("{name}: removed in a pause, then executed {id:?}"));
        for word in [index as u64, seq.0, now] {
            self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let end = now + self.random(50 * MS);
        self.nodes[index].ends.push((end, seq));
    }

    fn concluded(&mut self, now: u64, result: &CallResult) {
        let (caller, until) = self.calls.remove(&result.id).expect("a call has one result");
        let is_late = now > until.max(self.nodes[caller].paused_until) + 1;
        self.expect(!is_late, || format!("{:?} at {now}, {until}", result.id));
        self.n_last_executed = 0;
        for (name, outcome) in &result.outcomes {
            let is_executed = matches!(outcome, CommandOutcome::Executed(_));
            self.n_last_executed += usize::from(is_executed);
            match self.nodes.by_name(name) {
                Some(index) => self.commands.concluded(result.id, index, outcome),
                None => {
                    self.expect(!is_executed, || format!("{name}, which is not there: {result:?}"))
                }
            }
        }
    }

    /// Sends a command from a node; false if it sends none.
    pub fn call(&mut self, index: usize, targets: Targets) -> bool {
        let now = self.now();
        let begin = 50 * MS + self.random(3 * SECOND);
        let reply = begin + self.random(2 * SECOND);
        let (number, n_nodes) = (self.commands.len(), self.nodes.len());
        let node = &mut self.nodes[index];
        let is_paused = now < node.paused_until;
        let Some((commands, port)) = node.running.as_mut().filter(|_| !is_paused) else {
            return false;
        };
        let options = CallOptions {
            targets,
            uid: 0,
            begin_within: Ns(begin),
            reply_within: Ns(reply),
            payload: (number as u64).to_le_bytes().to_vec(),
        };
        let Ok(id) = commands.call(Ns(now + node.boot), port, options) else { return false };
        self.calls.insert(id, (index, now + reply));
        self.commands.add(id, begin, n_nodes);
        self.count("calls");
        true
    }

    /// Ends all faults, and waits until all is as it should be.
    pub fn settle(&mut self) {
        {
            let mut shared = self.network.lock();
            (shared.faults, shared.server_down_until) = (Faults::None, 0);
        }
        let now = self.now();
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            for until in [&mut node.paused_until, &mut node.down_until] {
                *until = now.min(*until);
            }
            self.cut(index, now);
        }
        // Longer than the longest delay of a packet.
        self.run_until(now + 250 * SECOND);
        let n_waiting = self.calls.len();
        self.expect(n_waiting == 0, || "each call has a result".to_owned());
        let is_member = self.call(0, Targets::All);
        self.expect(is_member, || "a node that is reachable is a member".to_owned());
        self.run_until(self.now() + 10 * SECOND);
        let (n_executed, n_nodes) = (self.n_last_executed, self.nodes.len());
        self.expect(n_executed == n_nodes, || format!("{n_executed} of {n_nodes} are members"));
    }

    /// Compares the results of all calls with what was executed.
    pub fn check_outcomes(&mut self) {
        match self.commands.check() {
            Ok(counts) => self.counts.extend(counts),
            Err(why) => self.expect(false, || why),
        }
    }
}

//! Nodes over a simulated bus, with faults of all kinds; the same seed is the same run.
//!
//! The world knows the true time and what was executed, and compares it with each outcome.

mod network;
mod random;

use super::caller::{CallOptions, CallResult, CommandOutcome};
use super::executor::{Check, Execution, ExecutionResult, PAUSE};
use super::ledger::{Ledger, MemoryLedger};
use super::node::{CommandNode, NodeOutput};
use crate::bus::entry::{EntryId, Seq, Targets};
use monitor_model::Ns;
use network::{Faults, MS, SimNetwork, SimPort};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000 * MS;
/// Number of entries that a node's ledger knows: few, so that the order is needed where entries
/// come again.
const N_KEYS: usize = 24;
/// The same where the server loses entries and gets copies of them: as many as in a file.
const N_KEYS_OF_FILE: usize = 1024;
/// Number of steps with few faults, and then with many.
const PHASE: u64 = 25;

struct SimWorld {
    network: SimNetwork,
    /// What fails besides nodes and messages.
    failures: Failures,
    /// The check that nodes do not make.
    without: Option<Check>,
    /// The first promise that was broken.
    violation: Option<String>,
    /// The commands, with the longest time until each begins; the payload is the index.
    commands: Vec<(EntryId, u64)>,
    nodes: Vec<SimNode>,
    n_starts: u64,
    /// Calls whose caller has not crashed, and until when each ends.
    calls: BTreeMap<EntryId, (usize, u64)>,
    /// By node and command.
    n_executed: BTreeMap<(usize, EntryId), u32>,
    results: Vec<CallResult>,
    counts: BTreeMap<&'static str, u64>,
    /// Hash of all that happened.
    trace: u64,
}

/// One of two that no promise covers together: a command that was executed before a node was
/// rebooted is not in its ledger, should the server lose its entry and get a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failures {
    /// Nodes are rebooted.
    Reboots,
    /// The server loses entries.
    LossOfEntries,
}

struct SimNode {
    name: String,
    /// Boot clock minus true time.
    boot: u64,
    ledger: MemoryLedger,
    running: Option<(CommandNode<MemoryLedger>, SimPort)>,
    /// Until when it is stopped, disconnected, or not started.
    paused_until: u64,
    paused_since: u64,
    cut_until: u64,
    down_until: u64,
    /// The last executed position, and of which generation of the log.
    last: (u64, Seq),
    /// Executions that take a time.
    ends: Vec<(u64, Seq)>,
}

impl SimWorld {
    fn new(seed: u64, n_nodes: u64, without: Option<Check>) -> Self {
        let network = SimNetwork::new(seed);
        let (failures, n_keys) = match seed % 2 {
            0 => (Failures::Reboots, N_KEYS),
            _ => (Failures::LossOfEntries, N_KEYS_OF_FILE),
        };
        let nodes = (0..n_nodes).map(|number| SimNode {
            name: format!("n{number}"),
            boot: (number + 1) * 1_000_000 * SECOND,
            ledger: MemoryLedger::with_n_keys(number + 1, n_keys),
            running: None,
            paused_until: 0,
            paused_since: 0,
            cut_until: 0,
            down_until: 0,
            last: (0, Seq(0)),
            ends: Vec::new(),
        });
        let nodes = nodes.collect();
        Self {
            network,
            failures,
            without,
            violation: None,
            commands: Vec::new(),
            nodes,
            n_starts: 0,
            calls: BTreeMap::new(),
            n_executed: BTreeMap::new(),
            results: Vec::new(),
            counts: BTreeMap::new(),
            trace: 0,
        }
    }

    fn now(&self) -> u64 {
        self.network.lock().now
    }

    fn random(&self, below: u64) -> u64 {
        self.network.lock().random.below(below)
    }

    fn pick(&self) -> usize {
        usize::try_from(self.random(self.nodes.len() as u64)).unwrap()
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn expect(&mut self, is_true: bool, what: impl FnOnce() -> String) {
        if !is_true {
            self.violation.get_or_insert_with(what);
        }
    }

    /// Runs until this true time.
    fn run_until(&mut self, end: u64) {
        loop {
            let now = self.now();
            self.start_nodes(now);
            self.connect_nodes(now);
            let due = self.nodes.iter().filter_map(|node| node.due(now)).min().unwrap_or(end);
            let next = self.network.lock().due().unwrap_or(end).min(due.max(now));
            if next >= end || self.violation.is_some() {
                self.network.lock().now = end;
                return;
            }
            let packet = self.network.lock().due().filter(|at| *at <= next);
            let concerned = match packet {
                Some(_) => self.network.lock().advance(),
                None => {
                    self.network.lock().now = next;
                    None
                }
            };
            let now = self.now();
            for index in 0..self.nodes.len() {
                let node = &self.nodes[index];
                let has_event = node.number().is_some_and(|port| Some(port) == concerned);
                if has_event || packet.is_none() && node.due(now).is_some_and(|due| due <= now) {
                    self.step(index, now);
                }
            }
        }
    }

    fn start_nodes(&mut self, now: u64) {
        for node in &mut self.nodes {
            if node.running.is_none() && node.down_until <= now {
                self.n_starts += 1;
                let from = node.ledger.last().map(|last| Seq(last.0 + 1));
                let mut port = self.network.connect(&node.name, node.boot, from);
                let start = (node.name.as_str(), self.n_starts);
                let joined =
                    CommandNode::join(start, node.ledger.clone(), Ns(now + node.boot), &mut port);
                let mut commands = joined.unwrap();
                if let Some(check) = self.without {
                    commands.take_out(check);
                }
                (node.paused_since, node.paused_until) = (0, 0);
                node.running = Some((commands, port));
            }
        }
    }

    fn connect_nodes(&self, now: u64) {
        let mut shared = self.network.lock();
        for node in &self.nodes {
            if let Some(port) = node.number() {
                shared.set_connected(port, node.cut_until <= now);
            }
        }
    }

    fn step(&mut self, index: usize, now: u64) {
        let node = &mut self.nodes[index];
        if now < node.paused_until {
            return;
        }
        let Some((commands, port)) = &mut node.running else { return };
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
            NodeOutput::Concluded(result) => self.concluded(now, result),
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
        let (id, begin_within) = self.commands[usize::try_from(number).unwrap()];
        let placed = self.network.lock().placed[&(id, execution.seq)];
        let node = &mut self.nodes[index];
        let (name, seq) = (node.name.clone(), execution.seq);
        let last = std::mem::replace(&mut node.last, (placed.generation, seq));
        let is_removed = node.is_removed_in_pause(now, seq, &self.network);
        let n_times = self.n_executed.entry((index, id)).or_default();
        *n_times += 1;
        let n_times = *n_times;
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

    fn concluded(&mut self, now: u64, result: CallResult) {
        let (caller, until) = self.calls.remove(&result.id).expect("a call has one result");
        let is_late = now > until.max(self.nodes[caller].paused_until) + 1;
        self.expect(!is_late, || format!("{:?} at {now}, {until}", result.id));
        self.results.push(result);
    }

    fn kill(&mut self, index: usize, now: u64) {
        let reboots = self.failures == Failures::Reboots && self.random(3) == 0;
        let down = 100 * MS + self.random(2 * SECOND);
        let node = &mut self.nodes[index];
        node.running = None;
        node.ends.clear();
        node.down_until = now + down;
        if reboots {
            node.ledger.reboot();
            self.count("reboots");
        }
        self.calls.retain(|_, (caller, _)| *caller != index);
        self.count("kills");
    }

    fn call(&mut self, index: usize, targets: Targets) -> bool {
        let now = self.now();
        let begin = 50 * MS + self.random(3 * SECOND);
        let reply = begin + self.random(2 * SECOND);
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
            payload: (self.commands.len() as u64).to_le_bytes().to_vec(),
        };
        match commands.call(Ns(now + node.boot), port, options) {
            Ok(id) => {
                self.calls.insert(id, (index, now + reply));
                self.commands.push((id, begin));
            }
            Err(_) => return false,
        }
        self.count("calls");
        true
    }

    /// One random thing happens; a fault rarely in the first half of each phase.
    fn disturb(&mut self, step: u64) {
        let is_calm = step % (2 * PHASE) < PHASE;
        self.network.lock().faults = if is_calm { Faults::Rare } else { Faults::Frequent };
        let (index, now) = (self.pick(), self.now());
        match self.random(if is_calm { 300 } else { 60 }) {
            0 | 1 => self.kill(index, now),
            2 | 3 => self.pause(index, now),
            4 | 5 => {
                self.nodes[index].cut_until = now + self.random(3 * SECOND);
                self.count("partitions");
            }
            6 => {
                self.network.lock().server_down_until = now + self.random(SECOND);
                self.count("restarts of the server");
            }
            7 => {
                let other = self.pick();
                self.remove(index, other);
            }
            8 => self.leave_and_restart(index, now),
            9 => self.remove_in_a_pause(index, now),
            10 => self.lose_entries_of_a_call(index, now),
            11 => {
                self.nodes[index].cut_until = now + 2 * SECOND;
                self.call_often();
                let n_kept = self.random(4);
                self.network.lock().drop_oldest(n_kept);
            }
            12 => self.call_often(),
            _ => {
                let targets = match self.random(3) {
                    0 => Targets::All,
                    _ => Targets::Names((0..4).map(|_| format!("n{}", self.random(14))).collect()),
                };
                self.call(index, targets);
            }
        }
    }

    fn pause(&mut self, index: usize, now: u64) {
        let until = now + self.random(3 * SECOND);
        let node = &mut self.nodes[index];
        if node.running.is_some() {
            if node.paused_until <= now {
                node.paused_since = now;
            }
            node.paused_until = until;
            self.count("pauses");
        }
    }

    /// Commands that follow each other closely.
    fn call_often(&mut self) {
        for _ in 0..40 {
            let index = self.pick();
            self.call(index, Targets::All);
            self.run_until(self.now() + 5 * MS);
        }
    }

    /// An orderly restart.
    fn leave_and_restart(&mut self, index: usize, now: u64) {
        let node = &mut self.nodes[index];
        if let Some((commands, port)) = node.running.as_mut().filter(|_| node.paused_until <= now) {
            commands.leave(Ns(now + node.boot), port);
            self.count("departures");
            self.run_until(now + 500 * MS);
            self.kill(index, self.now());
        }
    }

    fn remove(&mut self, index: usize, removed: usize) {
        let (name, now) = (self.nodes[removed].name.clone(), self.now());
        let node = &mut self.nodes[index];
        if now < node.paused_until {
            return;
        }
        if let Some((commands, port)) = &mut node.running {
            commands.remove(Ns(now + node.boot), port, &name);
            self.count("removals");
        }
        // Some while it is not a member.
        for _ in 0..3 {
            self.call(index, Targets::Names([name.clone()].into()));
            self.run_until(self.now() + 3 * MS);
        }
    }

    /// A node has a command before it in the order, and is removed, while it is paused.
    fn remove_in_a_pause(&mut self, index: usize, now: u64) {
        self.pause(index, now);
        let node = &mut self.nodes[index];
        node.paused_until = node.paused_until.max(now + 1_200 * MS);
        let other = (index + 1) % self.nodes.len();
        let name = self.nodes[index].name.clone();
        for _ in 0..3 {
            self.call(other, Targets::Names([name.clone()].into()));
            self.run_until(self.now() + 50 * MS);
        }
        self.remove(other, index);
    }

    /// The server loses its power when a command was executed, but not yet acknowledged.
    fn lose_entries_of_a_call(&mut self, index: usize, now: u64) {
        if self.failures != Failures::LossOfEntries {
            return;
        }
        self.call(index, Targets::All);
        self.run_until(now + 4 * MS);
        self.nodes[index].cut_until = now + 500 * MS;
        let after = self.random(40 * MS);
        self.run_until(now + 10 * MS + after);
        let mut shared = self.network.lock();
        let n = 1 + shared.random.below(3);
        shared.server_down_until = shared.now + 100 * MS;
        shared.lose_entries(usize::try_from(n).unwrap());
    }

    /// Ends all faults, and waits until all is as it should be.
    fn settle(&mut self) {
        {
            let mut shared = self.network.lock();
            (shared.faults, shared.server_down_until) = (Faults::None, 0);
        }
        let now = self.now();
        for node in &mut self.nodes {
            for until in [&mut node.paused_until, &mut node.cut_until, &mut node.down_until] {
                *until = now.min(*until);
            }
        }
        // Longer than the longest delay of a packet.
        self.run_until(now + 250 * SECOND);
        let n_waiting = self.calls.len();
        self.expect(n_waiting == 0, || "each call has a result".to_owned());
        let is_member = self.call(0, Targets::All);
        self.expect(is_member, || "a node that is reachable is a member".to_owned());
        self.run_until(self.now() + 10 * SECOND);
        let is_executed = |it: &CommandOutcome| matches!(it, CommandOutcome::Executed(_));
        let n_executed = self.results.last().map_or(0, |last| {
            last.outcomes.values().filter(|outcome| is_executed(outcome)).count()
        });
        let n_nodes = self.nodes.len();
        self.expect(n_executed == n_nodes, || format!("{n_executed} of {n_nodes} are members"));
    }

    fn check_outcomes(&mut self) {
        for result in std::mem::take(&mut self.results) {
            for (node, outcome) in &result.outcomes {
                let index = self.nodes.iter().position(|it| it.name == *node);
                let executed = index.and_then(|index| self.n_executed.get(&(index, result.id)));
                let n_times = executed.copied().unwrap_or(0);
                let (name, is_true) = match outcome {
                    CommandOutcome::Executed(_) => ("executed", n_times == 1),
                    CommandOutcome::Expired => ("expired", n_times == 0),
                    CommandOutcome::Refused(_) => ("refused", n_times == 0),
                    CommandOutcome::Missing => ("missing", true),
                };
                self.expect(is_true, || {
                    format!("{node} {name}, but executed {n_times} times: {result:?}")
                });
                self.count(name);
            }
        }
    }
}

impl SimNode {
    /// The number of its port.
    fn number(&self) -> Option<u64> {
        self.running.as_ref().map(|(_, port)| port.number)
    }

    /// Whether the node was removed by the end of a pause of more than a second, and a position is
    /// one from before.
    fn is_removed_in_pause(&self, now: u64, seq: Seq, network: &SimNetwork) -> bool {
        let was_long = self.paused_until.saturating_sub(self.paused_since) > PAUSE.0;
        let shared = network.lock();
        was_long
            && self.paused_until <= now
            && shared.removals.iter().any(|removal| {
                removal.node == self.name && removal.at <= self.paused_until && seq < removal.seq
            })
    }

    /// When something is to be done that is no packet.
    fn due(&self, now: u64) -> Option<u64> {
        let Some((commands, _)) = &self.running else { return Some(self.down_until) };
        let ends = self.ends.iter().map(|(at, _)| *at);
        let due = ends.chain([commands.due().0 - self.boot]).min()?;
        Some(due.max(self.paused_until).max(now))
    }
}

/// Hash of all that happened, and how often what happened.
type Summary = (u64, BTreeMap<&'static str, u64>);

fn run(seed: u64, without: Option<Check>) -> Result<Summary, String> {
    let mut world = SimWorld::new(seed, 12, without);
    world.run_until(SECOND);
    for step in 0..100 {
        world.disturb(step);
        let pause = world.random(300 * MS);
        world.run_until(world.now() + pause);
    }
    world.settle();
    world.check_outcomes();
    let network = std::mem::take(&mut world.network.lock().counts);
    world.counts.extend(network);
    world.violation.map_or(Ok((world.trace, world.counts)), Err)
}

/// What fails, and what becomes of commands.
const COUNTED: [&str; 18] = [
    "calls",
    "copied messages",
    "departures",
    "executed",
    "expired",
    "gaps",
    "kills",
    "losses noticed",
    "losses of entries",
    "lost messages",
    "missing",
    "partitions",
    "pauses",
    "reboots",
    "refused",
    "removals",
    "repeated entries",
    "restarts of the server",
];

#[allow(clippy::print_stderr, reason = "the numbers are those of the journal")]
#[test]
fn each_outcome_is_true_whatever_fails() {
    let mut total = BTreeMap::<&str, u64>::new();
    for seed in 0..200 {
        let counts = run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        for (what, n) in counts.1 {
            *total.entry(what).or_default() += n;
        }
    }
    eprintln!("{total:?}");
    for what in COUNTED {
        assert!(total.get(what).is_some_and(|n| *n >= 20), "{what} is too rare: {total:?}");
    }
    let decided = total["executed"] + total["expired"] + total["refused"];
    assert!(decided > 2 * total["missing"], "most outcomes are decided: {total:?}");
}

/// Without one of its checks a node breaks a promise, and the simulator finds that.
#[allow(clippy::print_stderr, reason = "the numbers are those of the journal")]
#[test]
fn each_check_is_needed() {
    let expected = [
        (Check::Ledger, "executed twice"),
        (Check::Order, "executed twice"),
        (Check::Deadline, "after the deadline"),
        (Check::Joining, "refused, but executed 1 times"),
        (Check::Pause, "removed in a pause"),
    ];
    for (check, violation) in expected {
        let found = (0..150)
            .find(|seed| run(*seed, Some(check)).is_err_and(|found| found.contains(violation)));
        eprintln!("without {check:?}: \"{violation}\" at seed {found:?}");
        assert!(found.is_some(), "the simulator does not need {check:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(run(7, None), run(7, None));
    assert_ne!(run(7, None).unwrap().0, run(8, None).unwrap().0);
}

//! Nodes of a case, which execute commands over the bus under test.

use super::fixture::BusFixture;
use super::wait::until;
use crate::bus::Bus;
use crate::bus::entry::{EntryId, Seq, Targets};
use crate::bus::membership::MembershipChange;
use crate::command::ledger::{Ledger, MemoryLedger};
use crate::command::{
    CallOptions, CallResult, CommandNode, CommandOutcome, ExecutionResult, NodeIdentity, NodeOutput,
};
use monitor_model::Ns;
use std::collections::BTreeMap;

/// Nodes that execute each command by returning its payload.
pub struct SuiteNodes {
    pub nodes: BTreeMap<String, SuiteNode>,
}

pub struct SuiteNode {
    pub bus: Box<dyn Bus>,
    pub node: CommandNode<MemoryLedger>,
    pub is_paused: bool,
    pub executed: Vec<(Seq, Vec<u8>)>,
    pub results: Vec<CallResult>,
    pub changes: Vec<MembershipChange>,
    pub is_name_in_use: bool,
}

impl SuiteNode {
    pub fn join(start: (&str, u64), ledger: MemoryLedger, fixture: &mut dyn BusFixture) -> Self {
        let from = ledger.last().map(|last| Seq(last.0 + 1));
        let bus = fixture.connect(start.0, from);
        Self::join_over(bus, start, ledger, fixture)
    }

    pub fn join_over(
        mut bus: Box<dyn Bus>,
        start: (&str, u64),
        ledger: MemoryLedger,
        fixture: &dyn BusFixture,
    ) -> Self {
        let identity = NodeIdentity { name: start.0, start: start.1, ..NodeIdentity::default() };
        let node = CommandNode::join(identity, ledger, fixture.now(), bus.as_mut());
        Self {
            node: node.expect("a ledger in memory can be written"),
            bus,
            is_paused: false,
            executed: Vec::new(),
            results: Vec::new(),
            changes: Vec::new(),
            is_name_in_use: false,
        }
    }

    pub fn step(&mut self, now: Ns) {
        for output in self.node.step(now, self.bus.as_mut()) {
            match output {
                NodeOutput::Execute(execution) => {
                    let result = ExecutionResult::Executed(execution.payload.clone());
                    self.executed.push((execution.seq, execution.payload));
                    self.node.finish(now, self.bus.as_mut(), (execution.seq, result));
                }
                NodeOutput::Concluded(result) => self.results.push(result),
                NodeOutput::Members(change) => self.changes.push(change),
                NodeOutput::NameInUse => self.is_name_in_use = true,
                NodeOutput::Failed(why) => panic!("{why}"),
                NodeOutput::Bus(_) => {}
            }
        }
    }

    pub fn call(
        &mut self,
        fixture: &dyn BusFixture,
        (names, text): (&[&str], &str),
        within: Ns,
    ) -> EntryId {
        let targets = match names {
            [] => Targets::All,
            names => Targets::Names(names.iter().map(|name| (*name).to_owned()).collect()),
        };
        let payload = text.into();
        let (begin_within, reply_within) = (within, within);
        let options = CallOptions { targets, uid: 7, begin_within, reply_within, payload };
        self.node.call(fixture.now(), self.bus.as_mut(), options).expect("a member may call")
    }

    pub fn leave(&mut self, fixture: &dyn BusFixture) {
        self.node.leave(fixture.now(), self.bus.as_mut());
    }

    pub fn texts(&self) -> Vec<String> {
        let texts = self.executed.iter().map(|(_, text)| String::from_utf8_lossy(text).into());
        texts.collect()
    }
}

impl SuiteNodes {
    /// Nodes that know each other.
    pub fn new(names: &[&str], fixture: &mut dyn BusFixture) -> Self {
        let mut nodes = Self { nodes: BTreeMap::new() };
        for (name, number) in names.iter().zip(1..) {
            nodes.add((name, number), MemoryLedger::new(number), fixture);
        }
        let n_nodes = names.len();
        nodes.until("members", fixture, |nodes| {
            nodes.values().all(|it| it.node.is_member() && it.node.members().count() == n_nodes)
        });
        nodes
    }

    pub fn add(&mut self, start: (&str, u64), ledger: MemoryLedger, fixture: &mut dyn BusFixture) {
        let node = SuiteNode::join(start, ledger, fixture);
        self.nodes.insert(start.0.to_owned(), node);
    }

    pub fn get(&mut self, name: &str) -> &mut SuiteNode {
        self.nodes.get_mut(name).expect("a node of the case")
    }

    pub fn until(
        &mut self,
        what: &str,
        fixture: &dyn BusFixture,
        mut is_true: impl FnMut(&BTreeMap<String, SuiteNode>) -> bool,
    ) {
        until(what, || {
            for node in self.nodes.values_mut().filter(|node| !node.is_paused) {
                node.step(fixture.now());
            }
            is_true(&self.nodes).then_some(())
        });
    }

    /// Sends a command and returns what became of it.
    pub fn ask(
        &mut self,
        caller: &str,
        command: (&[&str], &str),
        (fixture, within): (&dyn BusFixture, Ns),
    ) -> BTreeMap<String, CommandOutcome> {
        let id = self.get(caller).call(fixture, command, within);
        self.until("result", fixture, |nodes| {
            nodes[caller].results.iter().any(|result| result.id == id)
        });
        let results = &self.get(caller).results;
        results.iter().find(|it| it.id == id).expect("it was found").outcomes.clone()
    }
}

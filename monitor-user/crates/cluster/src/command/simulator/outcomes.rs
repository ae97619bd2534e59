//! What became of each command at each node, and what its caller got to know of that.
//!
//! In: executions and results of calls. Out: the first result that is not true, or how often there
//! was which. A result is compared at the end, because a command may be executed after it.

use crate::bus::entry::EntryId;
use crate::command::caller::CommandOutcome;
use std::collections::BTreeMap;

/// The commands, by their numbers: their payloads.
#[derive(Default)]
pub struct SimCommands {
    commands: Vec<SimCommand>,
    numbers: BTreeMap<EntryId, usize>,
}

struct SimCommand {
    id: EntryId,
    /// The longest time until it begins.
    begin_within: u64,
    /// By node, in the order of their numbers.
    nodes: Vec<NodeRecord>,
}

/// What is known of a command at a node.
#[derive(Clone, Copy, Default)]
struct NodeRecord {
    n_executed: u8,
    result: Option<SimResult>,
}

/// What a caller got to know.
#[derive(Clone, Copy)]
enum SimResult {
    Executed,
    Expired,
    Refused,
    Missing,
}

impl SimCommands {
    /// Number of commands.
    pub const fn len(&self) -> usize {
        self.commands.len()
    }

    /// Adds the next command, for this number of nodes.
    pub fn add(&mut self, id: EntryId, begin_within: u64, n_nodes: usize) {
        self.numbers.insert(id, self.commands.len());
        let nodes = vec![NodeRecord::default(); n_nodes];
        self.commands.push(SimCommand { id, begin_within, nodes });
    }

    /// A command, and the longest time until it begins.
    pub fn get(&self, number: usize) -> (EntryId, u64) {
        let command = &self.commands[number];
        (command.id, command.begin_within)
    }

    /// Notes an execution; how many there were.
    pub fn executed(&mut self, number: usize, node: usize) -> u8 {
        let record = &mut self.commands[number].nodes[node];
        record.n_executed = record.n_executed.saturating_add(1);
        record.n_executed
    }

    /// Notes what the caller of a command got to know about a node.
    pub fn concluded(&mut self, id: EntryId, node: usize, outcome: &CommandOutcome) {
        let number = self.numbers[&id];
        self.commands[number].nodes[node].result = Some(match outcome {
            CommandOutcome::Executed(_) => SimResult::Executed,
            CommandOutcome::Expired => SimResult::Expired,
            CommandOutcome::Refused(_) => SimResult::Refused,
            CommandOutcome::Missing => SimResult::Missing,
        });
    }

    /// How often there was which result; or the first one that is not true.
    pub fn check(&self) -> Result<BTreeMap<&'static str, u64>, String> {
        let mut counts = BTreeMap::new();
        for command in &self.commands {
            for (node, record) in command.nodes.iter().enumerate() {
                let Some(result) = record.result else { continue };
                let (name, is_true) = match result {
                    SimResult::Executed => ("executed", record.n_executed == 1),
                    SimResult::Expired => ("expired", record.n_executed == 0),
                    SimResult::Refused => ("refused", record.n_executed == 0),
                    SimResult::Missing => ("missing", true),
                };
                if !is_true {
                    let SimCommand { id, .. } = command;
                    let n = record.n_executed;
                    return Err(format!("n{node}: {name}, but executed {n} times: {id:?}"));
                }
                *counts.entry(name).or_default() += 1;
            }
        }
        Ok(counts)
    }
}

//! Compares what agents saw and did with what tools were answered.

use super::soak_cluster::SoakCluster;
use super::tools::Issued;
use monitor_cluster::bus::entry::{Seq, Targets};
use monitor_cluster::command::CommandOutcome;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Wrong things that are printed.
const SHOWN: usize = 10;

/// What was found.
#[derive(Default)]
pub struct Verdict {
    n_commands: u64,
    executed: u64,
    expired: u64,
    refused: u64,
    missing: u64,
    n_positions: usize,
    /// Positions at which two nodes saw different entries.
    n_divergences: u64,
    wrong: Vec<String>,
}

impl Verdict {
    /// Whether all is as promised, and something was compared.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.n_divergences == 0 && self.executed > 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_commands, executed, expired, refused, missing, .. } = self;
        write!(
            out,
            "{n_commands} commands: {executed} executed, {expired} expired, {refused} refused, \
             {missing} missing; {} positions, {} divergences; {} wrong",
            self.n_positions,
            self.n_divergences,
            self.wrong.len()
        )?;
        self.wrong.iter().take(SHOWN).try_for_each(|wrong| write!(out, "\n  {wrong}"))
    }
}

/// How often each node has executed each command.
type Executions<'a> = HashMap<(&'a str, &'a [u8]), u32>;

/// Compares all logs with all results.
pub fn compare_all(cluster: &SoakCluster, issued: &[Issued]) -> Verdict {
    let mut verdict = Verdict { n_commands: issued.len() as u64, ..Verdict::default() };
    let logs: Vec<_> = cluster.all().map(|agent| (agent.name.as_str(), agent.log())).collect();
    let mut order: BTreeMap<Seq, u64> = BTreeMap::new();
    let mut executions = Executions::new();
    for (name, log) in &logs {
        for mark in &log.order {
            if *order.entry(mark.seq).or_insert(mark.hash) != mark.hash {
                verdict.n_divergences += 1;
            }
        }
        if log.n_losses > 0 {
            verdict.wrong.push(format!("{name}: the bus lost entries {} times", log.n_losses));
        }
        verdict.wrong.extend(log.failures.iter().map(|why| format!("{name}: {why}")));
        if !log.executed.is_sorted_by(|one, other| one.0 < other.0) {
            verdict.wrong.push(format!("{name}: not executed in order"));
        }
        for (_, payload) in &log.executed {
            *executions.entry((name, payload)).or_default() += 1;
        }
    }
    verdict.n_positions = order.len();
    for it in issued {
        verdict.compare(it, &executions);
    }
    verdict
}

impl Verdict {
    /// Compares one command.
    fn compare(
        &mut self,
        Issued { payload, targets, result }: &Issued,
        executions: &Executions<'_>,
    ) {
        let command = String::from_utf8_lossy(payload);
        if let Targets::Names(names) = targets
            && !result.outcomes.keys().eq(names)
        {
            self.wrong.push(format!("{command}: outcomes of {:?}", result.outcomes.keys()));
        }
        for (node, outcome) in &result.outcomes {
            let n_executed =
                executions.get(&(node.as_str(), payload.as_slice())).copied().unwrap_or(0);
            let (count, is_true) = match outcome {
                CommandOutcome::Executed(reply) => {
                    (&mut self.executed, n_executed == 1 && reply == payload)
                }
                CommandOutcome::Expired => (&mut self.expired, n_executed == 0),
                CommandOutcome::Refused(_) => (&mut self.refused, n_executed == 0),
                CommandOutcome::Missing => (&mut self.missing, n_executed <= 1),
            };
            *count += 1;
            if !is_true {
                let outcome = match outcome {
                    CommandOutcome::Executed(_) => "executed".to_owned(),
                    other => format!("{other:?}"),
                };
                self.wrong.push(format!("{command} on {node}: {outcome}, ran {n_executed} times"));
            }
        }
    }
}

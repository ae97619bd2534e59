//! Counter deltas of each process since the previous sample, without double counting.
//!
//! In: samples of all processes, in order. Out: for each process its growth, and whether it lives,
//! ended, or vanished. The sum over all processes, ended ones included, is the usage of all: what
//! the kernel adds to a parent for a waited-for child is not counted twice (`child_io` has the
//! rules). A counter that goes backwards, as user time may, does not grow until it exceeds its
//! highest value.

mod account;
mod child_io;

pub use self::account::{COUNTERS, State};

use self::account::{Account, Io, io};
use self::child_io::{ChildIoCredits, Gone};
use super::parents::{FINAL_RECORD_TIMEOUT, ParentIndex};
use monitor_model::{Identity, Sample};
use std::collections::{HashMap, HashSet};

/// All processes.
#[derive(Debug, Default)]
pub struct Deltas {
    accounts: HashMap<Identity, Account>,
    parents: ParentIndex,
    child_io: ChildIoCredits,
}

impl Deltas {
    /// Adds a sample of all processes. Removes those that ended or were lost at the previous one.
    pub fn learn(&mut self, sample: &Sample) {
        let parents = &mut self.parents;
        self.accounts.retain(|id, account| {
            account.begin_sample();
            let stays = matches!(account.state, State::Living | State::Dying);
            if !stays {
                parents.remove(*id);
            }
            stays
        });
        for process in &sample.processes {
            self.accounts.entry(process.id).or_default().grow(process);
            self.parents.insert(process.id);
        }
        self.update_missing(sample);
        let gone = self.gone();
        self.child_io.settle(gone, &mut self.accounts, &self.parents);
    }

    /// The state and growth of each process.
    pub fn accounts(&self) -> impl Iterator<Item = (Identity, &Account)> {
        self.accounts.iter().map(|(id, account)| (*id, account))
    }

    /// Processes that are not in the sample are dying, and after a time lost. The backend does not
    /// name all of them as dying: it cannot for processes that exited before its hooks.
    fn update_missing(&mut self, sample: &Sample) {
        let dying: HashSet<_> = sample.dying.iter().map(|it| it.id).collect();
        for id in &dying {
            self.accounts.get_mut(id).into_iter().for_each(|it| it.state = State::Dying);
        }
        let there: HashSet<_> = sample.processes.iter().map(|it| it.id).collect();
        let now = sample.at.boot;
        for (id, account) in self.accounts.iter_mut().filter(|(id, _)| !there.contains(id)) {
            let missing = *account.missing.get_or_insert(now);
            let in_time = now.since(missing) <= FINAL_RECORD_TIMEOUT;
            let is_awaited = in_time || dying.contains(id);
            account.state = if is_awaited { State::Dying } else { State::Lost };
        }
    }

    /// Processes that lived at the previous sample and do not now, and those with an exit record.
    fn gone(&self) -> Vec<Gone> {
        let mut gone = Vec::new();
        for (id, account) in self.accounts.iter().filter(|(_, it)| it.state != State::Living) {
            let left = account.before == Some(State::Living);
            if left || account.state == State::Ended {
                let (last, grown) = (io(&account.last), io(&account.grown));
                let known = std::array::from_fn(|at| if left { last[at] - grown[at] } else { 0 });
                let (id, parent, inherited) = (*id, account.parent, Io::default());
                gone.push(Gone { id, parent, known, inherited });
            }
        }
        gone
    }
}

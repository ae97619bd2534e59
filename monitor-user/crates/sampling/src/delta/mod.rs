//! Counter deltas of each process since the previous sample, without double counting.
//!
//! In: samples of all processes, in order. Out: for each process its growth, and whether it lives,
//! ended, or vanished. The sum over all processes, ended ones included, is the usage of all: what
//! the kernel adds to a parent for a waited-for child is not counted twice (`child_io` has the
//! rules). A counter that goes backwards, as user time may, does not grow until it exceeds its
//! highest value.

mod child_io;

use self::child_io::ChildIoCredits;
use super::parents::{self, ParentIndex, WAITED_FOR, parent_pid};
use monitor_model::field::{Category, ProcessField, Role};
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::sample::{Process, Sample};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The seven counters that the kernel adds to a parent.
type Io = [u64; WAITED_FOR.len()];

/// All counters; those of [`WAITED_FOR`] come first, in its order.
pub static COUNTERS: LazyLock<Vec<ProcessField>> = LazyLock::new(|| {
    let is_other = |it: &ProcessField| it.field().role == Role::Counter && !WAITED_FOR.contains(it);
    WAITED_FOR.into_iter().chain(ProcessField::all().filter(is_other)).collect()
});

/// The state of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It is in the sample.
    #[default]
    Living,
    /// It is gone, and its exit record has not arrived.
    Dying,
    /// Its exit record is in the sample.
    Ended,
    /// It is gone and no exit record arrived in time; its last sample counts.
    Lost,
}

/// The counters of one process.
#[derive(Debug, Default)]
pub struct Account {
    /// Its state.
    pub state: State,
    /// Its state at the previous sample; `None` if it is new.
    before: Option<State>,
    /// Since when it is missing.
    missing: Option<Ns>,
    /// The highest value of each counter.
    last: Box<[u64]>,
    /// The growth of each counter.
    grown: Box<[u64]>,
    /// The counters it has, as a bit set.
    present: u64,
    /// I/O that may be that of waited-for children.
    unexplained: Io,
    /// I/O in its future exit record that was already reported for its children.
    owes: Io,
    /// The process id of its parent.
    parent: Option<Pid>,
}

impl Account {
    /// The growth of each counter it has.
    pub fn growth(&self) -> impl Iterator<Item = (ProcessField, u64)> {
        let present = |at: &usize| self.present & (1 << at) != 0;
        (0..self.grown.len()).filter(present).map(|at| (COUNTERS[at], self.grown[at]))
    }

    fn begin_sample(&mut self) {
        self.grown.fill(0);
        self.before = Some(self.state);
    }

    fn grow(&mut self, process: &Process) {
        if self.last.is_empty() {
            self.last = vec![0; COUNTERS.len()].into();
            self.grown = self.last.clone();
        }
        for (at, field) in COUNTERS.iter().enumerate() {
            let Some(now) = process.row.get(*field) else { continue };
            self.present |= 1 << at;
            self.grown[at] = now.saturating_sub(self.last[at]);
            self.last[at] = self.last[at].max(now);
        }
        for (grown, owes) in self.grown.iter_mut().zip(&mut self.owes) {
            let credited = (*grown).min(*owes);
            *grown -= credited;
            *owes -= credited;
        }
        let grown = io(&self.grown);
        self.unexplained = std::array::from_fn(|at| self.unexplained[at] + grown[at]);
        self.missing = None;
        self.parent = parent_pid(process);
        self.state = if process.ended() { State::Ended } else { State::Living };
    }
}

fn io(counters: &[u64]) -> Io {
    std::array::from_fn(|at| counters.get(at).copied().unwrap_or(0))
}

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
    /// name all of them as dying: it cannot for processes older than its hooks.
    fn update_missing(&mut self, sample: &Sample) {
        let dying: HashSet<_> = sample.dying.iter().map(|it| it.id).collect();
        let there: HashSet<_> = sample.processes.iter().map(|it| it.id).collect();
        let now = sample.at.boot;
        for (id, account) in self.accounts.iter_mut().filter(|(id, _)| !there.contains(id)) {
            let missing = *account.missing.get_or_insert(now);
            let in_time = now.since(missing) <= parents::FINAL_RECORD_TIMEOUT;
            let is_awaited = in_time || dying.contains(id);
            account.state = if is_awaited { State::Dying } else { State::Lost };
        }
    }

    /// Processes that lived at the previous sample and do not now, and those with an exit record.
    fn gone(&self) -> Vec<child_io::Gone> {
        let mut gone = Vec::new();
        for (id, account) in self.accounts.iter().filter(|(_, it)| it.state != State::Living) {
            let left = account.before == Some(State::Living);
            if left || account.state == State::Ended {
                let (last, grown) = (io(&account.last), io(&account.grown));
                let known = std::array::from_fn(|at| if left { last[at] - grown[at] } else { 0 });
                let (id, parent, inherited) = (*id, account.parent, Io::default());
                gone.push(child_io::Gone { id, parent, known, inherited });
            }
        }
        gone
    }
}

//! What each process used since the sample before, each thing once.
//!
//! In: samples of all processes, one after another. Out: for each process its growth, and whether
//! it lives, ended, or vanished. Added up over all processes, ended ones included, the growths
//! are what all of them used: what the kernel adds to a parent for a child that it waited for is
//! not told twice (`debt` has the rules). A counter that goes backwards, as user time may, does
//! not grow until it has passed where it was.

mod debt;

use self::debt::Debts;
use super::kin::{self, Kin, WAITED_FOR, parent_pid};
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

/// What became of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It is in the sample.
    #[default]
    Living,
    /// It is gone, and its final record is still to come.
    Dying,
    /// Its final record is in the sample.
    Ended,
    /// It is gone and no final record came in time; its last numbers stand.
    Lost,
}

/// One process.
#[derive(Debug, Default)]
pub struct Account {
    /// What became of it.
    pub state: State,
    /// What had become of it as of the sample before; absent if it was not known then.
    before: Option<State>,
    /// Since when it is missing.
    missing: Option<Ns>,
    /// The most that each counter was.
    last: Box<[u64]>,
    /// How much each counter grew.
    grown: Box<[u64]>,
    /// Which counters it has, as bits.
    present: u64,
    /// What of its I/O may be that of children that it waited for.
    unexplained: Io,
    /// What its final record will have of children that were told before it came.
    owes: Io,
    /// Its parent, by number.
    parent: Option<Pid>,
}

impl Account {
    /// How much each of the counters that it has grew.
    pub fn growth(&self) -> impl Iterator<Item = (ProcessField, u64)> {
        let present = |at: &usize| self.present & (1 << at) != 0;
        (0..self.grown.len()).filter(present).map(|at| (COUNTERS[at], self.grown[at]))
    }

    fn turn(&mut self) {
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
            let paid = (*grown).min(*owes);
            *grown -= paid;
            *owes -= paid;
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
pub struct Growths {
    accounts: HashMap<Identity, Account>,
    kin: Kin,
    debts: Debts,
}

impl Growths {
    /// Takes in a sample of all processes. Those that ended or were lost with the sample before
    /// are forgotten.
    pub fn learn(&mut self, sample: &Sample) {
        let kin = &mut self.kin;
        self.accounts.retain(|id, account| {
            account.turn();
            let stays = matches!(account.state, State::Living | State::Dying);
            if !stays {
                kin.forget(*id);
            }
            stays
        });
        for process in &sample.processes {
            self.accounts.entry(process.id).or_default().grow(process);
            self.kin.see(process.id);
        }
        self.absent(sample);
        let gone = self.gone();
        self.debts.settle(gone, &mut self.accounts, &self.kin);
    }

    /// What became of each process, and how much its counters grew.
    pub fn accounts(&self) -> impl Iterator<Item = (Identity, &Account)> {
        self.accounts.iter().map(|(id, account)| (*id, account))
    }

    /// Those that are not in the sample are dying, and after a time lost. That the backend names
    /// them as dying is no condition: it cannot of one that is older than its hooks.
    fn absent(&mut self, sample: &Sample) {
        let dying: HashSet<_> = sample.dying.iter().map(|it| it.id).collect();
        let there: HashSet<_> = sample.processes.iter().map(|it| it.id).collect();
        let now = sample.at.boot;
        for (id, account) in self.accounts.iter_mut().filter(|(id, _)| !there.contains(id)) {
            let missing = *account.missing.get_or_insert(now);
            let in_time = now.since(missing) <= kin::FINAL_RECORD_WITHIN;
            let awaited = in_time || dying.contains(id);
            account.state = if awaited { State::Dying } else { State::Lost };
        }
    }

    /// Those that lived with the sample before and do not now, and those whose end is told.
    fn gone(&self) -> Vec<debt::Gone> {
        let mut gone = Vec::new();
        for (id, account) in self.accounts.iter().filter(|(_, it)| it.state != State::Living) {
            let left = account.before == Some(State::Living);
            if left || account.state == State::Ended {
                let (last, grown) = (io(&account.last), io(&account.grown));
                let known = std::array::from_fn(|at| if left { last[at] - grown[at] } else { 0 });
                let (id, parent, handed) = (*id, account.parent, Io::default());
                gone.push(debt::Gone { id, parent, known, handed });
            }
        }
        gone
    }
}

//! The counters of one process: their deltas, and what of its I/O is that of its children.

use crate::parents::{WAITED_FOR, parent_pid};
use monitor_model::{Category, Ns, Pid, Process, ProcessField, Role};
use std::sync::LazyLock;

/// The seven counters that the kernel adds to a parent.
pub type Io = [u64; WAITED_FOR.len()];

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
    pub before: Option<State>,
    /// Since when it is missing.
    pub missing: Option<Ns>,
    /// The highest value of each counter.
    pub last: Box<[u64]>,
    /// The growth of each counter.
    pub grown: Box<[u64]>,
    /// The counters it has, as a bit set.
    present: u64,
    /// I/O that may be that of waited-for children.
    pub unexplained: Io,
    /// I/O in its future exit record that was already reported for its children.
    pub credit: Io,
    /// The process id of its parent.
    pub parent: Option<Pid>,
}

impl Account {
    /// The delta of each counter it has.
    pub fn deltas(&self) -> impl Iterator<Item = (ProcessField, u64)> {
        let present = |at: &usize| self.present & (1 << at) != 0;
        (0..self.grown.len()).filter(present).map(|at| (COUNTERS[at], self.grown[at]))
    }

    /// Begins a sample.
    pub fn begin_sample(&mut self) {
        self.grown.fill(0);
        self.before = Some(self.state);
    }

    /// Adds a sample of the process.
    pub fn grow(&mut self, process: &Process) {
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
        for (grown, credit) in self.grown.iter_mut().zip(&mut self.credit) {
            let credited = (*grown).min(*credit);
            *grown -= credited;
            *credit -= credited;
        }
        let grown = io(&self.grown);
        self.unexplained = std::array::from_fn(|at| self.unexplained[at] + grown[at]);
        self.missing = None;
        self.parent = parent_pid(process);
        self.state = if process.ended() { State::Ended } else { State::Living };
    }
}

/// The counters of [`WAITED_FOR`], which come first.
pub fn io(counters: &[u64]) -> Io {
    std::array::from_fn(|at| counters.get(at).copied().unwrap_or(0))
}

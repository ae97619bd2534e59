//! The monitor's own budget, and what it sheds to keep within it.
//!
//! In: time and cost of a window, as values. Out: at most one change: shed one more requested
//! capability or most pushes, or resume the last one. What costs the most is shed first, what the
//! configuration requests last. Measures nothing, attaches nothing.

use monitor_model::{Capability, Ns};
use std::{cmp::Reverse, collections::BTreeMap};

/// What can be shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sheddable {
    /// The hooks of a capability.
    Capability(Capability),
    /// All pushes but each [`KEPT_PUSHES`]th, which the configuration requests.
    Pushes,
}

impl Sheddable {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capability(it) => it.name(),
            Self::Pushes => "pushes",
        }
    }
}

/// While pushes are shed, one of this many is made.
pub const KEPT_PUSHES: u64 = 4;

/// The order in which what costs the same is shed, most expensive hooks first.
const ORDER: [Sheddable; 8] = [
    Sheddable::Capability(Capability::ExactCpu),
    Sheddable::Capability(Capability::RunQueue),
    Sheddable::Capability(Capability::Sockets),
    Sheddable::Capability(Capability::WriteBack),
    Sheddable::Capability(Capability::Block),
    Sheddable::Capability(Capability::Signals),
    Sheddable::Capability(Capability::LibraryCalls),
    Sheddable::Pushes,
];

/// Pushes that used less than this part of the budget are kept: without them it would change
/// nothing.
const SPARED: f64 = 0.1;

/// A capability is resumed when the monitor would then use at most this part of its budget.
const ROOM: f64 = 0.8;
/// Maximum windows that a capability stays shed after it was shed repeatedly.
const LONGEST_WAIT: u32 = 64;

/// The budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetLimits {
    /// Maximum part of the machine, all processors together.
    pub share: f64,
    /// Time over which that is measured.
    pub window: Ns,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self { share: 0.005, window: Ns(10_000_000_000) }
    }
}

/// What was used in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetUsage {
    /// Its length, times the processors of the machine.
    pub machine: Ns,
    /// CPU time of the monitor itself.
    pub own: Ns,
    /// Run time of the hooks of each capability, charged to other processes.
    pub hooks: Vec<(Capability, Ns)>,
    /// CPU time of pushes, a part of `own`.
    pub pushes: Ns,
}

impl BudgetUsage {
    /// The part of the machine that was used.
    pub fn share(&self) -> f64 {
        let hooks: u64 = self.hooks.iter().map(|(_, time)| time.0).sum();
        part(self.own.0 + hooks, self.machine)
    }

    /// What would not be used without it.
    fn cost_ns(&self, part: Sheddable) -> u64 {
        match part {
            Sheddable::Capability(capability) => {
                let its = self.hooks.iter().filter(|(it, _)| *it == capability);
                its.map(|(_, time)| time.0).sum()
            }
            Sheddable::Pushes => self.pushes.0 / KEPT_PUSHES * (KEPT_PUSHES - 1),
        }
    }
}

fn part(ns: u64, machine: Ns) -> f64 {
    if machine.0 == 0 { 0.0 } else { ns as f64 / machine.0 as f64 }
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetChange {
    /// This is shed.
    Shed(Sheddable),
    /// This is resumed.
    Resume(Sheddable),
    /// Over the budget, and there is nothing left to shed. Once, until it is within the budget.
    Exhausted,
    /// Within the budget again, after there was nothing left to shed.
    Recovered,
}

/// The requested capabilities.
#[derive(Clone, Copy, Debug)]
pub struct RequestedCapabilities<'a> {
    /// All of them.
    pub all: &'a [Capability],
    /// Those of them that the configuration requests.
    pub configured: &'a [Capability],
}

impl RequestedCapabilities<'_> {
    fn contains(self, what: Sheddable) -> bool {
        match what {
            Sheddable::Capability(it) => self.all.contains(&it),
            Sheddable::Pushes => true,
        }
    }

    fn is_configured(self, what: Sheddable) -> bool {
        match what {
            Sheddable::Capability(it) => self.configured.contains(&it),
            Sheddable::Pushes => true,
        }
    }
}

/// What was shed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shed {
    what: Sheddable,
    /// Its share when it was shed.
    cost: f64,
    /// Windows since.
    windows: u32,
}

/// Decides at the end of each window.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    shed: Vec<Shed>,
    /// Windows that each stays shed the next time.
    waits: BTreeMap<Sheddable, u32>,
    /// Whether it was over the budget with nothing left to shed.
    is_exhausted: bool,
}

impl Budget {
    /// What is shed, oldest first.
    pub fn shed(&self) -> impl Iterator<Item = Sheddable> {
        self.shed.iter().map(|it| it.what)
    }

    /// Judges a window in which these capabilities were requested.
    pub fn judge(
        &mut self,
        limits: &BudgetLimits,
        spent: &BudgetUsage,
        requested: RequestedCapabilities<'_>,
    ) -> Option<BudgetChange> {
        self.shed.retain(|it| requested.contains(it.what));
        self.shed.iter_mut().for_each(|it| it.windows += 1);
        let share = spent.share();
        if share > limits.share {
            return self.shed_next(limits, spent, requested);
        }
        if self.is_exhausted && share <= limits.share * ROOM {
            self.is_exhausted = false;
            return Some(BudgetChange::Recovered);
        }
        let last = self.shed.last()?;
        let rested = last.windows >= self.wait(last.what);
        if !rested || share + last.cost > limits.share * ROOM {
            return None;
        }
        self.shed.pop().map(|it| BudgetChange::Resume(it.what))
    }

    fn shed_next(
        &mut self,
        limits: &BudgetLimits,
        spent: &BudgetUsage,
        requested: RequestedCapabilities<'_>,
    ) -> Option<BudgetChange> {
        let is_shed = |it: Sheddable| self.shed.iter().any(|shed| shed.what == it);
        let helps = |it: Sheddable| {
            it != Sheddable::Pushes
                || part(spent.cost_ns(it), spent.machine) >= limits.share * SPARED
        };
        let candidates =
            ORDER.into_iter().filter(|it| requested.contains(*it) && !is_shed(*it) && helps(*it));
        let rank = |it: &Sheddable| (requested.is_configured(*it), Reverse(spent.cost_ns(*it)));
        // The first of equal ones.
        let Some(what) = candidates.min_by_key(rank) else {
            let is_new = !std::mem::replace(&mut self.is_exhausted, true);
            return is_new.then_some(BudgetChange::Exhausted);
        };
        // Each time it stays shed for twice as long.
        let wait = (self.wait(what) * 2).min(LONGEST_WAIT);
        self.waits.insert(what, wait);
        let cost = part(spent.cost_ns(what), spent.machine);
        self.shed.push(Shed { what, cost, windows: 0 });
        Some(BudgetChange::Shed(what))
    }

    fn wait(&self, what: Sheddable) -> u32 {
        self.waits.get(&what).copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BudgetChange::{Exhausted, Recovered};
    use Capability::{Block, ExactCpu, RunQueue, Snapshot};

    const fn shed(it: Capability) -> BudgetChange {
        BudgetChange::Shed(Sheddable::Capability(it))
    }

    const fn resumed(it: Capability) -> BudgetChange {
        BudgetChange::Resume(Sheddable::Capability(it))
    }

    /// A window of one second on one processor: so much was used, so much by one's hooks.
    fn spent(own_ms: u64, hooks: &[(Capability, u64)]) -> BudgetUsage {
        let ns = |ms: u64| Ns(ms * 1_000_000);
        BudgetUsage {
            machine: ns(1000),
            own: ns(own_ms),
            hooks: hooks.iter().map(|&(it, ms)| (it, ns(ms))).collect(),
            pushes: Ns(0),
        }
    }

    const ASKED: [Capability; 4] = [Snapshot, Block, RunQueue, ExactCpu];

    const fn requested(all: &[Capability]) -> RequestedCapabilities<'_> {
        RequestedCapabilities { all, configured: &[] }
    }

    #[track_caller]
    fn judged(budget: &mut Budget, windows: &[(BudgetUsage, Option<BudgetChange>)]) {
        for (at, (spent, want)) in windows.iter().enumerate() {
            let got = budget.judge(&BudgetLimits::default(), spent, requested(&ASKED));
            assert_eq!(got, *want, "window {at}");
        }
    }

    #[test]
    fn within_the_budget_nothing_changes() {
        judged(&mut Budget::default(), &[(spent(5, &[]), None), (spent(0, &[]), None)]);
    }

    #[test]
    fn above_it_one_after_another_is_given_up_in_order_and_never_the_base() {
        let over = || spent(9, &[]);
        judged(
            &mut Budget::default(),
            &[
                (over(), Some(shed(ExactCpu))),
                (over(), Some(shed(RunQueue))),
                (over(), Some(shed(Block))),
                (over(), Some(Exhausted)),
                (over(), None),
                (over(), None),
                (spent(5, &[]), None),
                (over(), None),
                (spent(4, &[]), Some(Recovered)),
                (over(), Some(Exhausted)),
            ],
        );
    }

    #[test]
    fn the_costliest_is_given_up_first_and_what_is_configured_last() {
        let mut budget = Budget::default();
        let over = spent(4, &[(ExactCpu, 1), (Block, 3), (RunQueue, 2)]);
        let mut next = || {
            let requested = RequestedCapabilities { all: &ASKED, configured: &[Block] };
            budget.judge(&BudgetLimits::default(), &over, requested)
        };
        let want = [Some(shed(RunQueue)), Some(shed(ExactCpu)), Some(shed(Block)), Some(Exhausted)];
        assert_eq!([next(), next(), next(), next()], want);
    }

    #[test]
    fn pushes_are_given_up_after_what_users_request_if_that_saves_anything() {
        let with_pushes = |pushes| BudgetUsage { pushes: Ns(pushes), ..spent(9, &[(Block, 1)]) };
        let judge = |budget: &mut Budget, spent: &BudgetUsage| {
            let requested = RequestedCapabilities { all: &[Block, ExactCpu], configured: &[Block] };
            budget.judge(&BudgetLimits::default(), spent, requested)
        };
        let mut budget = Budget::default();
        let pushes = Some(BudgetChange::Shed(Sheddable::Pushes));
        let want = [Some(shed(ExactCpu)), pushes, Some(shed(Block)), Some(Exhausted)];
        assert_eq!([(); 4].map(|()| judge(&mut budget, &with_pushes(4_000_000))), want);
        // A tenth of the budget is 0.5 ms of this window; three of four pushes would be saved.
        let mut budget = Budget::default();
        let want = [Some(shed(ExactCpu)), Some(shed(Block)), Some(Exhausted)];
        assert_eq!([(); 3].map(|()| judge(&mut budget, &with_pushes(600_000))), want);
    }

    #[test]
    fn hooks_count_as_ones_own_time_does() {
        judged(&mut Budget::default(), &[(spent(1, &[(ExactCpu, 5)]), Some(shed(ExactCpu)))]);
    }

    #[test]
    fn it_comes_back_when_there_is_room_for_what_it_cost() {
        let calm = |ms| spent(ms, &[]);
        judged(
            &mut Budget::default(),
            &[
                (spent(3, &[(ExactCpu, 3)]), Some(shed(ExactCpu))),
                (calm(0), None),
                (calm(2), None),
                (calm(1), Some(resumed(ExactCpu))),
            ],
        );
    }

    #[test]
    fn each_time_it_stays_away_longer() {
        let mut budget = Budget::default();
        let mut away = Vec::new();
        for _ in 0..8 {
            judged(&mut budget, &[(spent(6, &[]), Some(shed(ExactCpu)))]);
            let mut windows = 1;
            while budget
                .judge(&BudgetLimits::default(), &spent(0, &[]), requested(&ASKED))
                .is_none()
            {
                windows += 1;
            }
            away.push(windows);
        }
        assert_eq!(away, [2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn a_capability_that_is_no_longer_requested_is_forgotten() {
        let mut budget = Budget::default();
        judged(&mut budget, &[(spent(6, &[]), Some(shed(ExactCpu)))]);
        let now = requested(&[Snapshot]);
        assert_eq!(budget.judge(&BudgetLimits::default(), &spent(0, &[]), now), None);
        assert_eq!(budget.shed().count(), 0);
    }
}

//! Programs of stored requests as lists of the kernel, on this node or in a script.
//!
//! ```text
//!  programs -> sets, switches, events, meters -> lists at tracepoints, riders on taps
//!  records of these lists -> the rest of a request is due
//! ```
//!
//! In: all programs, each time something about them changes. Out: lists, changed as little as can
//! be: a list that does something else is replaced at once, and misses nothing.

pub mod hold;
pub mod look;
pub mod lower;
mod meter;
mod place;
pub mod set;

use super::events::Happening;
use super::list::{Program, Programs, RuleKey};
use crate::reading;
use crate::tap::rider::Rider;
use hold::HoldSets;
use lower::{Names, Place, Stepped};
use meter::Meters;
use monitor_backend::rule::insn::{GaugeChange, GaugeId, UserEventId};
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord as Record, RunCounts};
use monitor_backend::rule::{ProgramId, RuleResource, Rules};
use monitor_event::action::{KernelCounter, KernelCounterValue};
use monitor_event::node_event::is_shared;
use monitor_event::outcome::Refusal;
use monitor_event::right::SessionId;
use monitor_event::trace::Trace;
use monitor_model::id::{Ns, Pid};
use set::Sets;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What runs lists, and knows where functions are.
pub trait Kernel {
    /// The rules.
    fn rules(&mut self) -> &mut dyn Rules;
    /// Has lists run at calls of a function, also where it is found later.
    fn ride(&mut self, number: u64, rider: Rider) -> Result<(), Refusal>;
    /// Takes them away.
    fn dismount(&mut self, number: u64);
    /// How often they have run.
    fn n_rides(&self, number: u64) -> u64;
}

/// An event of a session, or of all.
type EventKey = (Option<SessionId>, i64);

/// What the kernel runs.
#[derive(Default)]
pub struct Placement {
    placed: BTreeMap<RuleKey, Placed>,
    sets: Sets,
    holds: HoldSets,
    events: BTreeMap<EventKey, UserEventId>,
    meters: Meters,
    /// Whose a list at a tracepoint or an event is, and which values it is for.
    owners: HashMap<ProgramId, RuleKey>,
    /// Whose lists at calls are.
    riders: HashMap<u64, RuleKey>,
}

/// A program that is there.
struct Placed {
    program: Program,
    switch: ProgramId,
    steps: Vec<Stepped>,
    /// At a tracepoint or an event; none at calls.
    lists: Vec<ProgramId>,
    /// Processes that were looked into for the function.
    pids: BTreeSet<Pid>,
    n_lost: u64,
    is_set: bool,
}

impl Placement {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// Runs exactly these. Which it does not take.
    pub fn run(&mut self, wanted: &Programs, kernel: &mut dyn Kernel) -> Vec<(RuleKey, Refusal)> {
        let carried = self.leave_all_but(wanted, kernel);
        let mut refused = Vec::new();
        for (key, program) in wanted {
            if let Err(why) = self.begin(*key, program, kernel) {
                refused.push((*key, why));
            }
        }
        let mut in_order: Vec<RuleKey> = self.placed.keys().copied().collect();
        in_order.sort_by_key(|key| self.placed[key].program.serial);
        for key in in_order {
            if let Err(why) = self.settle(key, kernel) {
                self.leave(key, kernel);
                refused.push((key, why));
            }
        }
        for key in carried {
            self.switch(key, true, kernel);
        }
        self.free_unused(kernel);
        refused
    }

    /// Takes away what is not wanted, or is for something else. Which of the latter were on.
    fn leave_all_but(&mut self, wanted: &Programs, kernel: &mut dyn Kernel) -> Vec<RuleKey> {
        let mut carried = Vec::new();
        let known: Vec<RuleKey> = self.placed.keys().copied().collect();
        for key in known {
            let old = &self.placed[&key].program;
            let new = wanted.get(&key);
            if new.is_some_and(|new| is_at_the_same(old, new)) {
                continue;
            }
            let is_same = new.is_some_and(|new| new.serial == old.serial);
            if is_same && self.is_on(key, kernel) {
                carried.push(key);
            }
            self.leave(key, kernel);
        }
        carried
    }

    /// A switch and a set for one that is new; who is in the set, for one that is known.
    fn begin(
        &mut self,
        key: RuleKey,
        program: &Program,
        kernel: &mut dyn Kernel,
    ) -> Result<(), Refusal> {
        if let Some(placed) = self.placed.get_mut(&key) {
            self.sets.keep(&program.whose, kernel.rules());
            placed.program = program.clone();
            return Ok(());
        }
        self.sets.make(&program.whose, kernel.rules())?;
        let switch = kernel.rules().make_switch().map_err(reading::failed)?;
        let placed = Placed {
            program: program.clone(),
            switch,
            steps: Vec::new(),
            lists: Vec::new(),
            pids: BTreeSet::new(),
            n_lost: 0,
            is_set: false,
        };
        let _none = self.placed.insert(key, placed);
        Ok(())
    }

    fn leave(&mut self, key: RuleKey, kernel: &mut dyn Kernel) {
        let Some(placed) = self.placed.remove(&key) else { return };
        kernel.rules().disable(placed.switch);
        for list in placed.lists {
            kernel.rules().remove(list);
            let _owner = self.owners.remove(&list);
        }
        kernel.dismount(placed.program.serial);
        let _owner = self.riders.remove(&placed.program.serial);
        kernel.rules().remove(placed.switch);
    }

    /// Lets a program run, or not.
    pub fn switch(&self, key: RuleKey, is_on: bool, kernel: &mut dyn Kernel) {
        let Some(placed) = self.placed.get(&key) else { return };
        match is_on {
            true => kernel.rules().enable(placed.switch),
            false => kernel.rules().disable(placed.switch),
        }
    }

    /// Whether it may run.
    pub fn is_on(&self, key: RuleKey, kernel: &mut dyn Kernel) -> bool {
        self.placed.get(&key).is_some_and(|placed| kernel.rules().is_enabled(placed.switch))
    }

    /// The requests whose programs hold who meets their event: their serials, for whom, and whom.
    pub fn holding(&self) -> impl Iterator<Item = (RuleKey, &Program)> {
        let programs = self.placed.iter().map(|(key, placed)| (*key, &placed.program));
        programs.filter(|(_, program)| program.holds.is_some())
    }

    /// How often a program has run.
    pub fn n_runs(&self, key: RuleKey, kernel: &mut dyn Kernel) -> u64 {
        let Some(placed) = self.placed.get(&key) else { return 0 };
        let lists: u64 =
            placed.lists.iter().map(|list| kernel.rules().run_counts(*list).runs).sum();
        lists + kernel.n_rides(placed.program.serial)
    }

    /// What a record of one of these lists says; nothing, if it is of another list.
    pub fn heard(&self, record: &Record) -> Option<Happening> {
        let key = self.owners.get(&record.program)?;
        let program = &self.placed.get(key)?.program;
        if record.reason == RecordReason::Storm {
            return Some(Happening::Stormed(*key, program.serial));
        }
        let it = place::occurrence(&program.topic, record)?;
        Some(Happening::Ran { rule: *key, serial: program.serial, it })
    }

    /// Whose a rider is.
    pub fn rider(&self, number: u64) -> Option<RuleKey> {
        self.riders.get(&number).copied()
    }

    /// Records, events and signals that were lost since this was asked last, but for those of
    /// calls. It is asked often, and so traces are looked at, too, before they are overwritten.
    pub fn newly_lost(&mut self, kernel: &mut dyn Kernel) -> u64 {
        self.meters.look(kernel.rules());
        let mut n_new = 0;
        for placed in self.placed.values_mut() {
            let tallies = placed.lists.iter().map(|list| kernel.rules().run_counts(*list));
            let lost = |it: RunCounts| it.lost_records + it.lost_raises + it.unsent;
            let n_lost = tallies.map(lost).sum::<u64>();
            n_new += n_lost.saturating_sub(placed.n_lost);
            placed.n_lost = n_lost;
        }
        n_new
    }

    /// What the kernel has counted in a meter.
    pub fn metered(&self, meter: KernelCounter, rules: &dyn Rules) -> KernelCounterValue {
        self.meters.read(meter, rules)
    }

    /// Changes the level of a number; what it was before.
    pub fn move_level(&self, number: u64, how: GaugeChange, rules: &mut dyn Rules) -> Option<i64> {
        self.meters.move_level(number, how, rules)
    }

    /// What was recorded in the trace of a number since this was asked last.
    pub fn take_records(&mut self, number: u64, rules: &dyn Rules) -> Trace {
        self.meters.take_records(number, rules)
    }

    /// Has the meters of a number begin anew: lists that name them are given others, at once.
    pub fn forget_meters(&mut self, (number, now): (u64, Ns), kernel: &mut dyn Kernel) {
        let old = self.meters.forget((number, now), kernel.rules());
        let keys: Vec<RuleKey> = self.placed.keys().copied().collect();
        for key in keys {
            if let Err(why) = self.settle(key, kernel) {
                tracing::warn!("a request is not run in the kernel any more: {why}");
                self.leave(key, kernel);
            }
        }
        old.into_iter().for_each(|part| kernel.rules().free(part));
    }

    /// Has no such meters any more, once no list names them.
    pub fn free_meters(&mut self, number: u64, kernel: &mut dyn Kernel) {
        self.meters.leave(number);
        if self.placed.is_empty() {
            self.meters.free_left(kernel.rules());
        }
    }

    fn free_unused(&mut self, kernel: &mut dyn Kernel) {
        let programs = self.placed.iter().map(|(key, placed)| (*key, &placed.program));
        let used: BTreeSet<EventKey> = programs.flat_map(place::events).collect();
        let unused: Vec<EventKey> =
            self.events.keys().filter(|key| !used.contains(key)).copied().collect();
        for event in unused.iter().filter_map(|key| self.events.remove(key)) {
            kernel.rules().free(RuleResource::Event(event));
        }
        let whose = self.placed.values().map(|placed| &placed.program.whose);
        self.sets.free_all_but(whose, kernel.rules());
        self.meters.free_left(kernel.rules());
        let holders = self.placed.values().filter_map(|placed| placed.program.holds);
        self.holds.free_all_but(&holders.map(|tool| tool.uid).collect(), kernel.rules());
    }
}

/// Whether two programs are for the same, whatever they do.
fn is_at_the_same(one: &Program, other: &Program) -> bool {
    let key = |it: &Program| {
        let at = (it.serial, it.topic.clone(), it.check.clone());
        (at, set::key(&it.whose), it.most, it.tells, it.holds, it.eyes)
    };
    key(one) == key(other)
}

/// The kernel's names of what one request names.
struct Named<'n> {
    session: SessionId,
    placed: &'n BTreeMap<RuleKey, Placed>,
    events: &'n mut BTreeMap<EventKey, UserEventId>,
    meters: &'n mut Meters,
    rules: &'n mut dyn Rules,
}

impl Names for Named<'_> {
    fn meter(&mut self, meter: KernelCounter) -> Result<Place, Refusal> {
        self.meters.make(meter, self.rules)
    }

    fn level(&mut self, number: u64, first: i64) -> Result<GaugeId, Refusal> {
        self.meters.make_level(number, first, self.rules)
    }

    fn switch(&self, id: monitor_omis::RequestId) -> Option<ProgramId> {
        self.placed.get(&(self.session, id)).map(|placed| placed.switch)
    }

    fn event(&mut self, number: i64) -> Result<UserEventId, Refusal> {
        let key = event_key(self.session, number);
        if let Some(event) = self.events.get(&key) {
            return Ok(*event);
        }
        let event = self.rules.make_event().map_err(reading::failed)?;
        let _none = self.events.insert(key, event);
        Ok(event)
    }
}

fn event_key(session: SessionId, number: i64) -> EventKey {
    ((!is_shared(number)).then_some(session), number)
}

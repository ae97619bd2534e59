//! Programs of stored requests on this node: its rules, and its taps where they are at calls.

use super::super::Live;
use super::Ruled;
use crate::list::{Lists, Programs, RuleKey};
use crate::program::Kernel;
use crate::tap::Taps;
use crate::tap::rider::Rider;
use monitor_backend::rule::Rules;
use monitor_backend::rule::insn::GaugeChange;
use monitor_event::action::ExecutionPlace;
use monitor_event::action::{KernelCounter, KernelCounterValue};
use monitor_event::outcome::Refusal;
use monitor_event::trace::Trace;
use monitor_model::id::Ns;
use monitor_sys::clock;

impl Kernel for Taps {
    fn rules(&mut self) -> &mut dyn Rules {
        self.rules()
    }

    fn ride(&mut self, number: u64, rider: Rider) -> Result<(), Refusal> {
        self.ride(number, rider).map_err(super::call::refusal)
    }

    fn dismount(&mut self, number: u64) {
        self.dismount(number);
    }

    fn n_rides(&self, number: u64) -> u64 {
        self.n_rides(number)
    }
}

impl Ruled {
    fn run(&mut self, programs: &Programs) -> Vec<(RuleKey, Refusal)> {
        self.drain();
        self.placement.run(programs, &mut self.taps)
    }
}

impl Lists for Live {
    fn run(&mut self, programs: &Programs) -> Vec<(RuleKey, Refusal)> {
        if programs.is_empty() && self.ruled.is_none() {
            return Vec::new();
        }
        let refused = match self.ruled() {
            Ok(ruled) => ruled.run(programs),
            Err(why) => programs.keys().map(|key| (*key, why.clone())).collect(),
        };
        self.tell_sites();
        self.hold_for_programs();
        refused
    }

    fn switch(&mut self, rule: RuleKey, is_on: bool) -> Ns {
        let now = clock::boot();
        if let Some(ruled) = &mut self.ruled {
            ruled.placement.switch(rule, is_on, &mut ruled.taps);
        }
        now
    }

    fn is_on(&mut self, rule: RuleKey) -> bool {
        let ruled = self.ruled.as_mut();
        ruled.is_some_and(|it| it.placement.is_on(rule, &mut it.taps))
    }

    fn hold(&mut self, rule: RuleKey) -> Option<ExecutionPlace> {
        self.hands.hold_of(rule)
    }

    fn n_runs(&mut self, rule: RuleKey) -> u64 {
        let ruled = self.ruled.as_mut();
        ruled.map_or(0, |it| it.placement.n_runs(rule, &mut it.taps))
    }

    fn metered(&mut self, meter: KernelCounter) -> KernelCounterValue {
        let ruled = self.ruled.as_mut();
        ruled.map(|it| it.placement.metered(meter, it.taps.rules())).unwrap_or_default()
    }

    fn move_level(&mut self, number: u64, how: GaugeChange) -> Option<i64> {
        let ruled = self.ruled.as_mut()?;
        ruled.placement.move_level(number, how, ruled.taps.rules())
    }

    fn take_records(&mut self, number: u64) -> Trace {
        let ruled = self.ruled.as_mut();
        ruled.map(|it| it.placement.take_records(number, it.taps.rules())).unwrap_or_default()
    }

    fn forget_meters(&mut self, number: u64) {
        if let Some(ruled) = &mut self.ruled {
            ruled.placement.forget_meters((number, clock::boot()), &mut ruled.taps);
        }
    }

    fn free_meters(&mut self, number: u64) {
        if let Some(ruled) = &mut self.ruled {
            ruled.placement.free_meters(number, &mut ruled.taps);
        }
    }
}

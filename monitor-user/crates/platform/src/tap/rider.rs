//! Lists of others at the places of taps: they do more at a call than tell of it.
//!
//! In: a function, a set, and what makes acts of the plan of a call. Out: a list at every place of
//! the function, all by one switch, also where the function is found later. What they tell comes
//! as the calls of taps do, with the number of the rider.

use super::place::{Placed, Spot};
use super::plan::Plan;
use super::{Refusal, Taps};
use monitor_backend as backend;
use monitor_backend::rule::ProgramId;
use monitor_backend::rule::insn::{Insn, ProcessSetId};
use monitor_event::tap::Tap;
use monitor_model::credentials::Credentials;
use monitor_model::id::Pid;
use monitor_symbols::error::SymbolError;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Makes the acts of a list, of what is known of the call.
pub type Make = Arc<dyn Fn(&Plan) -> Result<Vec<Insn>, String> + Send + Sync>;

/// Somebody's lists.
#[derive(Clone)]
pub struct Rider {
    /// At which end of which function.
    pub tap: Tap,
    /// For whom.
    pub set: ProcessSetId,
    /// By what they are switched.
    pub switch: ProgramId,
    /// Calls in a second at which they are switched off.
    pub most: u32,
    /// Whose processes they are for alone.
    pub eyes: Option<Credentials>,
    /// In whom the function is looked for.
    pub pids: BTreeSet<Pid>,
    /// Whether they tell of the call.
    pub tells: bool,
    /// What they do.
    pub make: Make,
}

/// A rider, and where it is.
pub(super) struct Mounted {
    pub(super) rider: Rider,
    pub(super) tap: Arc<Tap>,
    pub(super) places: HashMap<Spot, Placed>,
}

impl Taps {
    /// Has a rider's lists where its function is, and do what it says now.
    pub fn ride(&mut self, number: u64, rider: Rider) -> Result<(), Refusal> {
        let mut mounted = match self.riders.remove(&number) {
            Some(mounted) => mounted,
            None => {
                let (tap, places) = (Arc::new(rider.tap.clone()), HashMap::new());
                Mounted { rider: rider.clone(), tap, places }
            }
        };
        mounted.rider = rider;
        let done = self.change(&mounted);
        let pids = mounted.rider.pids.clone();
        let _none = self.riders.insert(number, mounted);
        done?;
        for pid in pids {
            self.look_for_rider(number, pid)?;
        }
        Ok(())
    }

    /// Takes its lists away.
    pub fn dismount(&mut self, number: u64) {
        for placed in self.riders.remove(&number).into_iter().flat_map(|it| it.places) {
            self.take_away(placed.1);
        }
    }

    /// How often its lists have run.
    pub fn n_rides(&self, number: u64) -> u64 {
        let places = self.riders.get(&number).into_iter().flat_map(|it| it.places.values());
        // The last list of a place is that of its edge.
        places.filter_map(|it| it.lists.last()).map(|list| self.rules.run_counts(*list).runs).sum()
    }

    /// Looks for the functions of riders in a process.
    pub(super) fn look_for_riders(&mut self, pid: Pid) {
        let meant = self.riders.iter().filter(|(_, it)| it.rider.pids.contains(&pid));
        for number in meant.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Err(error) = self.look_for_rider(number, pid) {
                tracing::warn!("a request in process {}: {error}", pid.0);
            }
        }
    }

    fn look_for_rider(&mut self, number: u64, pid: Pid) -> Result<(), Refusal> {
        match self.place_rider(number, pid) {
            Err(Refusal::Place(SymbolError::NotFound { .. } | SymbolError::Gone { .. })) => Ok(()),
            done => done,
        }
    }

    fn place_rider(&mut self, number: u64, pid: Pid) -> Result<(), Refusal> {
        let Some(mounted) = self.riders.get(&number) else { return Ok(()) };
        let (tap, rider) = (Arc::clone(&mounted.tap), mounted.rider.clone());
        for site in self.check(&tap, pid)? {
            let spot = (site.file.identity, site.offset);
            let is_there = |it: &Mounted| it.places.contains_key(&spot);
            if self.riders.get(&number).is_some_and(is_there) {
                continue;
            }
            let placed = self.add_rider((&tap, number), &rider, site, pid)?;
            if let Some(mounted) = self.riders.get_mut(&number) {
                let _none = mounted.places.insert(spot, placed);
            }
        }
        Ok(())
    }

    /// Has the lists that are there do what their rider says now.
    fn change(&mut self, mounted: &Mounted) -> Result<(), Refusal> {
        for placed in mounted.places.values() {
            let Some(list) = placed.lists.last() else { continue };
            let Some(plan) = self.lists.get(list).map(|(_, plan, _)| Arc::clone(plan)) else {
                continue;
            };
            let acts = (mounted.rider.make)(&plan).map_err(refused)?;
            self.rules.replace(*list, &acts)?;
        }
        Ok(())
    }
}

/// What cannot be made of a call.
pub(super) fn refused(why: String) -> Refusal {
    let (what, fix) = ("a request in the kernel".into(), "it is done in user space".into());
    Refusal::Kernel(backend::Error::Unsupported { what, why, fix })
}

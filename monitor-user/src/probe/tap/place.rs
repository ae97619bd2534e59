//! Where a tap is set: lists of the kernel at every place of a function in files.
//!
//! In: a tap, and a process that may have the function. Out: lists, enabled, and what each of them
//! tells. A file stays open while a list is in it, so that it stays what it was when it was read.

use super::plan::{Edge, Means, Plan};
use super::{Refusal, Tap, Taps, errno};
use crate::backend::rule::act::{Timer, Whose};
use crate::backend::rule::{self, List, ListId, Part, Place};
use crate::model::id::Pid;
use crate::probe::description::call::{Call, Kind};
use crate::probe::elf::Image;
use crate::probe::error::Error;
use crate::probe::site::Site;
use std::sync::Arc;

/// Calls of one function in a second, beyond which its tap is switched off by the kernel.
const MOST_CALLS: u32 = 1_000_000;

/// A place in a file.
pub(super) type Spot = ((u64, u64), u64);

/// The lists of a tap at one place.
pub(super) struct Placed {
    /// Held open, so that the file stays what it is.
    _site: Site,
    pub(super) lists: Vec<ListId>,
    timer: Option<Timer>,
}

impl Taps {
    pub(super) fn remove(&mut self, tap: &Arc<Tap>) {
        for placed in self.taps.remove(tap).into_iter().flatten().map(|(_, placed)| placed) {
            for list in placed.lists {
                self.rules.remove(list);
                _ = self.lists.remove(&list);
            }
            if let Some(timer) = placed.timer {
                self.rules.free(Part::Timer(timer));
            }
        }
    }

    /// Sets a tap wherever a process has the function. How many places are new.
    pub(super) fn place(&mut self, tap: &Arc<Tap>, pid: Pid) -> Result<usize, Refusal> {
        let mut n_new = 0;
        for site in self.check(tap, pid)? {
            let spot = (site.file.identity, site.offset);
            if self.taps.get(tap).is_some_and(|places| places.contains_key(&spot)) {
                continue;
            }
            let placed = self.add(tap, site, pid)?;
            if let Some(places) = self.taps.get_mut(tap) {
                _ = places.insert(spot, placed);
                n_new += 1;
            }
        }
        Ok(n_new)
    }

    fn add(&mut self, tap: &Arc<Tap>, site: Site, pid: Pid) -> Result<Placed, Refusal> {
        let call = self.described(&site)?;
        let (plan, timer) = self.plan(tap, call.as_deref(), pid)?;
        let plan = Arc::new(plan);
        let place = rule::Site { path: site.file.attach_path(), offset: site.offset };
        let mut placed = Placed { _site: site, lists: Vec::new(), timer };
        let wanted =
            [(&plan.entry, Place::Entry(place.clone())), (&plan.exit, Place::Return(place))];
        for (acts, place) in wanted.into_iter().filter(|(acts, _)| !acts.is_empty()) {
            let limit = Some(MOST_CALLS);
            let list = List { place, set: Some(self.set), limit, acts: acts.clone() };
            match self.rules.add(&list) {
                Ok(id) => placed.lists.push(id),
                Err(error) => {
                    placed.lists.iter().for_each(|list| self.rules.remove(*list));
                    timer.into_iter().for_each(|timer| self.rules.free(Part::Timer(timer)));
                    return Err(error.into());
                }
            }
        }
        for list in &placed.lists {
            _ = self.lists.insert(*list, (Arc::clone(tap), Arc::clone(&plan)));
            self.rules.enable(*list);
        }
        Ok(placed)
    }

    fn plan(
        &mut self,
        tap: &Tap,
        call: Option<&Call>,
        pid: Pid,
    ) -> Result<(Plan, Option<Timer>), Refusal> {
        let manner = self.manners.get(tap).copied().unwrap_or_default();
        // Of a function that nobody has described, or that is not told, only that it was called.
        let blank = blank();
        let call = call.filter(|_| !manner.is_silent).unwrap_or(&blank);
        if tap.edge == Edge::Start {
            return Ok((Plan::start(call).with(tap.edge, manner), None));
        }
        let timer = match Plan::needs_entry(call) || manner.histogram.is_some() {
            true => Some(self.rules.make_timer(Whose::Thread)?),
            false => None,
        };
        // Without it the error number is told as no value.
        let errno = call.fails.and_then(|_| errno::offset(&self.proc, pid).ok().flatten());
        Ok((Plan::end(call, Means { timer, errno }).with(tap.edge, manner), timer))
    }

    /// What is known of the function at a site.
    fn described(&self, site: &Site) -> Result<Option<Arc<Call>>, Error> {
        let image = Image::read(Arc::clone(&site.file))?;
        let defines = |name: &str| image.symbols(|it| it == name).is_ok_and(|it| !it.is_empty());
        Ok(self.descriptions.call(site.file.name(), &site.function, defines))
    }
}

/// A function that takes and gives nothing.
const fn blank() -> Call {
    Call { name: String::new(), result: Kind::Nothing, parameters: Vec::new(), fails: None }
}

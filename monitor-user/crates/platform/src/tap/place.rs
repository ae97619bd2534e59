//! Where a tap is set: lists of the kernel at every place of a function in files.
//!
//! In: a tap, and a process that may have the function. Out: lists, enabled, and what each of them
//! tells. A file stays open while a list is in it, so that it stays what it was when it was read.

use super::manner::Manner;
use super::plan::{Means, Plan};
use super::rider::{Rider, refused};
use super::{Refusal, Taps, errno};
use monitor_backend::rule;
use monitor_backend::rule::insn as timer;
use monitor_backend::rule::insn::{Insn, ProcessSetId, TimerId};
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram, RuleResource};
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_model::credentials::Credentials;
use monitor_model::id::Pid;
use monitor_symbols::elf::ElfImage;
use monitor_symbols::error::SymbolError;
use monitor_symbols::signatures::call::{Signature, ValueType};
use monitor_symbols::site::ProbeSite;
use std::sync::Arc;

/// Calls of one function in a second, beyond which its tap is switched off by the kernel.
const MOST_CALLS: u32 = 1_000_000;

/// A place in a file, which is named by its device and inode.
pub type Spot = ((u64, u64), u64);

/// The lists of a tap at one place.
pub(super) struct Placed {
    /// Held open, so that the file stays what it is.
    _site: ProbeSite,
    pub(super) lists: Vec<ProgramId>,
    timer: Option<TimerId>,
}

/// What the lists at a place are.
struct Terms<'t> {
    tap: &'t Arc<Tap>,
    whose: Whose,
    plan: Plan,
    timer: Option<TimerId>,
    /// At the entry, and at the return.
    acts: [Vec<Insn>; 2],
    set: ProcessSetId,
    eyes: Option<Credentials>,
    most: u32,
}

/// Whose lists they are.
enum Whose {
    /// The tap's own.
    Tap,
    /// Those of a rider, by its switch.
    Rider(u64, ProgramId),
}

impl Taps {
    pub(super) fn remove(&mut self, tap: &Arc<Tap>) {
        for placed in self.taps.remove(tap).into_iter().flatten().map(|(_, placed)| placed) {
            self.take_away(placed);
        }
    }

    pub(super) fn take_away(&mut self, placed: Placed) {
        for list in placed.lists {
            self.rules.remove(list);
            _ = self.lists.remove(&list);
        }
        if let Some(timer) = placed.timer {
            self.rules.free(RuleResource::Timer(timer));
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

    fn add(&mut self, tap: &Arc<Tap>, site: ProbeSite, pid: Pid) -> Result<Placed, Refusal> {
        let manner = self.manners.get(tap).copied().unwrap_or_default();
        let (plan, timer) = self.plan(tap, &site, pid, manner)?;
        let acts = [plan.entry.clone(), plan.exit.clone()];
        let (whose, most) = (Whose::Tap, MOST_CALLS);
        let terms = Terms { tap, whose, plan, timer, acts, set: self.set, eyes: None, most };
        let placed = self.set_lists(site, terms)?;
        placed.lists.iter().for_each(|list| self.rules.enable(*list));
        Ok(placed)
    }

    /// The lists of a rider at a place.
    pub(super) fn add_rider(
        &mut self,
        (tap, number): (&Arc<Tap>, u64),
        rider: &Rider,
        site: ProbeSite,
        pid: Pid,
    ) -> Result<Placed, Refusal> {
        let manner = Manner::default();
        let (plan, timer) = self.plan(tap, &site, pid, manner)?;
        let own = (rider.make)(&plan).map_err(refused);
        let own = own.inspect_err(|_| self.free(timer))?;
        let acts = match tap.edge {
            Edge::Start => [own, Vec::new()],
            // What the entry keeps for the return, if that is told.
            Edge::End if rider.tells => [plan.entry.clone(), own],
            Edge::End => [Vec::new(), own],
        };
        let whose = Whose::Rider(number, rider.switch);
        let (set, eyes, most) = (rider.set, rider.eyes, rider.most);
        self.set_lists(site, Terms { tap, whose, plan, timer, acts, set, eyes, most })
    }

    /// Sets lists at both ends of a function; or none, if one of them is refused.
    fn set_lists(&mut self, site: ProbeSite, terms: Terms<'_>) -> Result<Placed, Refusal> {
        let plan = Arc::new(terms.plan);
        let place = rule::Site { path: site.file.attach_path(), offset: site.offset };
        let mut placed = Placed { _site: site, lists: Vec::new(), timer: terms.timer };
        let (rider, switch) = match terms.whose {
            Whose::Tap => (None, None),
            Whose::Rider(number, switch) => (Some(number), Some(switch)),
        };
        let places = [HookPoint::Entry(place.clone()), HookPoint::Return(place)];
        for (acts, place) in terms.acts.into_iter().zip(places).filter(|it| !it.0.is_empty()) {
            let list = RuleProgram::new(place, Some(terms.set), acts);
            let list =
                RuleProgram { limit: Some(terms.most), switch, credentials: terms.eyes, ..list };
            match self.rules.add(&list) {
                Ok(id) => placed.lists.push(id),
                Err(error) => {
                    self.take_away(placed);
                    return Err(error.into());
                }
            }
        }
        for list in &placed.lists {
            _ = self.lists.insert(*list, (Arc::clone(terms.tap), Arc::clone(&plan), rider));
        }
        Ok(placed)
    }

    fn free(&mut self, timer: Option<TimerId>) {
        timer.into_iter().for_each(|timer| self.rules.free(RuleResource::Timer(timer)));
    }

    fn plan(
        &mut self,
        tap: &Tap,
        site: &ProbeSite,
        pid: Pid,
        manner: Manner,
    ) -> Result<(Plan, Option<TimerId>), Refusal> {
        let call = self.described(site)?;
        // Of a function that nobody has described, or that is not told, only that it was called.
        let blank = blank();
        let call = call.as_deref().filter(|_| !manner.is_silent).unwrap_or(&blank);
        if tap.edge == Edge::Start {
            return Ok((Plan::start(call).with(tap.edge, manner), None));
        }
        let timer = match Plan::needs_entry(call) || manner.histogram.is_some() {
            true => Some(self.rules.make_timer(timer::TimerScope::Thread)?),
            false => None,
        };
        // Without it the error number is told as no value.
        let errno = call.fails.and_then(|_| errno::offset(&self.proc, pid).ok().flatten());
        Ok((Plan::end(call, Means { timer, errno }).with(tap.edge, manner), timer))
    }

    /// What is known of the function at a site.
    fn described(&self, site: &ProbeSite) -> Result<Option<Arc<Signature>>, SymbolError> {
        let image = ElfImage::read(Arc::clone(&site.file))?;
        let defines = |name: &str| image.symbols(|it| it == name).is_ok_and(|it| !it.is_empty());
        Ok(self.descriptions.call(site.file.name(), &site.function, defines))
    }
}

/// A function that takes and gives nothing.
const fn blank() -> Signature {
    Signature { name: String::new(), result: ValueType::Void, parameters: Vec::new(), fails: None }
}

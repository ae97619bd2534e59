//! Where a tap is set: lists of the kernel at every place of a function in files.
//!
//! In: a tap, and a process that may have the function. Out: lists, enabled, and what each of them
//! tells. A file stays open while a list is in it, so that it stays what it was when it was read.

use super::options::TapOptions;
use super::plan::{CallPlan, ReturnInputs};
use super::tap_program::{AttachedProgram, AttachedSite, TapProgram};
use super::{TapError, Taps, errno};
use monitor_backend::rule;
use monitor_backend::rule::insn::{Insn, ProcessSetId, TimerId, TimerScope};
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram, RuleResource};
use monitor_event::tap::{Edge, Tap};
use monitor_model::credentials::Credentials;
use monitor_model::id::Pid;
use monitor_symbols::elf::ElfImage;
use monitor_symbols::error::SymbolError;
use monitor_symbols::signatures::call::{Signature, ValueType};
use monitor_symbols::site::ProbeSite;
use std::collections::HashMap;
use std::sync::Arc;

/// Calls of one function in a second, beyond which its tap is switched off by the kernel.
const MAX_CALL_RATE: u32 = 1_000_000;

/// What the lists at a place are.
struct AttachSpec<'t> {
    tap: &'t Arc<Tap>,
    owner: ProgramOwner,
    plan: CallPlan,
    timer: Option<TimerId>,
    /// At the entry, and at the return.
    acts: [Vec<Insn>; 2],
    set: ProcessSetId,
    viewer: Option<Credentials>,
    max_rate: u32,
}

/// Whose lists they are.
enum ProgramOwner {
    /// The tap's own.
    Tap,
    /// Those of a rider, by its switch.
    Program(u64, ProgramId),
}

impl Taps {
    pub(super) fn remove(&mut self, tap: &Arc<Tap>) {
        for placed in self.taps.remove(tap).into_iter().flatten().map(|(_, placed)| placed) {
            self.detach(placed);
        }
    }

    pub(super) fn detach(&mut self, placed: AttachedSite) {
        for list in placed.lists {
            self.rules.remove(list);
            _ = self.meanings.remove(&list);
        }
        if let Some(timer) = placed.timer {
            self.rules.free(RuleResource::Timer(timer));
        }
    }

    /// Sets a tap wherever a process has the function. How many places are new.
    pub(super) fn attach(&mut self, tap: &Arc<Tap>, pid: Pid) -> Result<usize, TapError> {
        let mut n_new = 0;
        for site in self.resolve_sites(tap, pid)? {
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

    fn add(&mut self, tap: &Arc<Tap>, site: ProbeSite, pid: Pid) -> Result<AttachedSite, TapError> {
        let manner = self.options.get(tap).copied().unwrap_or_default();
        let (plan, timer) = self.plan(tap, &site, pid, manner)?;
        let acts = [plan.entry.clone(), plan.exit.clone()];
        let (whose, most) = (ProgramOwner::Tap, MAX_CALL_RATE);
        let terms = AttachSpec { tap, owner: whose, plan, timer, acts, set: self.set, viewer: None, max_rate: most };
        let placed = self.add_programs(site, terms)?;
        placed.lists.iter().for_each(|list| self.rules.enable(*list));
        Ok(placed)
    }

    /// The lists of a rider at a place.
    pub(super) fn attach_program(
        &mut self,
        (tap, number): (&Arc<Tap>, u64),
        rider: &TapProgram,
        site: ProbeSite,
        pid: Pid,
    ) -> Result<AttachedSite, TapError> {
        let manner = TapOptions::default();
        let (plan, timer) = self.plan(tap, &site, pid, manner)?;
        let own = (rider.make_insns)(&plan).map_err(unsupported);
        let own = own.inspect_err(|_| self.free(timer))?;
        let acts = match tap.edge {
            Edge::Start => [own, Vec::new()],
            // What the entry keeps for the return, if that is told.
            Edge::End if rider.reports => [plan.entry.clone(), own],
            Edge::End => [Vec::new(), own],
        };
        let whose = ProgramOwner::Program(number, rider.switch);
        let (set, eyes, most) = (rider.set, rider.viewer, rider.max_rate);
        self.add_programs(site, AttachSpec { tap, owner: whose, plan, timer, acts, set, viewer: eyes, max_rate: most })
    }

    /// Sets lists at both ends of a function; or none, if one of them is refused.
    fn add_programs(&mut self, site: ProbeSite, terms: AttachSpec<'_>) -> Result<AttachedSite, TapError> {
        let plan = Arc::new(terms.plan);
        let place = rule::Site { path: site.file.attach_path(), offset: site.offset };
        let mut placed = AttachedSite { _site: site, lists: Vec::new(), timer: terms.timer };
        let (rider, switch) = match terms.owner {
            ProgramOwner::Tap => (None, None),
            ProgramOwner::Program(number, switch) => (Some(number), Some(switch)),
        };
        let places = [HookPoint::Entry(place.clone()), HookPoint::Return(place)];
        for (acts, place) in terms.acts.into_iter().zip(places).filter(|it| !it.0.is_empty()) {
            let list = RuleProgram::new(place, Some(terms.set), acts);
            let list =
                RuleProgram { limit: Some(terms.max_rate), switch, credentials: terms.viewer, ..list };
            match self.rules.add(&list) {
                Ok(id) => placed.lists.push(id),
                Err(error) => {
                    self.detach(placed);
                    return Err(error.into());
                }
            }
        }
        for list in &placed.lists {
            _ = self.meanings.insert(*list, (Arc::clone(terms.tap), Arc::clone(&plan), rider));
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
        manner: TapOptions,
    ) -> Result<(CallPlan, Option<TimerId>), TapError> {
        let call = self.signature(site)?;
        // Of a function that nobody has described, or that is not told, only that it was called.
        let blank = unknown_signature();
        let call = call.as_deref().filter(|_| !manner.is_silent).unwrap_or(&blank);
        if tap.edge == Edge::Start {
            return Ok((CallPlan::start(call).with(tap.edge, manner), None));
        }
        let timer = match CallPlan::needs_entry(call) || manner.histogram.is_some() {
            true => Some(self.rules.make_timer(TimerScope::Thread)?),
            false => None,
        };
        // Without it the error number is told as no value.
        let errno = call.fails.and_then(|_| errno::offset(&self.proc, pid).ok().flatten());
        Ok((CallPlan::end(call, ReturnInputs { timer, errno }).with(tap.edge, manner), timer))
    }

    /// What is known of the function at a site.
    fn signature(&self, site: &ProbeSite) -> Result<Option<Arc<Signature>>, SymbolError> {
        let image = ElfImage::read(Arc::clone(&site.file))?;
        let defines = |name: &str| image.symbols(|it| it == name).is_ok_and(|it| !it.is_empty());
        Ok(self.signatures.call(site.file.name(), &site.function, defines))
    }
}

impl Taps {
    /// Has a rider's lists where its function is, and do what it says now.
    pub fn add_program_at_calls(&mut self, number: u64, rider: TapProgram) -> Result<(), TapError> {
        let mut mounted = match self.programs.remove(&number) {
            Some(mounted) => mounted,
            None => {
                let (tap, places) = (Arc::new(rider.tap.clone()), HashMap::new());
                AttachedProgram { program: rider.clone(), tap, sites: places }
            }
        };
        mounted.program = rider;
        let done = self.replace_insns(&mounted);
        let pids = mounted.program.pids.clone();
        let _none = self.programs.insert(number, mounted);
        done?;
        for pid in pids {
            self.scan_for_program(number, pid)?;
        }
        Ok(())
    }

    /// Takes its lists away.
    pub fn remove_program(&mut self, number: u64) {
        for placed in self.programs.remove(&number).into_iter().flat_map(|it| it.sites) {
            self.detach(placed.1);
        }
    }

    /// How often its lists have run.
    pub fn program_runs(&self, number: u64) -> u64 {
        let places = self.programs.get(&number).into_iter().flat_map(|it| it.sites.values());
        // The last list of a place is that of its edge.
        places.filter_map(|it| it.lists.last()).map(|list| self.rules.run_counts(*list).runs).sum()
    }

    /// Looks for the functions of riders in a process.
    pub(super) fn scan_for_programs(&mut self, pid: Pid) {
        let meant = self.programs.iter().filter(|(_, it)| it.program.pids.contains(&pid));
        for number in meant.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Err(error) = self.scan_for_program(number, pid) {
                tracing::warn!("a request in process {}: {error}", pid.0);
            }
        }
    }

    fn scan_for_program(&mut self, number: u64, pid: Pid) -> Result<(), TapError> {
        match self.attach_in_process(number, pid) {
            Err(TapError::Symbol(SymbolError::NotFound { .. } | SymbolError::Gone { .. })) => Ok(()),
            done => done,
        }
    }

    fn attach_in_process(&mut self, number: u64, pid: Pid) -> Result<(), TapError> {
        let Some(mounted) = self.programs.get(&number) else { return Ok(()) };
        let (tap, rider) = (Arc::clone(&mounted.tap), mounted.program.clone());
        for site in self.resolve_sites(&tap, pid)? {
            let spot = (site.file.identity, site.offset);
            let is_there = |it: &AttachedProgram| it.sites.contains_key(&spot);
            if self.programs.get(&number).is_some_and(is_there) {
                continue;
            }
            let placed = self.attach_program((&tap, number), &rider, site, pid)?;
            if let Some(mounted) = self.programs.get_mut(&number) {
                let _none = mounted.sites.insert(spot, placed);
            }
        }
        Ok(())
    }

    /// Has the lists that are there do what their rider says now.
    fn replace_insns(&mut self, mounted: &AttachedProgram) -> Result<(), TapError> {
        for placed in mounted.sites.values() {
            let Some(list) = placed.lists.last() else { continue };
            let Some(plan) = self.meanings.get(list).map(|(_, plan, _)| Arc::clone(plan)) else {
                continue;
            };
            let acts = (mounted.program.make_insns)(&plan).map_err(unsupported)?;
            self.rules.replace(*list, &acts)?;
        }
        Ok(())
    }
}

/// What cannot be made of a call.
fn unsupported(why: String) -> TapError {
    let (what, fix) = ("a request in the kernel".into(), "it is done in user space".into());
    TapError::Kernel(monitor_backend::Error::Unsupported { what, why, fix })
}

/// A function that takes and gives nothing.
const fn unknown_signature() -> Signature {
    Signature { name: String::new(), result: ValueType::Void, parameters: Vec::new(), fails: None }
}

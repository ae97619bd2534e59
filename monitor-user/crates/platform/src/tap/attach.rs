//! Attaches taps, and tap programs at a site: rule programs at the entry and ends of a function.
//!
//! In: a tap, and a process that may have the function. Out: programs, enabled, and the meaning of
//! their records. A file stays open while a program is attached to it, so that it stays the file
//! that was read.

use super::ends::EndSites;
use super::plan::{CallPlan, ReturnInputs, TapOptions};
use super::tap_program::{AttachedSite, FileOffset, TapProcesses, TapProgram};
use super::{TapError, Taps};
use monitor_backend::Error;
use monitor_backend::rule::insn::{Insn, ProcessSetId, TimerId, TimerScope};
use monitor_backend::rule::{self, Children, HookPoint, ProgramId, RuleProgram, RuleResource};
use monitor_event::tap::{Edge, Tap};
use monitor_model::{Credentials, Pid};
use monitor_symbols::calls::CallSite;
use monitor_symbols::function_spec::LINKER_HOOK;
use monitor_symbols::signatures::call::{Signature, ValueType};
use std::collections::BTreeSet;
use std::{sync::Arc, task::Poll};

/// Calls of one function in a second, beyond which its tap is switched off by the kernel.
const MAX_CALL_RATE: u32 = 1_000_000;

/// A function in a file of a process.
#[derive(Clone, Copy)]
pub(super) struct FoundSite<'s> {
    pub(super) site: &'s CallSite,
    pub(super) pid: Pid,
}

/// What is attached to a site.
struct AttachSpec<'t> {
    tap: &'t Arc<Tap>,
    owner: ProgramOwner,
    plans: CallPlans,
    /// At the entry, at the return, and at a jump to another function.
    insns: [Vec<Insn>; 3],
    ends: EndSites,
    set: ProcessSetId,
    viewer: Option<Credentials>,
    max_rate: u32,
}

/// What is fetched of a call.
pub(super) struct CallPlans {
    pub(super) plan: CallPlan,
    /// The same at a jump to another function, which gives the result later.
    without_result: CallPlan,
    pub(super) timer: Option<TimerId>,
}

/// The owner of programs.
enum ProgramOwner {
    /// The tap's own.
    Tap,
    /// A tap program, by its switch, and its user.
    Program(u64, ProgramId, u32),
}

impl Taps {
    pub(super) fn remove(&mut self, tap: &Arc<Tap>) {
        let Some(attached) = self.taps.remove(tap) else { return };
        for (_, site) in attached.sites {
            self.detach(site);
        }
        if let Some(processes) = attached.processes {
            self.rules.free(RuleResource::Set(processes.set));
        }
    }

    /// Adds a tap, unless there is one, and makes it one for exactly these processes. Returns those
    /// that it was not for.
    pub(super) fn set_processes(
        &mut self,
        tap: &Arc<Tap>,
        pids: &BTreeSet<Pid>,
    ) -> Result<Vec<Pid>, Error> {
        let attached = self.taps.entry(Arc::clone(tap)).or_default();
        let own = match &mut attached.processes {
            Some(own) => own,
            None => {
                let set = self.rules.make_set(Children::Included)?;
                attached.processes.insert(TapProcesses { set, pids: BTreeSet::new() })
            }
        };
        for gone in own.pids.difference(pids) {
            self.rules.exclude(own.set, *gone);
        }
        let new: Vec<Pid> = pids.difference(&own.pids).copied().collect();
        for came in &new {
            // A process that has ended is not included, and has no functions.
            if let Err(error) = self.rules.include(own.set, *came) {
                tracing::warn!("{}: calls of process {} are not seen: {error}", tap.name, came.0);
            }
        }
        own.pids.clone_from(pids);
        Ok(new)
    }

    pub(super) fn detach(&mut self, attached: AttachedSite) {
        self.note_leaving(attached.locations());
        for list in attached.programs() {
            self.rules.remove(list);
            _ = self.meanings.remove(&list);
        }
        if let Some(timer) = attached.timer {
            self.rules.free(RuleResource::Timer(timer));
        }
    }

    /// Removes a program with a probe at a place, which the kernel may still have for a while.
    pub fn remove_probe(&mut self, program: ProgramId, location: FileOffset) {
        self.note_leaving([location]);
        self.rules.remove(program);
    }

    fn note_leaving(&mut self, locations: impl IntoIterator<Item = FileOffset>) {
        if !self.rules.has_leaving_probes() {
            self.leaving.clear();
        }
        self.leaving.extend(locations);
    }

    /// Sets a tap wherever a process has the function; later, if that is not known yet.
    pub(super) fn attach(&mut self, tap: &Arc<Tap>, pid: Pid) -> Result<(), TapError> {
        let Poll::Ready(found) = self.find_calls(tap, pid) else { return Ok(()) };
        let found = found?;
        self.note_found(tap, pid, true);
        let mut has_new = false;
        for site in &found.sites {
            let location = (site.file.identity, site.offset);
            let Some(known) = self.taps.get(tap) else { return Ok(()) };
            if known.sites.contains_key(&location) {
                continue;
            }
            let set = known.processes.as_ref().map_or(self.set, |own| own.set);
            let attached = self.add(tap, set, FoundSite { site, pid })?;
            if let Some(known) = self.taps.get_mut(tap) {
                _ = known.sites.insert(location, attached);
            }
            has_new = true;
            self.note_new_site(tap, pid);
        }
        if tap.name == LINKER_HOOK {
            self.note_hooked(pid, has_new);
        }
        Ok(())
    }

    fn add(
        &mut self,
        tap: &Arc<Tap>,
        set: ProcessSetId,
        found: FoundSite<'_>,
    ) -> Result<AttachedSite, TapError> {
        let options = self.options.get(tap).copied().unwrap_or_default();
        let ends = EndSites::from_tap(tap, found.site);
        let mut plans = self.plan(tap, found, options)?;
        if tap.name == LINKER_HOOK {
            plans.plan.entry = self.hook_insns()?;
        }
        let insns =
            [&plans.plan.entry, &plans.plan.exit, &plans.without_result.exit].map(Vec::clone);
        let (owner, max_rate) = (ProgramOwner::Tap, MAX_CALL_RATE);
        let spec = AttachSpec { tap, owner, plans, insns, ends, set, viewer: None, max_rate };
        let attached = self.add_programs(found, spec)?;
        attached.programs().for_each(|list| self.rules.enable(list));
        Ok(attached)
    }

    /// The programs of a tap program at a site.
    pub(super) fn attach_program(
        &mut self,
        (tap, number): (&Arc<Tap>, u64),
        program: &TapProgram,
        found: FoundSite<'_>,
    ) -> Result<AttachedSite, TapError> {
        let options = TapOptions::default();
        let ends = EndSites::from_tap(tap, found.site);
        let plans = self.plan(tap, found, options)?;
        let make = |plan: &CallPlan| (program.make_insns)(plan).map_err(unsupported);
        let made = make(&plans.plan).and_then(|own| match ends.has_tail_jumps() {
            true => Ok((own, make(&plans.without_result)?)),
            false => Ok((own, Vec::new())),
        });
        let (own, without_result) = made.inspect_err(|_| self.free(plans.timer))?;
        let insns = match tap.edge {
            Edge::Start => [own, Vec::new(), Vec::new()],
            // What the entry keeps for the return, if that is reported.
            Edge::End if program.reports => [plans.plan.entry.clone(), own, without_result],
            Edge::End => [Vec::new(), own, without_result],
        };
        let owner = ProgramOwner::Program(number, program.switch, program.user);
        let (set, viewer, max_rate) = (program.set, program.viewer, program.max_rate);
        let spec = AttachSpec { tap, owner, plans, insns, ends, set, viewer, max_rate };
        self.add_programs(found, spec)
    }

    /// Attaches programs at the entry and the ends of a function; or none, if one of them is
    /// refused.
    fn add_programs(
        &mut self,
        FoundSite { site, pid }: FoundSite<'_>,
        spec: AttachSpec<'_>,
    ) -> Result<AttachedSite, TapError> {
        let CallPlans { plan, without_result, timer } = spec.plans;
        let file = site.file.hold(&self.proc, pid).inspect_err(|_| self.free(timer))?;
        let (plan, without_result) = (Arc::new(plan), Arc::new(without_result));
        let path = file.attach_path();
        let at = |offset| rule::Site { path: path.clone(), offset };
        let hooks = [
            Some(HookPoint::Entry(at(site.offset))),
            spec.ends.returns(at),
            spec.ends.tail_jumps(at),
        ];
        let mut attached =
            AttachedSite { file, offsets: Vec::new(), entry: None, ends: Vec::new(), timer };
        let (program, switch, user) = match spec.owner {
            ProgramOwner::Tap => (None, None, None),
            ProgramOwner::Program(number, switch, user) => (Some(number), Some(switch), Some(user)),
        };
        let plans = [&plan, &plan, &without_result];
        for ((insns, hook), plan) in spec.insns.into_iter().zip(hooks).zip(plans) {
            let Some(hook) = hook.filter(|_| !insns.is_empty()) else { continue };
            let is_entry = matches!(hook, HookPoint::Entry(_));
            attached.offsets.extend(hook.sites().iter().map(|site| site.offset));
            let (limit, credentials) = (Some(spec.max_rate), spec.viewer);
            let list = RuleProgram::new(hook, Some(spec.set), insns);
            match self.rules.add(&RuleProgram { limit, switch, credentials, user, ..list }) {
                Ok(id) if is_entry => attached.entry = Some(id),
                Ok(id) => attached.ends.push(id),
                Err(error) => {
                    self.detach(attached);
                    return Err(error.into());
                }
            }
            let id = attached.programs().last();
            let meaning = (Arc::clone(spec.tap), Arc::clone(plan), program);
            _ = id.and_then(|id| self.meanings.insert(id, meaning));
        }
        Ok(attached)
    }

    pub(super) fn free(&mut self, timer: Option<TimerId>) {
        timer.into_iter().for_each(|timer| self.rules.free(RuleResource::Timer(timer)));
    }

    pub(super) fn plan(
        &mut self,
        tap: &Tap,
        FoundSite { site, .. }: FoundSite<'_>,
        options: TapOptions,
    ) -> Result<CallPlans, TapError> {
        let call = self.signature(site);
        // Of a function without a signature, or one that is silent, only the call is reported.
        let blank = unknown_signature();
        let call = call.as_deref().filter(|_| !options.is_silent).unwrap_or(&blank);
        if tap.edge == Edge::Start {
            let plan = CallPlan::start(call).with(tap.edge, options);
            return Ok(CallPlans { plan, without_result: CallPlan::default(), timer: None });
        }
        let timer = match CallPlan::needs_entry(call) || options.histogram.is_some() {
            true => Some(self.rules.make_timer(TimerScope::Thread)?),
            false => None,
        };
        let end = |has_result| {
            let inputs = ReturnInputs { has_result, timer };
            CallPlan::end(call, inputs).with(tap.edge, options)
        };
        Ok(CallPlans { plan: end(true), without_result: end(false), timer })
    }

    /// What is known of the function at a site.
    fn signature(&self, site: &CallSite) -> Option<Arc<Signature>> {
        let defines = |name: &str| site.marks.iter().any(|mark| mark == name);
        self.signatures.call(site.file.name(), &site.function, defines)
    }
}

/// The program cannot be made for this call.
pub(super) fn unsupported(why: String) -> TapError {
    let (what, fix) = ("a request in the kernel".into(), "it is done in user space".into());
    TapError::Kernel(monitor_backend::Error::Unsupported { what, why, fix })
}

/// A function that takes and gives nothing.
const fn unknown_signature() -> Signature {
    Signature { name: String::new(), result: ValueType::Void, parameters: Vec::new(), fails: None }
}

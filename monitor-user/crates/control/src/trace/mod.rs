//! Threads under ptrace: held, inspected, stepped, running thread plans.
//!
//! ```text
//!  Tracer ---> TracedProcess ---> Tracee (a thread)
//!               stop.rs: interprets a stop     resume.rs: decides how it continues
//! ```
//!
//! In: requests on threads. Out: stopped threads, and later events. Only the thread that created a
//! `Tracer` may use it: the kernel accepts requests from no other.

mod breakpoint;
mod catch;
mod condition;
mod detach;
mod insn_boundary;
mod lost_child;
mod process;
mod resume;
mod set_back;
mod stop;
mod stopped_batch;
mod stopped_threads;
mod thread_plan;
mod tracee;

use super::machine::{self, Registers};
use super::process_ref::{ProcessRef, tick_identity};
use super::{
    BeforeInstruction, BreakpointMeans, ControlError, Patch, ProbeLocation, ProbeUse, RequestTag,
    ToolId, WorkerEvent, deadline::DeadlineWait, stop_reason::StopReason, unwind,
};
use breakpoint::Breakpoints;
pub use breakpoint::{BreakpointOwner, BreakpointSite, INT3};
pub use detach::TracerFate;
use monitor_event::thread::Argument;
use monitor_model::Identity;
use process::TracedProcess;
pub use process::WatchOf;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
pub use stopped_threads::ThreadSelection;
use thread_plan::{PlanKind, ReturnReport, ThreadPlan};

/// Most time of a procedure that a thread was made to call.
pub const CALL_AT_MOST: Duration = Duration::from_secs(5);

/// All traced processes.
#[derive(Default)]
pub struct Tracer(BTreeMap<Identity, TracedProcess>);

/// A request for a thread plan or an event release.
pub struct PlanRequest {
    /// The tool.
    pub tool: ToolId,
    /// The tag of the request.
    pub tag: RequestTag,
    /// The thread id.
    pub tid: i32,
}

impl Tracer {
    /// Runs an operation while a thread is stopped.
    pub fn inspect<T>(
        &mut self,
        process: ProcessRef,
        tid: i32,
        deadline: &mut DeadlineWait<'_>,
        inspect: impl FnOnce(&mut TracedProcess) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let traced = self.process_entry(process);
        let result = traced.halt(tid, deadline).and_then(|()| inspect(traced));
        traced.end_inspection(tid);
        self.remove_untraced();
        result
    }

    /// Stops one thread for a tool.
    pub fn stop_thread(
        &mut self,
        tool: ToolId,
        process: ProcessRef,
        tid: i32,
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<(), ControlError> {
        self.inspect(process, tid, deadline, |traced| {
            let thread = traced.threads.get_mut(&tid).ok_or(ControlError::Gone)?;
            let _again = thread.holders.insert((tool, StopReason::Requested), None);
            Ok(())
        })
    }

    /// Releases a thread that the tool stopped.
    pub fn release_stop(
        &mut self,
        tool: ToolId,
        id: Identity,
        tid: i32,
    ) -> Result<(), ControlError> {
        let traced = self.0.get_mut(&tick_identity(id));
        let traced = traced
            .ok_or_else(|| ControlError::wrong_state("this tool has not stopped the thread"))?;
        let released = traced.release(tid, (tool, StopReason::Requested));
        self.remove_untraced();
        released
    }

    /// Releases a thread that an event held; its signal is delivered or discarded.
    pub fn release_event(
        &mut self,
        plan: &PlanRequest,
        id: Identity,
        deliver_signal: bool,
    ) -> Result<(), ControlError> {
        let traced = self
            .0
            .get_mut(&tick_identity(id))
            .ok_or_else(|| ControlError::wrong_state("no event holds the thread"))?;
        let event = (plan.tool, StopReason::ThreadEvent(plan.tag));
        let thread = traced.threads.get_mut(&plan.tid);
        if let Some(thread) = thread.filter(|it| it.holders.contains_key(&event)) {
            thread.resolve_rule_signal(deliver_signal);
        }
        let released = traced.release(plan.tid, event);
        self.remove_untraced();
        released
    }

    /// Sets a thread back to the instruction whose probe has stopped it; whether it stays, because
    /// a condition of the breakpoint holds or there are none.
    pub fn set_back(
        &mut self,
        plan: &PlanRequest,
        id: Identity,
        before: &BeforeInstruction,
    ) -> Result<bool, ControlError> {
        let why = || ControlError::wrong_state("no probe has stopped the thread");
        let traced = self.0.get_mut(&tick_identity(id)).ok_or_else(why)?;
        let event = (plan.tool, StopReason::ThreadEvent(plan.tag));
        let thread = traced.threads.get_mut(&plan.tid).ok_or_else(why)?;
        if !thread.holders.contains_key(&event) || thread.state != tracee::RunState::Stopped {
            return Err(why());
        }
        thread.set_back(&traced.process, before)?;
        let stays = traced.condition_holds(plan.tid, (plan.tool, plan.tag));
        if !stays {
            traced.release(plan.tid, event)?;
        }
        Ok(stays)
    }

    /// Sets a breakpoint for all threads; returns how.
    pub fn set_breakpoint(
        &mut self,
        process: ProcessRef,
        site: BreakpointSite<'_>,
        owner: BreakpointOwner,
        deadline: &mut DeadlineWait<'_>,
    ) -> Result<BreakpointMeans, ControlError> {
        let requester = owner.requester;
        let traced = self.process_entry(process);
        let set = traced.seize_all().and_then(|()| {
            let means = traced.breakpoints.set(&traced.process, &site, owner)?;
            if means == BreakpointMeans::DebugRegister {
                traced.write_debug_registers(deadline)?;
            }
            Ok(means)
        });
        if set.is_err() {
            let _ended = traced.unset_breakpoints(|it| *it == requester);
            traced.detach_idle();
        }
        self.remove_untraced();
        set
    }

    /// Holds any thread that a rule program stops, for this tool.
    pub fn watch(
        &mut self,
        process: ProcessRef,
        requester: (ToolId, RequestTag),
        watch: WatchOf,
    ) -> Result<(), ControlError> {
        let traced = self.process_entry(process);
        let seized = traced.seize_all();
        if seized.is_ok() {
            let _again = traced.watches.insert(requester, watch);
        }
        traced.detach_idle();
        self.remove_untraced();
        seized
    }

    /// Removes what a tool has set under this tag.
    pub fn unset(
        &mut self,
        requester: (ToolId, RequestTag),
        id: Identity,
    ) -> Result<(), ControlError> {
        let nothing = || ControlError::wrong_state("nothing is set in the process under this tag");
        let traced = self.0.get_mut(&tick_identity(id)).ok_or_else(nothing)?;
        let mut found = traced.unwatch(|it| *it == requester);
        found |= traced.catches.remove(&requester).is_some();
        found |= traced.unset_breakpoints(|it| *it == requester)? > 0;
        let out = traced
            .threads
            .values()
            .filter(|thread| thread.plan.as_ref().is_some_and(|it| (it.tool, it.tag) == requester));
        for tid in out.map(|thread| thread.tid).collect::<Vec<_>>() {
            traced.cancel_plan(tid);
            found = true;
        }
        traced.detach_idle();
        self.remove_untraced();
        if found { Ok(()) } else { Err(nothing()) }
    }

    /// Starts a step of one instruction.
    pub fn step(
        &mut self,
        plan: &PlanRequest,
        process: ProcessRef,
        deadline: &mut DeadlineWait<'_>,
    ) -> StartResult {
        self.start_plan(plan, process, deadline, |_| Ok(PlanKind::Step))
    }

    /// Starts a step over one instruction or call.
    pub fn next(
        &mut self,
        plan: &PlanRequest,
        process: ProcessRef,
        deadline: &mut DeadlineWait<'_>,
    ) -> StartResult {
        self.start_plan(plan, process, deadline, |_| {
            let registers = Registers::read(plan.tid)?;
            Ok(PlanKind::Next { pc: registers.pc(), sp: registers.sp() })
        })
    }

    /// Runs the thread until its current procedure has returned: to the return address on its
    /// stack, which must be code.
    pub fn finish(
        &mut self,
        plan: &PlanRequest,
        process: ProcessRef,
        probes: &[ProbeLocation],
        deadline: &mut DeadlineWait<'_>,
    ) -> StartResult {
        self.start_plan(plan, process, deadline, |traced| {
            let (address, sp) = unwind::caller(&traced.process, &Registers::read(plan.tid)?)?;
            let site = BreakpointSite::new(address, probes, ProbeUse::Refused);
            let _known = traced.breakpoints.check_code(&traced.process, &site)?;
            Ok(PlanKind::RunTo { address, sp, report: ReturnReport::Value })
        })
    }

    /// Makes a thread call a procedure.
    pub fn call(
        &mut self,
        plan: &PlanRequest,
        process: ProcessRef,
        (procedure, arguments): (u64, &[Argument]),
        deadline: &mut DeadlineWait<'_>,
    ) -> StartResult {
        self.start_plan(plan, process, deadline, |traced| {
            begin_call(traced, plan.tid, (procedure, arguments))
        })
    }

    fn start_plan(
        &mut self,
        plan: &PlanRequest,
        process: ProcessRef,
        deadline: &mut DeadlineWait<'_>,
        kind: impl FnOnce(&mut TracedProcess) -> Result<PlanKind, ControlError>,
    ) -> StartResult {
        self.inspect(process, plan.tid, deadline, |traced| {
            traced.check_plan_allowed(plan.tid, plan.tool)?;
            let kind = kind(traced)?;
            if matches!(kind, PlanKind::Call { .. }) {
                traced.threads.values_mut().for_each(|it| it.set_back = None);
            }
            let thread = traced.threads.get_mut(&plan.tid).ok_or(ControlError::Gone)?;
            thread.timed_out = false;
            let waiting_holders = thread.holders.keys().copied().collect();
            thread.plan =
                Some(ThreadPlan { tool: plan.tool, tag: plan.tag, kind, waiting_holders });
            Ok(())
        })
    }

    /// Refuses an address at which no instruction of the process begins.
    pub fn check_code(
        &self,
        process: &ProcessRef,
        site: &BreakpointSite<'_>,
    ) -> Result<(), ControlError> {
        let none = Breakpoints::default();
        let traced = self.0.get(&tick_identity(process.id));
        traced.map_or(&none, |it| &it.breakpoints).check_code(process, site).map(drop)
    }

    /// Our breakpoint bytes in a process.
    pub fn patches(&self, id: Identity) -> Vec<Patch> {
        self.0.get(&tick_identity(id)).map(|it| it.breakpoints.patches()).unwrap_or_default()
    }

    /// Tools have changed memory: the original bytes under our breakpoints, and what instructions
    /// may have read.
    pub fn overwrite(&mut self, id: Identity, address: u64, bytes: &[u8]) {
        if let Some(traced) = self.0.get_mut(&tick_identity(id)) {
            traced.threads.values_mut().for_each(|it| it.set_back = None);
            traced.breakpoints.overwrite(address, bytes);
        }
    }

    /// Whether the wait statuses of this thread belong to the tracer.
    pub fn traces(&self, tid: i32) -> bool {
        self.0.values().any(|it| it.threads.contains_key(&tid))
    }

    /// Whether a thread is held because of a rule program.
    pub fn is_held_for_rule(&self, id: Identity, tid: i32) -> bool {
        let thread = self.0.get(&tick_identity(id)).and_then(|traced| traced.threads.get(&tid));
        thread.is_some_and(|it| it.rule_signal.is_some())
    }

    /// Whether a thread of the process executes a plan.
    pub fn has_plan(&self, id: Identity) -> bool {
        let traced = self.0.get(&tick_identity(id));
        traced.is_some_and(|it| it.threads.values().any(|thread| thread.plan.is_some()))
    }

    /// Collects stops and ends what has exceeded its time.
    pub fn poll(&mut self, events: &mut Vec<WorkerEvent>) {
        let now = Instant::now();
        for traced in self.0.values_mut() {
            traced.collect_stops();
            traced.expire(now);
        }
        self.adopt_lost_children();
        self.0.values_mut().for_each(|traced| events.append(&mut traced.events));
        self.remove_untraced();
    }

    /// When something exceeds its time next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(TracedProcess::next_deadline).chain(self.next_look()).min()
    }

    /// Removes everything of a tool.
    pub fn forget_tool(&mut self, tool: ToolId) {
        self.0.values_mut().for_each(|traced| traced.forget_tool(tool));
        self.remove_untraced();
    }

    fn process_entry(&mut self, process: ProcessRef) -> &mut TracedProcess {
        self.0.entry(tick_identity(process.id)).or_insert_with(|| TracedProcess::new(process))
    }

    /// Removes processes without traced threads and pending events.
    fn remove_untraced(&mut self) {
        self.0.retain(|_, traced| {
            let is_traced = !traced.threads.is_empty() || traced.may_have_lost_child();
            is_traced || !traced.events.is_empty()
        });
    }
}

/// Prepares a stopped thread to call a procedure.
fn begin_call(
    traced: &TracedProcess,
    tid: i32,
    (procedure, arguments): (u64, &[Argument]),
) -> Result<PlanKind, ControlError> {
    let before = machine::begin_call(&traced.process, tid, procedure, arguments)?;
    let until = Instant::now() + CALL_AT_MOST;
    Ok(PlanKind::Call { before: Box::new(before), result: None, until })
}

/// Whether a plan was started.
pub type StartResult = Result<(), ControlError>;

//! Breakpoints by probes: the user worker knows the instruction, the kernel stops threads there.
//!
//! ```text
//!  enable --> worker: which instruction? --> the probe is wanted --> the kernel has it: begun
//!                                                     \--> refused: the worker sets a byte
//!  a probe: signal --> the thread stops after its instruction --> worker: stop notice
//!          \- record of the registers before it -----------------> set back, the event is due
//! ```
//!
//! The kernel evaluates conditions where it can. The worker evaluates them again for what it stops,
//! since memory that cannot be read stops a thread, too.
//!
//! In: replies of workers, and hits that the kernel has recorded. Out: probes to set or remove, and
//! events. A probe outlives its worker, and without a tracer stops nothing.

use super::pending::PendingReply;
use super::probe_breakpoints::{ConditionPlace, KernelMeans, ProbeBreakpoint, ProbeHit};
use super::{WorkerDispatch, requests};
use monitor_backend::rule::{Access, HardwareBreakpoint};
use monitor_control::{
    BreakpointMeans, ControlError, ProbeUse, RequestTag, WorkerEvent, WorkerReply, WorkerRequest,
};
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::right::Tool;
use monitor_event::thread::{DataAccess, RunControl, Target, Ticket};
use monitor_model::Identity;
use monitor_omis::Value;

impl WorkerDispatch {
    /// What the kernel has to set before a command has begun that a worker has carried out; none,
    /// if it has begun.
    pub(super) fn kernel_means(&self, ticket: Ticket, reply: &WorkerReply) -> Option<KernelMeans> {
        let command = &self.plans.get(&ticket)?.command;
        match (reply, command) {
            (WorkerReply::BreakpointSet(BreakpointMeans::Probe(probe)), _) => {
                Some(KernelMeans::Probe(probe.clone()))
            }
            (
                WorkerReply::BreakpointSet(BreakpointMeans::Hardware),
                RunControl::Break(address, _),
            ) => {
                let access = Access::Execute;
                let breakpoint = HardwareBreakpoint { address: *address, length: 8, access };
                Some(KernelMeans::Hardware(breakpoint))
            }
            (WorkerReply::Done, RunControl::Watch(data)) => {
                let access = match data.access {
                    DataAccess::Write => Access::Write,
                    DataAccess::ReadWrite => Access::ReadWrite,
                };
                let (address, length) = (data.address, data.length);
                Some(KernelMeans::Hardware(HardwareBreakpoint { address, length, access }))
            }
            _ => None,
        }
    }

    /// A worker leaves a breakpoint to the kernel, which has to set it before it has begun.
    pub(super) fn want_kernel(&mut self, ticket: Ticket, process: Identity, means: KernelMeans) {
        let Some(sent) = self.plans.get(&ticket) else { return };
        let conditions = match &sent.command {
            RunControl::Break(_, conditions) => conditions.clone(),
            _ => Vec::new(),
        };
        let user = sent.tool.uid;
        let wanted = ProbeBreakpoint { ticket, process, user, means, conditions };
        self.probe_breakpoints.wanted.push(wanted);
    }

    /// What a tool gets of a command that has begun.
    pub(super) fn begun_values(&self, ticket: Ticket, reply: &WorkerReply) -> Vec<Value> {
        let WorkerReply::BreakpointSet(means) = reply else { return Vec::new() };
        let command = self.plans.get(&ticket).map(|sent| &sent.command);
        let is_conditional = matches!(command, Some(RunControl::Break(_, all)) if !all.is_empty());
        let place = if is_conditional { ConditionPlace::Worker } else { ConditionPlace::Kernel };
        begun_values(Some(means), place)
    }

    /// The kernel has what stops threads at a breakpoint, or has refused it: then the worker sets
    /// a byte or debug registers. Nothing else watches data.
    pub fn probe_set(&mut self, set: &ProbeBreakpoint, done: Result<ConditionPlace, Refusal>) {
        let why = match done {
            Ok(place) => {
                let values = begun_values(None, place);
                return self.add_started(set.ticket, (set.process, Ok(values)));
            }
            Err(why) => why,
        };
        let Some(sent) = self.plans.get(&set.ticket).cloned() else { return };
        let (target, tag) = (Target::from(set.process), RequestTag(set.ticket));
        self.send(&sent.tool, WorkerRequest::Unset(target, tag), PendingReply::Ignored);
        if matches!(sent.command, RunControl::Watch(_)) {
            return self.add_started(set.ticket, (set.process, Err(why)));
        }
        tracing::info!("a breakpoint is a byte or a debug register: {why}");
        let order = requests::run_control_request(&sent.command, target, (tag, ProbeUse::Refused));
        self.send(&sent.tool, order, PendingReply::RunControl(set.ticket, set.process));
    }

    /// Has a thread set back that the probe of a breakpoint has stopped; whether a probe has.
    pub(super) fn set_back(&mut self, stopped: &WorkerEvent) -> bool {
        let Some(((_, tag), thread)) = stopped.requester.zip(stopped.target.thread) else {
            return false;
        };
        let Some(tool) = self.plans.get(&tag.0).map(|sent| sent.tool) else { return false };
        let Some(hit) = self.probe_breakpoints.take_hit(tag.0, thread.pid) else { return false };
        let set_back = WorkerRequest::SetBack(stopped.target, tag, hit.before.clone());
        self.send(&tool, set_back, PendingReply::SetBack(tool, hit, stopped.target));
        true
    }

    /// A thread was set back: the event is due if a condition holds.
    pub(super) fn handle_set_back(
        &mut self,
        (tool, hit, target): (Tool, ProbeHit, Target),
        reply: Result<WorkerReply, ControlError>,
    ) {
        // Else it runs on, or has ended.
        let Ok(WorkerReply::ConditionHolds(true)) = reply else { return };
        let Some(sent) = self.plans.get(&hit.ticket).cloned() else {
            let release = WorkerRequest::ReleaseEvent(target, RequestTag(hit.ticket));
            return self.send(&tool, release, PendingReply::Ignored);
        };
        let params = vec![EventParam::Process(target.process)];
        let event = self.held_event_of(sent, target, (Some(hit.pc), hit.at, params));
        self.events.push(event);
    }
}

/// What a tool gets of a breakpoint that is set: why it may end its program, if it may, and whether
/// each hit costs a stop although no condition holds.
pub fn begun_values(means: Option<&BreakpointMeans>, conditions: ConditionPlace) -> Vec<Value> {
    let why = match means {
        Some(BreakpointMeans::Byte(_)) => Some(
            "a byte in the code: it ends with the user worker, and with it a thread that traps \
             then",
        ),
        Some(BreakpointMeans::DebugRegister) => Some(
            "a breakpoint that the user worker has set: it can outlast it, and ends a thread that \
             traps then",
        ),
        Some(BreakpointMeans::Probe(_) | BreakpointMeans::Hardware) | None => None,
    };
    let slow = (conditions == ConditionPlace::Worker)
        .then_some("the condition is evaluated by the user worker: each hit stops the thread");
    let all: Vec<&str> = why.into_iter().chain(slow).collect();
    if all.is_empty() { Vec::new() } else { vec![all.join("; ").as_str().into()] }
}

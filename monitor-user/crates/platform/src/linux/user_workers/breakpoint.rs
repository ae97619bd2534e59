//! Breakpoints by probes: the user worker knows the instruction, the kernel stops threads there.
//!
//! ```text
//!  enable --> worker: which instruction? --> the probe is wanted --> the kernel has it: begun
//!                                                     \--> refused: the worker sets a byte
//!  a probe: signal --> the thread stops after its instruction --> worker: stop notice
//!          \- record of the registers before it -----------------> set back, the event is due
//! ```
//!
//! In: replies of workers, and hits that the kernel has recorded. Out: probes to set or remove, and
//! events. A probe outlives its worker, and without a tracer stops nothing.

use super::pending::PendingReply;
use super::probe_breakpoints::ProbeBreakpoint;
use super::{WorkerDispatch, requests};
use crate::PlatformEvent;
use monitor_control::{BreakpointProbe, ProbeUse, RequestTag, WorkerEvent, WorkerRequest};
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::thread::{Target, Ticket};
use monitor_model::Identity;

impl WorkerDispatch {
    /// A worker leaves a breakpoint to a probe, which has to be set before it has begun.
    pub(super) fn want_probe(&mut self, ticket: Ticket, process: Identity, probe: BreakpointProbe) {
        // The request may have been removed meanwhile.
        if let Some(user) = self.plans.get(&ticket).map(|sent| sent.tool.uid) {
            let wanted = ProbeBreakpoint { ticket, process, user, probe };
            self.probe_breakpoints.wanted.push(wanted);
        }
    }

    /// The kernel has the probe of a breakpoint, or has refused it: then the worker sets a byte.
    pub fn probe_set(&mut self, set: &ProbeBreakpoint, done: Result<(), Refusal>) {
        let Err(why) = done else { return self.add_started(set.ticket, (set.process, Ok(vec![]))) };
        let Some(sent) = self.plans.get(&set.ticket).cloned() else { return };
        tracing::info!("a breakpoint is a byte in the code, because no probe is possible: {why}");
        let (target, tag) = (Target::from(set.process), RequestTag(set.ticket));
        self.send(&sent.tool, WorkerRequest::Unset(target, tag), PendingReply::Ignored);
        let order = requests::run_control_request(&sent.command, target, (tag, ProbeUse::Refused));
        self.send(&sent.tool, order, PendingReply::RunControl(set.ticket, set.process));
    }

    /// The event of a thread that the probe of a breakpoint has stopped; none, if no probe has.
    pub(super) fn take_breakpoint_event(&mut self, stopped: &WorkerEvent) -> Option<PlatformEvent> {
        let (_, tag) = stopped.requester?;
        let sent = self.plans.get(&tag.0).cloned()?;
        let hit = self.probe_breakpoints.take_hit(tag.0, stopped.target.thread?.pid)?;
        let set_back = WorkerRequest::SetBack(stopped.target, tag, hit.probed);
        self.send(&sent.tool, set_back, PendingReply::Ignored);
        let params = vec![EventParam::Process(stopped.target.process)];
        Some(self.held_event_of(sent, stopped.target, (Some(hit.pc), hit.at, params)))
    }
}

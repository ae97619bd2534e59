//! Breakpoints by probes, and of the processor: which are to be set or removed, and which threads
//! they have stopped. Data only.

use monitor_backend::rule::HardwareBreakpoint;
use monitor_control::process_ref::is_same;
use monitor_control::{BeforeInstruction, BreakpointProbe};
use monitor_event::thread::{AgentExpression, Ticket};
use monitor_model::{Identity, Ns, Pid};

/// A breakpoint whose probe the kernel is to have.
#[derive(Clone, Debug)]
pub struct ProbeBreakpoint {
    /// The stored request.
    pub ticket: Ticket,
    /// The process.
    pub process: Identity,
    /// The user of the tool.
    pub user: u32,
    /// What the kernel is to set.
    pub means: KernelMeans,
    /// Threads stop if one of these holds, or if there are none.
    pub conditions: Vec<AgentExpression>,
}

/// What stops threads in the kernel.
#[derive(Clone, Debug)]
pub enum KernelMeans {
    /// A probe.
    Probe(BreakpointProbe),
    /// A breakpoint of the processor.
    Hardware(HardwareBreakpoint),
}

/// What excludes hits of a breakpoint whose conditions do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionPlace {
    /// The kernel; or there are no conditions.
    Kernel,
    /// The user worker, for each hit.
    Worker,
}

/// A thread that the probe of a breakpoint has stopped.
#[derive(Clone, Debug)]
pub struct ProbeHit {
    /// The stored request.
    pub ticket: Ticket,
    /// The thread.
    pub tid: Pid,
    /// Address of the instruction.
    pub pc: u64,
    /// When.
    pub at: Ns,
    /// The thread before the instruction.
    pub before: BeforeInstruction,
}

/// The breakpoints by probes.
#[derive(Default)]
pub struct ProbeBreakpoints {
    /// Probes to set.
    pub wanted: Vec<ProbeBreakpoint>,
    unwanted: Vec<(Ticket, Option<Identity>)>,
    hits: Vec<ProbeHit>,
}

impl ProbeBreakpoints {
    /// Takes the breakpoints whose probes are to be set.
    pub fn take_wanted(&mut self) -> Vec<ProbeBreakpoint> {
        std::mem::take(&mut self.wanted)
    }

    /// Takes the requests whose probes are to be removed: from one process, or from all.
    pub fn take_unwanted(&mut self) -> Vec<(Ticket, Option<Identity>)> {
        std::mem::take(&mut self.unwanted)
    }

    /// The probes of a request are not needed any more, in one process or in all.
    pub fn remove(&mut self, ticket: Ticket, process: Option<Identity>) {
        self.wanted
            .retain(|it| it.ticket != ticket || process.is_some_and(|id| !is_same(id, it.process)));
        self.hits.retain(|it| it.ticket != ticket || process.is_some());
        self.unwanted.push((ticket, process));
    }

    /// The kernel has recorded these hits.
    pub fn add_hits(&mut self, hits: Vec<ProbeHit>) {
        for hit in hits {
            // A thread may have a breakpoint of the processor twice: its own and an inherited one.
            let key = |it: &ProbeHit| (it.ticket, it.tid, it.pc);
            if !self.hits.iter().any(|it| key(it) == key(&hit)) {
                self.hits.push(hit);
            }
        }
    }

    /// Takes the hit that has stopped a thread.
    pub fn take_hit(&mut self, ticket: Ticket, tid: Pid) -> Option<ProbeHit> {
        let place = self.hits.iter().position(|it| it.ticket == ticket && it.tid == tid)?;
        Some(self.hits.remove(place))
    }

    /// Drops hits whose threads have not stopped for this long: they were killed.
    pub fn drop_late_hits(&mut self, now: Ns, most: Ns) {
        self.hits.retain(|it| now.since(it.at) < most);
    }
}

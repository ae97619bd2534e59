//! Records that rule programs send to user space, and counts of their runs.

use super::insn::{MAX_REGS, ProgramId};
/// Counts of a program's runs since it was added. All but the first should be zero.
pub use monitor_ebpf::abi::rule::RunCounts;
use monitor_model::credentials::Credentials;
use monitor_model::id::{Identity, Ns, Pid};

/// A record sent by one run of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRecord {
    /// Why it was sent.
    pub reason: RecordReason,
    /// What is stopped before its next instruction.
    pub stopped: StopScope,
    /// The program.
    pub program: ProgramId,
    /// Time, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The process of the event.
    pub process: Identity,
    /// Credentials that may read the process, besides root; none, if it has further capabilities,
    /// and at a tracepoint.
    pub credentials: Option<Credentials>,
    /// The thread.
    pub tid: Pid,
    /// The processor.
    pub cpu: u32,
    /// Address of the probed instruction; 0 at a tracepoint.
    pub ip: u64,
    /// The stack pointer; 0 at a tracepoint.
    pub sp: u64,
    /// All registers.
    pub regs: [u64; MAX_REGS],
    /// Texts in the order of their registers; none for an unreadable one.
    pub texts: Vec<Option<Vec<u8>>>,
    /// Return addresses, innermost first.
    pub stack: Vec<u64>,
}

/// Why a record was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordReason {
    /// The program requested it.
    Requested,
    /// The program exceeded its rate limit and was disabled.
    Storm,
}

/// What a program stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopScope {
    /// Nothing.
    #[default]
    None,
    /// The thread, for its tracer.
    Thread,
    /// The process: it was sent `SIGSTOP`.
    Process,
}

/// Sum of the counts of several CPUs or programs.
pub fn sum_counts(counts: impl IntoIterator<Item = RunCounts>) -> RunCounts {
    counts.into_iter().fold(RunCounts::default(), |sum, it| RunCounts {
        runs: sum.runs + it.runs,
        lost_records: sum.lost_records + it.lost_records,
        lost_times: sum.lost_times + it.lost_times,
        lost_raises: sum.lost_raises + it.lost_raises,
        faults: sum.faults + it.faults,
        contended: sum.contended + it.contended,
        storms: sum.storms + it.storms,
        unsent: sum.unsent + it.unsent,
    })
}

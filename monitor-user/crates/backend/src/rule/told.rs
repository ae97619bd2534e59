//! What lists tell, and what became of their runs.

use super::ListId;
use super::act::MAX_VALUES;
/// What became of a list's runs since it was added. All but the first should be zero.
pub use monitor_ebpf::abi::rule::Tally;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::whose::Eyes;

/// What one run told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Why.
    pub why: Why,
    /// Who waits before its next instruction.
    pub held: Held,
    /// By which list.
    pub list: ListId,
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The process that it happened to.
    pub process: Identity,
    /// Who may look into that, besides root; nobody, if others lent it rights, and at a tracepoint.
    pub eyes: Option<Eyes>,
    /// The thread.
    pub tid: Pid,
    /// The processor.
    pub cpu: u32,
    /// Address of the probed instruction; 0 at a tracepoint.
    pub ip: u64,
    /// The stack pointer; 0 at a tracepoint.
    pub sp: u64,
    /// All values.
    pub values: [u64; MAX_VALUES],
    /// Texts in the order of their values; none for one that could not be read.
    pub texts: Vec<Option<Vec<u8>>>,
    /// Return addresses, innermost first.
    pub stack: Vec<u64>,
}

/// Why something was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The list says so.
    Asked,
    /// The list ran too often, and is switched off.
    Storm,
}

/// Who waits for user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// Nobody.
    #[default]
    Nobody,
    /// The thread, for who traces it.
    Thread,
    /// The process: it was sent `SIGSTOP`.
    Process,
}

/// What became of all these runs together.
pub fn sum(tallies: impl IntoIterator<Item = Tally>) -> Tally {
    tallies.into_iter().fold(Tally::default(), |sum, it| Tally {
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

//! Programs of rules at the sites of taps: they do more at a call than report it. Data only.
//!
//! A tap program is a function, a process set, and what makes instructions of the plan of a call.
//! It is attached at every site of the function, with one switch, also where the function is found
//! later. Its records come as those of taps do, with its number.

use super::plan::CallPlan;
use monitor_backend::rule::ProgramId;
use monitor_backend::rule::insn::{Insn, ProcessSetId, TimerId};
use monitor_event::tap::Tap;
use monitor_model::{Credentials, Pid};
use monitor_symbols::held_file::HeldFile;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Makes the instructions of a program from the plan of the call.
pub type MakeInsns = Arc<dyn Fn(&CallPlan) -> Result<Vec<Insn>, String> + Send + Sync>;

/// The programs of one rule at calls.
#[derive(Clone)]
pub struct TapProgram {
    /// At which end of which function.
    pub tap: Tap,
    /// The processes that they run for.
    pub set: ProcessSetId,
    /// By what they are switched.
    pub switch: ProgramId,
    /// Calls in a second at which they are switched off.
    pub max_rate: u32,
    /// Whose processes they are for alone.
    pub viewer: Option<Credentials>,
    /// Whose they are.
    pub user: u32,
    /// The processes in which the function is looked for.
    pub pids: BTreeSet<Pid>,
    /// Whether they report the call.
    pub reports: bool,
    /// What they do.
    pub make_insns: MakeInsns,
}

/// The processes of a tap, and where it is attached.
#[derive(Default)]
pub(super) struct AttachedTap {
    /// Its own processes; all that are watched, if absent.
    pub(super) processes: Option<TapProcesses>,
    pub(super) sites: HashMap<FileOffset, AttachedSite>,
    /// Why a process does not have the function.
    pub(super) absence: Option<String>,
}

/// The processes of one tap: no other process gets its breakpoints.
pub(super) struct TapProcesses {
    pub(super) set: ProcessSetId,
    pub(super) pids: BTreeSet<Pid>,
}

impl AttachedTap {
    /// Whether it is for a process that is watched.
    pub(super) fn is_for(&self, pid: Pid) -> bool {
        self.processes.as_ref().is_none_or(|own| own.pids.contains(&pid))
    }
}

/// A tap program, and where it is attached.
pub(super) struct AttachedProgram {
    pub(super) program: TapProgram,
    pub(super) tap: Arc<Tap>,
    pub(super) sites: HashMap<FileOffset, AttachedSite>,
    /// Processes that are known not to get its probes.
    pub(super) refused_in: BTreeSet<Pid>,
}

impl AttachedSite {
    /// Where its probes are.
    pub(super) fn locations(&self) -> impl Iterator<Item = FileOffset> {
        self.offsets.iter().map(|offset| (self.file.identity, *offset))
    }

    /// All programs.
    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramId> {
        self.entry.iter().chain(&self.ends).copied()
    }

    /// The programs at the edge that is reported.
    pub(super) fn edge_programs(&self) -> impl Iterator<Item = ProgramId> {
        let at_entry = self.entry.filter(|_| self.ends.is_empty());
        at_entry.into_iter().chain(self.ends.iter().copied())
    }
}

/// A place in a file, which is named by its device and inode.
pub type FileOffset = ((u64, u64), u64);

/// The programs of a tap at one site.
pub(super) struct AttachedSite {
    /// Held open, so that the file stays what it is.
    pub(super) file: HeldFile,
    /// Offsets of its probes in the file.
    pub(super) offsets: Vec<u64>,
    /// The program at the entry, if the end needs one; or that of a call's start.
    pub(super) entry: Option<ProgramId>,
    /// The programs at the ends: at return instructions, at jumps to other functions.
    pub(super) ends: Vec<ProgramId>,
    pub(super) timer: Option<TimerId>,
}

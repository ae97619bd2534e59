//! Lists of others at the places of taps: they do more at a call than tell of it.
//!
//! In: a function, a set, and what makes acts of the plan of a call. Out: a list at every place of
//! the function, all by one switch, also where the function is found later. What they tell comes
//! as the calls of taps do, with the number of the rider.

use super::plan::CallPlan;
use monitor_backend::rule::ProgramId;
use monitor_backend::rule::insn::{Insn, ProcessSetId, TimerId};
use monitor_event::tap::Tap;
use monitor_model::credentials::Credentials;
use monitor_model::id::Pid;
use monitor_symbols::site::ProbeSite;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Makes the acts of a list, of what is known of the call.
pub type MakeInsns = Arc<dyn Fn(&CallPlan) -> Result<Vec<Insn>, String> + Send + Sync>;

/// Somebody's lists.
#[derive(Clone)]
pub struct TapProgram {
    /// At which end of which function.
    pub tap: Tap,
    /// For whom.
    pub set: ProcessSetId,
    /// By what they are switched.
    pub switch: ProgramId,
    /// Calls in a second at which they are switched off.
    pub max_rate: u32,
    /// Whose processes they are for alone.
    pub viewer: Option<Credentials>,
    /// In whom the function is looked for.
    pub pids: BTreeSet<Pid>,
    /// Whether they tell of the call.
    pub reports: bool,
    /// What they do.
    pub make_insns: MakeInsns,
}

/// A rider, and where it is.
pub(super) struct AttachedProgram {
    pub(super) program: TapProgram,
    pub(super) tap: Arc<Tap>,
    pub(super) sites: HashMap<FileOffset, AttachedSite>,
}

/// A place in a file, which is named by its device and inode.
pub type FileOffset = ((u64, u64), u64);

/// The lists of a tap at one place.
pub(super) struct AttachedSite {
    /// Held open, so that the file stays what it is.
    pub(super) _site: ProbeSite,
    pub(super) lists: Vec<ProgramId>,
    pub(super) timer: Option<TimerId>,
}

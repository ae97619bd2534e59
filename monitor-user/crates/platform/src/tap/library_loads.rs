//! What is known of the libraries that processes load. Data only; `image_hold` has what is done.

use monitor_backend as backend;
use monitor_backend::rule::insn::StopSets;
use monitor_backend::rule::{Children, RuleResource, Rules};
use monitor_event::tap::Tap;
use monitor_model::{Identity, Ns, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// A thread that the kernel has stopped at the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadStop {
    /// Its process.
    pub process: Identity,
    /// The thread.
    pub tid: Pid,
    /// When it was stopped.
    pub at: Ns,
}

/// What is known of the libraries that processes load.
#[derive(Default)]
pub(super) struct LibraryLoads {
    /// The processes that are traced, and none.
    pub(super) sets: Option<StopSets>,
    pub(super) traced: BTreeSet<Pid>,
    /// Processes that may have loaded something since they were scanned.
    pub(super) loading: BTreeMap<Pid, Loading>,
    /// Functions that a process did not have when it was scanned last.
    pub(super) missing: BTreeMap<(Tap, Pid), Ns>,
    /// Processes with a probe at the hook, and those that are new among them.
    pub(super) hooked: BTreeSet<Pid>,
    pub(super) newly_hooked: BTreeSet<Pid>,
    pub(super) stops: Vec<LoadStop>,
    pub(super) scanned: BTreeSet<Pid>,
}

/// A process that may have loaded something.
pub(super) struct Loading {
    pub(super) process: Identity,
    /// Since when a thread runs that was not held at the hook.
    pub(super) missed_since: Option<Ns>,
    /// Whether a function was found that it did not have.
    pub(super) has_new: bool,
}

impl LibraryLoads {
    /// The sets of the program at the hook.
    pub(super) fn sets(&mut self, rules: &mut dyn Rules) -> Result<StopSets, backend::Error> {
        if let Some(sets) = self.sets {
            return Ok(sets);
        }
        let traced = rules.make_set(Children::NotIncluded)?;
        // A process that is not traced is not stopped: its parent would notice.
        let none = rules.make_set(Children::NotIncluded);
        let stoppable = none.inspect_err(|_| rules.free(RuleResource::Set(traced)))?;
        Ok(*self.sets.insert(StopSets { traced, stoppable }))
    }
}

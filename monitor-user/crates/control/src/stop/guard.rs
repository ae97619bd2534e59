//! Processes that rule programs may stop, resumed when the daemon dies before it knows of a stop.
//!
//! In: the processes, and the watches on them. Out: stopped ones are resumed, as long as the
//! programs may still run. A rule program sends its signal before user space knows about it, so a
//! process whose watch ended a moment ago may have been stopped before the monitor has read that.

use crate::process_ref::{ProcessRef, tick_identity};
use crate::{RequestTag, ToolId};
use monitor_model::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long after its removal the effects of a rule program can still be unread.
pub const UNREAD_GRACE: Duration = Duration::from_secs(2);

/// All processes that rule programs may stop.
#[derive(Default)]
pub struct Guards {
    guarded: BTreeMap<Identity, Guard>,
    /// Processes without a watch any longer, and since when.
    recently_left: Vec<(Instant, ProcessRef)>,
}

struct Guard {
    process: ProcessRef,
    owners: BTreeSet<(ToolId, RequestTag)>,
}

impl Guards {
    /// From now on a rule program may stop the process.
    pub fn add(&mut self, process: ProcessRef, owner: (ToolId, RequestTag)) {
        let id = tick_identity(process.id);
        let fresh = || Guard { process, owners: BTreeSet::new() };
        let _again = self.guarded.entry(id).or_insert_with(fresh).owners.insert(owner);
    }

    /// A watch has ended; whether there was one.
    pub fn remove(&mut self, owner: (ToolId, RequestTag), id: Identity) -> bool {
        let guard = self.guarded.get_mut(&tick_identity(id));
        let found = guard.is_some_and(|guard| guard.owners.remove(&owner));
        self.drop_unowned();
        found
    }

    /// Removes all watches of a tool.
    pub fn forget_tool(&mut self, tool: ToolId) {
        self.guarded.values_mut().for_each(|guard| guard.owners.retain(|owner| owner.0 != tool));
        self.drop_unowned();
    }

    fn drop_unowned(&mut self) {
        let now = Instant::now();
        self.recently_left.retain(|(since, _)| now.duration_since(*since) < UNREAD_GRACE);
        let gone = self.guarded.extract_if(.., |_, guard| guard.owners.is_empty());
        self.recently_left.extend(gone.map(|(_, guard)| (now, guard.process)));
    }

    /// Whether a rule program may stop the process.
    pub fn contains(&self, id: Identity) -> bool {
        self.guarded.contains_key(&tick_identity(id))
    }

    /// Whether no process is watched, nor was within the grace time.
    pub fn is_empty(&self) -> bool {
        self.guarded.is_empty()
            && self.recently_left.iter().all(|(since, _)| since.elapsed() >= UNREAD_GRACE)
    }

    /// Resumes those that are stopped.
    pub fn resume_stopped(&self) {
        let recently_left =
            self.recently_left.iter().filter(|(since, _)| since.elapsed() < UNREAD_GRACE);
        let guarded = self.guarded.values().map(|guard| &guard.process);
        guarded.chain(recently_left.map(|(_, process)| process)).for_each(ProcessRef::resume);
    }
}

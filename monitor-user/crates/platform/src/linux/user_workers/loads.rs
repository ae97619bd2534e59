//! Threads that load libraries are held: the user workers' part of `load_holds`.
//!
//! In: the processes that lack a function of a rule, by tool; replies and reports. Out: the
//! processes that are traced, and releases.

use super::WorkerDispatch;
use super::pending::PendingReply;
use crate::load_holds::LOAD_TAG;
use crate::tap::library_loads::LoadStop;
use monitor_control::{WorkerEvent, WorkerEventKind, WorkerRequest};
use monitor_event::right::Tool;
use monitor_model::{Identity, Ns, Pid};
use std::collections::{BTreeMap, BTreeSet};

impl WorkerDispatch {
    /// The workers of these tools trace these processes from now on, so that their threads can be
    /// held while they load something; except those that their tool may not control.
    pub fn set_load_targets(
        &mut self,
        wanted: &BTreeMap<Identity, Tool>,
        denied: &BTreeSet<Identity>,
    ) {
        let requests = self.load_holds.set_targets(wanted, denied);
        self.request_watches(requests);
    }

    fn request_watches(&mut self, requests: Vec<(Tool, WorkerRequest)>) {
        for (tool, request) in requests {
            let reply = match &request {
                WorkerRequest::WatchRules(target, _) => PendingReply::LoadWatch(target.process),
                _ => PendingReply::Ignored,
            };
            if let (PendingReply::LoadWatch(id), Err(why)) = (&reply, self.ensure_worker(&tool)) {
                tracing::debug!(pid = id.pid.0, "its libraries are not held: {}", why.text);
                self.load_holds.watch_replied(*id, false);
            } else {
                self.send(&tool, request, reply);
            }
        }
    }

    /// Whether a process is held, or that was refused.
    pub fn is_load_target(&self, id: Identity) -> bool {
        self.load_holds.has_target(id)
    }

    /// The processes that are traced, if they have changed.
    pub fn take_load_traced(&mut self) -> Option<BTreeSet<Pid>> {
        self.load_holds.take_traced()
    }

    /// The kernel has stopped these.
    pub fn add_load_stops(&mut self, stops: Vec<LoadStop>) {
        self.load_holds.add_stops(stops);
    }

    /// Releases the threads of processes that were scanned. Call it after `match_stops`.
    pub fn release_loads(&mut self, scanned: &BTreeSet<Pid>, now: Ns) {
        self.load_holds.scanned(scanned);
        for (tool, release) in self.load_holds.take_releases(now) {
            // All workers get it: those without this thread ignore it.
            self.send_to_all(tool, &release);
        }
    }

    /// Notes a thread that stopped for a watch of loads; whether it is one.
    pub(super) fn note_load_stop(&mut self, stopped: &WorkerEvent) -> bool {
        match stopped.requester {
            Some((tool, LOAD_TAG)) => {
                self.load_holds.add_stopped(tool, stopped.target);
                true
            }
            _ => false,
        }
    }

    /// Handles the end of a hold before its process was scanned; whether it is one.
    pub(super) fn handle_load_failure(&mut self, it: &WorkerEvent) -> bool {
        if !matches!(it.requester, Some((_, LOAD_TAG))) {
            return false;
        }
        if let WorkerEventKind::HoldExpired(_) = it.kind
            && self.load_holds.expired(it.target)
        {
            self.expired_loads.push(it.target.process.pid);
        }
        true
    }

    /// Processes whose threads run although they were not scanned.
    pub fn take_expired_loads(&mut self) -> Vec<Pid> {
        std::mem::take(&mut self.expired_loads)
    }

    pub(super) fn restart_load_watch(&mut self, id: Identity) {
        self.expired_loads.push(id.pid);
        let requests = self.load_holds.worker_lost(id);
        self.request_watches(requests);
    }
}

//! Threads held at the hook of the dynamic linker: between the kernel, which stops them, and the
//! user workers, which trace their processes and release them.
//!
//! ```text
//!  processes that lack a function -> watched by a worker -> traced: the kernel stops its threads
//!  record of a stop + report of the worker + process scanned -> released
//! ```
//!
//! In: what is wanted, records, replies and reports. Out: requests to user workers. A process whose
//! worker ends runs on; one that cannot be traced is never stopped.

use crate::tap::library_loads::LoadStop;
use monitor_control::process_ref::tick_identity;
use monitor_control::{RequestTag, ToolId, WorkerRequest};
use monitor_event::thread::Target;
use monitor_model::{Identity, Ns, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// The tag of its requests; the numbers of rules and commands do not come so far.
pub const LOAD_TAG: RequestTag = RequestTag(u64::MAX);
/// The time from the signal to the stop of a thread: usually a few microseconds.
const MAX_STOP_WAIT: Ns = Ns(2_000_000_000);

/// Whether a worker traces a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Requested,
    Traced,
    /// It cannot, or may not.
    Refused,
}

/// All processes that are to be held, with the `T` that asks for it.
pub struct LoadHolds<T> {
    targets: BTreeMap<Identity, (T, Watch)>,
    /// Stops that the kernel has recorded.
    stops: Vec<(LoadStop, bool)>,
    /// Threads that workers have reported as stopped.
    stopped: Vec<(ToolId, Target)>,
    is_changed: bool,
}

impl<T> Default for LoadHolds<T> {
    fn default() -> Self {
        let (targets, stops, stopped) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { targets, stops, stopped, is_changed: false }
    }
}

impl<T: Copy + PartialEq> LoadHolds<T> {
    /// Holds exactly these processes, except those that the tool may not control; returns the
    /// requests for those that are new or gone.
    pub fn set_targets(
        &mut self,
        wanted: &BTreeMap<Identity, T>,
        denied: &BTreeSet<Identity>,
    ) -> Vec<(T, WorkerRequest)> {
        let mut requests = Vec::new();
        let is_gone = |id: &Identity, it: &mut (T, Watch)| wanted.get(id) != Some(&it.0);
        for (id, (owner, watch)) in self.targets.extract_if(.., is_gone) {
            self.is_changed = true;
            if watch != Watch::Refused {
                requests.push((owner, WorkerRequest::Unset(id.into(), LOAD_TAG)));
            }
        }
        for (id, owner) in wanted {
            if self.targets.contains_key(id) {
                continue;
            }
            let is_denied = denied.contains(id);
            let watch = if is_denied { Watch::Refused } else { Watch::Requested };
            let _none = self.targets.insert(*id, (*owner, watch));
            if !is_denied {
                requests.push((*owner, WorkerRequest::WatchRules((*id).into(), LOAD_TAG)));
            }
        }
        requests
    }

    /// Whether a process is held, or that was refused.
    pub fn has_target(&self, id: Identity) -> bool {
        self.targets.contains_key(&id)
    }

    /// Forgets what belongs to these owners: their tool is gone.
    pub fn forget(&mut self, is_gone: impl Fn(&T) -> bool) {
        let before = self.targets.len();
        self.targets.retain(|_, (owner, _)| !is_gone(owner));
        self.is_changed |= self.targets.len() != before;
    }

    /// A worker has replied whether it traces a process.
    pub fn watch_replied(&mut self, id: Identity, is_traced: bool) {
        if let Some((_, watch)) = self.targets.get_mut(&id) {
            *watch = if is_traced { Watch::Traced } else { Watch::Refused };
            self.is_changed = true;
        }
    }

    /// The worker that traced a process has ended: the threads run, and the next one is asked.
    pub fn worker_lost(&mut self, id: Identity) -> Vec<(T, WorkerRequest)> {
        let is_its = |other: Identity| tick_identity(other) == tick_identity(id);
        self.stopped.retain(|(_, it)| !is_its(it.process));
        self.stops.retain(|(it, _)| !is_its(it.process));
        self.is_changed = true;
        let its = self.targets.iter_mut().filter(|(own, _)| is_its(**own));
        let asked = its.filter(|(_, (_, watch))| *watch != Watch::Refused).map(|(own, it)| {
            it.1 = Watch::Requested;
            (it.0, WorkerRequest::WatchRules((*own).into(), LOAD_TAG))
        });
        asked.collect()
    }

    /// The processes that are traced, if they have changed.
    pub fn take_traced(&mut self) -> Option<BTreeSet<Pid>> {
        let is_traced = |(id, (_, watch)): (&Identity, &(T, Watch))| {
            (*watch == Watch::Traced).then_some(id.pid)
        };
        let traced = || self.targets.iter().filter_map(is_traced).collect();
        std::mem::take(&mut self.is_changed).then(traced)
    }

    /// The kernel has stopped these.
    pub fn add_stops(&mut self, stops: Vec<LoadStop>) {
        self.stops.extend(stops.into_iter().map(|it| (it, false)));
    }

    /// A worker reports a thread that stopped for one of its watches.
    pub fn add_stopped(&mut self, tool: ToolId, target: Target) {
        self.stopped.push((tool, target));
    }

    /// The hold of a thread has expired; whether it was one of these.
    pub fn expired(&mut self, target: Target) -> bool {
        self.stopped.retain(|(_, it)| *it != target);
        let tid = tid(&target);
        let before = self.stops.len();
        self.stops.retain(|(it, _)| it.tid != tid);
        self.stops.len() != before
    }

    /// These processes have probes in all that they have mapped.
    pub fn scanned(&mut self, pids: &BTreeSet<Pid>) {
        for (stop, is_done) in &mut self.stops {
            *is_done |= pids.contains(&stop.process.pid);
        }
    }

    /// The requests that release threads. Call it after all records of the kernel were read: a
    /// thread without one was stopped by another sender, and gets its signal.
    pub fn take_releases(&mut self, now: Ns) -> Vec<(ToolId, WorkerRequest)> {
        let mut requests = Vec::new();
        for (tool, target) in std::mem::take(&mut self.stopped) {
            let request = match self.stops.iter().position(|(it, _)| it.tid == tid(&target)) {
                Some(place) if self.stops[place].1 => {
                    let _released = self.stops.remove(place);
                    WorkerRequest::ReleaseEvent(target, LOAD_TAG)
                }
                Some(_) => {
                    self.stopped.push((tool, target));
                    continue;
                }
                None => WorkerRequest::ReleaseWithSignal(target, LOAD_TAG),
            };
            requests.push((tool, request));
        }
        self.stops.retain(|(it, _)| now.since(it.at) < MAX_STOP_WAIT);
        requests
    }
}

fn tid(target: &Target) -> Pid {
    target.thread.unwrap_or(target.process).pid
}

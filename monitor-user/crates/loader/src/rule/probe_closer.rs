//! Removes probes in a thread of their own.
//!
//! In: probes that are to run no longer: their program is disabled, or the process has left its
//! set. Out: whether a program still has some. For each probe the kernel waits for grace periods,
//! one after the other, 120 to 230 ms (`perf_trace_event_unreg` in
//! kernel/trace/trace_event_perf.c); requests do not wait for that.

use super::probed_thread::ProbedThread;
use crate::uprobe_link::UprobeLink;
use monitor_backend::rule::ProgramId;
use monitor_model::Pid;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The probes that wait, and the thread while there are any.
#[derive(Clone, Default)]
pub struct ProbeCloser(Arc<(Mutex<Queue>, Condvar)>);

#[derive(Default)]
struct Queue {
    probes: VecDeque<(Owner, UprobeLink)>,
    /// That of the probe that is being removed; present while the closer runs.
    current: Option<Owner>,
}

/// The program and the thread of a probe.
#[derive(Clone)]
struct Owner(ProgramId, Arc<ProbedThread>);

impl ProbeCloser {
    /// Removes probes.
    pub fn close(&self, id: ProgramId, thread: &Arc<ProbedThread>, links: Vec<UprobeLink>) {
        if links.is_empty() {
            return;
        }
        let mut queue = self.queue();
        let owner = || Owner(id, Arc::clone(thread));
        queue.probes.extend(links.into_iter().map(|link| (owner(), link)));
        if queue.current.is_some() {
            return;
        }
        let closer = self.clone();
        let thread = thread::Builder::new().name("probe-closer".to_owned());
        queue.current = queue.probes.front().map(|(owner, _)| owner.clone());
        drop(queue);
        // Without a thread, they are removed here.
        if thread.spawn(move || closer.close_all()).is_err() {
            self.close_all();
        }
    }

    fn close_all(&self) {
        let mut queue = self.queue();
        while let Some((owner, link)) = queue.probes.pop_front() {
            queue.current = Some(owner);
            drop(queue);
            drop(link);
            self.0.1.notify_all();
            queue = self.queue();
        }
        queue.current = None;
        self.0.1.notify_all();
    }

    /// Takes back the probes of a thread that gets them again: both would run the program. They
    /// are not all, if one is already removed. Those of a thread that has ended run nothing.
    pub fn take_back(&self, id: ProgramId, tid: Pid) -> Vec<UprobeLink> {
        let is_own =
            |Owner(other, thread): &Owner| *other == id && thread.tid == tid && thread.is_alive();
        let mut queue = self.queue();
        let probes = std::mem::take(&mut queue.probes);
        let (own, others): (Vec<_>, _) = probes.into_iter().partition(|it| is_own(&it.0));
        queue.probes = VecDeque::from(others);
        while queue.current.as_ref().is_some_and(is_own) {
            queue = self.0.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        own.into_iter().map(|(_, link)| link).collect()
    }

    /// Number of probes that wait.
    pub fn n_waiting(&self) -> usize {
        self.queue().probes.len()
    }

    /// Whether there are any.
    pub fn is_busy(&self) -> bool {
        self.queue().current.is_some()
    }

    /// Whether probes of a program are set: they would run another program with its id.
    pub fn has_probes(&self, id: ProgramId) -> bool {
        let queue = self.queue();
        let mut owners = queue.probes.iter().map(|(owner, _)| owner).chain(&queue.current);
        owners.any(|Owner(other, _)| *other == id)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Finds threads that are traced and that no event has named.
//!
//! The kernel traces what a traced thread creates, and reports it by a stop of that thread. A
//! thread that is killed before the stop was read has no such stop any more (ptrace(2), "Death
//! under ptrace"): what it created would stay stopped, or a zombie, as long as its tracer runs.
//! So ends of unknown threads are looked for, and after the end of any thread also stops.

use super::Tracer;
use super::process::TracedProcess;
use super::tracee::{NewThread, Tracee};
use monitor_model::Identity;
use monitor_sys::ptrace::{self, PeekFor};
use procfs::process::{Process, Status};
use rustix::thread::gettid;
use std::time::{Duration, Instant};

/// How long after the end of a thread a child of it can come to its first stop.
const CHILD_GRACE: Duration = Duration::from_secs(1);
/// How long a thread that exists takes to report what it has created.
const EVENT_GRACE: Duration = Duration::from_millis(200);
/// How often to look meanwhile, because another wait status can be in front.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Most unknown threads of one look; the others are found by the next.
const MAX_LOOKS: usize = 64;

impl TracedProcess {
    /// Whether a child of an ended thread may not be known yet.
    pub fn may_have_lost_child(&self) -> bool {
        self.ended_at.is_some_and(|at| at.elapsed() < CHILD_GRACE)
    }
}

impl Tracer {
    /// When `adopt_lost_children` has to look again.
    pub fn next_look(&self) -> Option<Instant> {
        let may_be_lost = self.0.values().any(TracedProcess::may_have_lost_child);
        may_be_lost.then(|| Instant::now() + LOOK_INTERVAL)
    }

    /// Takes over unknown threads. To be called when the wait statuses of known ones were handled.
    pub fn adopt_lost_children(&mut self) {
        if self.0.is_empty() {
            return;
        }
        // The end of an unknown thread keeps that of its process back, so it is always looked for.
        let stops = self.next_look().map(|_| PeekFor::Stop);
        for what in [PeekFor::End].into_iter().chain(stops) {
            for _ in 0..MAX_LOOKS {
                // Without any child there is nothing to find.
                let Ok(Some(tid)) = ptrace::peek(what) else { break };
                if self.traces(tid) || !self.adopt(tid, what) {
                    break;
                }
            }
        }
    }

    /// Adds an unknown thread to its process, and handles its wait status; `false` if it remains.
    fn adopt(&mut self, tid: i32, what: PeekFor) -> bool {
        let Ok(status) = Process::new(tid).and_then(|it| it.status()) else { return false };
        if status.tracerpid != gettid().as_raw_nonzero().get() {
            // A child that is not traced. The code that started it waits for its end.
            return what == PeekFor::Stop && ptrace::take_stop(tid).is_ok();
        }
        let Some((relation, id)) = self.creator(&status) else { return false };
        let Some(traced) = self.0.get_mut(&id) else { return false };
        let _new = traced.threads.insert(tid, Tracee::new(tid, relation));
        traced.collect_stops();
        true
    }

    /// The process of a thread, or the one that has created this one, if the stop for that is lost.
    fn creator(&self, status: &Status) -> Option<(NewThread, Identity)> {
        let named = |pid: i32| self.0.iter().find(|(_, it)| it.process.pid() == pid);
        if let Some((id, _)) = named(status.tgid) {
            return Some((NewThread::Thread, *id));
        }
        let has_waited = |at: Instant| at.elapsed() > EVENT_GRACE;
        let creator = match named(status.ppid).filter(|(_, it)| !it.threads.is_empty()) {
            // It exists: the creating thread reports its child, or has ended by an exec beside it.
            Some((id, traced)) => traced.ended_at.is_some_and(has_waited).then_some(id),
            None => {
                let is_past = |it: &TracedProcess| it.threads.is_empty();
                self.0.iter().find(|(_, it)| is_past(it)).map(|(id, _)| id)
            }
        };
        creator.map(|id| (NewThread::ForkCopy, *id))
    }
}

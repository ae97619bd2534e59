//! The end of user workers with the service: everything is undone first, by them or by others that
//! replace them, within a limit of time.

use super::WorkerProxy;
use crate::ToolId;
use crate::user_worker::{process::exits_within, role::WorkerRole};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::process::Child;
use std::time::{Duration, Instant};

/// Time to undo everything and exit, once the socket is closed; for all user workers together.
const EXIT_TIME: Duration = Duration::from_millis(400);
/// The same for those that replace user workers which did not exit. After that they are not waited
/// for, and undo the rest without this process: to start one takes longer on a busy machine.
const SECOND_EXIT_TIME: Duration = Duration::from_millis(300);

impl WorkerProxy {
    /// Closes the socket: the user worker undoes everything and exits.
    fn begin_exit(&mut self) {
        if self.role == WorkerRole::Reader {
            // It holds nothing, and may be waiting for a file.
            let _dead = self.process.kill();
            return;
        }
        // The rule programs are removed by now; the user worker need not wait for them, and if it
        // was killed, what they have stopped is resumed like the rest.
        let unset_requests = self.undo_log.unset_requests();
        let resume_requests = self.undo_log.resume_watched();
        self.undo_log.end_rules();
        for (tool, unset) in unset_requests {
            let _number = self.enqueue(tool, unset);
        }
        // Of those that a former user worker watched, this one does not know.
        for resume in resume_requests {
            let _number = self.enqueue(ToolId(0), resume);
        }
        let _unsent = self.flush();
        // Its own direction stays open: a reply that fails would end it before the last request.
        let _closed = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Whether it has undone everything, once it has ended: one that was killed has undone nothing.
    fn has_undone(&mut self) -> bool {
        self.role == WorkerRole::Reader
            || self.undo_log.is_empty()
            || matches!(self.process.wait(), Ok(status) if status.success())
    }
}

/// Ends user workers, all together within a common deadline, and undoes what they did.
pub(in crate::user_worker) fn end_all(workers: &mut [&mut WorkerProxy]) {
    workers.iter_mut().filter(|it| !it.is_lost).for_each(|it| it.begin_exit());
    let until = Instant::now() + EXIT_TIME;
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    let mut replaced = Vec::new();
    for worker in workers.iter_mut().filter(|it| !it.is_lost) {
        if !exits_within(&mut worker.process, left(until)) {
            // Its user may have stopped it; the daemon waits for no user without a limit.
            tracing::warn!("the user worker {} does not exit: killed", worker.process.id());
            replaced.push(worker);
        } else if !worker.has_undone() {
            tracing::warn!("the user worker {} was killed", worker.process.id());
            replaced.push(worker);
        }
    }
    for worker in &mut replaced {
        // Another one undoes what it did.
        worker.restart();
        worker.begin_exit();
    }
    let until = Instant::now() + SECOND_EXIT_TIME;
    for worker in replaced.iter_mut().filter(|it| !it.is_lost) {
        if !exits_within(&mut worker.process, left(until)) {
            let id = worker.process.id();
            tracing::warn!("the user worker {id} does not exit yet: it undoes the rest by itself");
            reap_later(&worker.process);
        }
    }
    workers.iter_mut().for_each(|it| it.is_lost = true);
}

/// Reaps a user worker when it exits, if this process lives that long.
fn reap_later(process: &Child) {
    let pid = Pid::from_child(process);
    let reap = move || waitpid(Some(pid), WaitOptions::empty());
    _ = std::thread::Builder::new().name("reaper".into()).spawn(reap);
}

impl Drop for WorkerProxy {
    fn drop(&mut self) {
        end_all(&mut [self]);
    }
}

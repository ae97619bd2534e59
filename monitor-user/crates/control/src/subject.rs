//! A process or thread that an act is done to: named by number and start, held by a descriptor.
//!
//! In: an identity, which is a claim. Out: a descriptor of that very process, and what `/proc`
//! says of it and of its threads while it is there.

use super::trouble::Trouble;
use monitor_event::thread::Target;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_sys::clock;
use monitor_sys::pidfd::Held;
use procfs::process::{Process, Stat, Status};
use procfs::{ProcError, ProcResult};
use rustix::process::Signal;

const STOP: u32 = Signal::STOP.as_raw().cast_unsigned();
const CONTINUE: u32 = Signal::CONT.as_raw().cast_unsigned();

/// A process, held.
#[derive(Debug)]
pub struct Subject {
    /// Which.
    pub id: Identity,
    /// The descriptor.
    pub held: Held,
}

impl Subject {
    /// Holds the process that is meant, or nobody.
    pub fn open(id: Identity) -> Result<Self, Trouble> {
        let held = Held::open(id.pid).map_err(|error| Trouble::of("pidfd_open", &error))?;
        let subject = Self { id, held };
        // Who has the number after it was opened has had it ever since he began.
        let started = subject.stat()?.starttime;
        if same_start(id.start, started) { Ok(subject) } else { Err(Trouble::Gone) }
    }

    /// Holds whoever has this number now.
    pub fn now(pid: Pid) -> Result<Self, Trouble> {
        let held = Held::open(pid).map_err(|error| Trouble::of("pidfd_open", &error))?;
        let mut subject = Self { id: Identity { pid, start: Ns(0) }, held };
        subject.id.start = start(subject.stat()?.starttime);
        Ok(subject)
    }

    /// Its number, as `/proc` and ptrace want it.
    pub fn pid(&self) -> i32 {
        raw(self.id.pid)
    }

    /// What `/proc` has of it. The descriptor says afterwards whether it still was this one.
    pub fn proc(&self) -> Result<Process, Trouble> {
        Process::new(self.pid()).map_err(|error| told("open /proc", error))
    }

    /// Its state and start.
    pub fn stat(&self) -> Result<Stat, Trouble> {
        self.proc()?.stat().map_err(|error| told("read /proc/<pid>/stat", error))
    }

    /// Lets it run again, if a signal has stopped it.
    pub fn go_on(&self) -> Result<(), Trouble> {
        let sent = self.held.signal(CONTINUE);
        sent.map_err(|error| Trouble::of("continuing the process", &error))
    }

    /// The same, if it stands, or is about to: a stop may wait for a thread to come out of the
    /// kernel, or for another tracer of it to hand it on.
    pub fn let_run(&self) {
        let Ok(tasks) = self.proc().and_then(|it| tell("reading its threads", it.tasks())) else {
            return; // It has ended.
        };
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let is_stopped = |status: &Status| match status.state.chars().next() {
            Some('T') => true,
            Some('t') => status.tracerpid != own,
            _ => (status.sigpnd | status.shdpnd) >> (STOP - 1) & 1 == 1,
        };
        if tasks.flatten().filter_map(|task| task.status().ok()).any(|it| is_stopped(&it)) {
            let _gone = self.go_on();
        }
    }

    /// The threads that it has now, with their states; nobody if it has ended.
    pub fn threads(&self) -> Vec<(i32, Stat)> {
        let Ok(tasks) = self.proc().and_then(|it| it.tasks().map_err(|error| told("tasks", error)))
        else {
            return Vec::new(); // It has ended.
        };
        tasks.flatten().filter_map(|task| Some((task.tid, task.stat().ok()?))).collect()
    }

    /// The thread that an act is for: the one that is named, or the first.
    pub fn thread(&self, target: &Target) -> Result<i32, Trouble> {
        let Some(thread) = target.thread else { return Ok(self.pid()) };
        let tid = raw(thread.pid);
        let task =
            self.proc()?.task_from_tid(tid).map_err(|error| told("open the thread", error))?;
        let started = task.stat().map_err(|error| told("read the thread", error))?.starttime;
        if same_start(thread.start, started) { Ok(tid) } else { Err(Trouble::Gone) }
    }

    /// Why a thread cannot be traced.
    pub fn untraceable(&self, tid: i32, error: &std::io::Error) -> Trouble {
        if error.kind() != std::io::ErrorKind::PermissionDenied {
            return Trouble::of("PTRACE_SEIZE", error);
        }
        let status = self.proc().ok().and_then(|it| it.task_from_tid(tid).ok()?.status().ok());
        match status {
            None => Trouble::Gone,
            Some(status) if status.state.starts_with(['Z', 'X']) => Trouble::Gone,
            Some(status) if status.tracerpid > 0 => {
                Trouble::Busy { tracer: u32::try_from(status.tracerpid).unwrap_or(0) }
            }
            Some(_) => {
                Trouble::denied("tracing the process", "its user's rights, or CAP_SYS_PTRACE")
            }
        }
    }
}

/// The identity of a thread of the process, if it is still there.
pub fn thread_identity(process: i32, tid: i32) -> Option<Identity> {
    let stat = Process::new(process).ok()?.task_from_tid(tid).ok()?.stat().ok()?;
    Some(Identity { pid: Pid(u32::try_from(tid).ok()?), start: start(stat.starttime) })
}

/// Lets a process run, as [`Subject::let_run`] does; who has ended need not.
pub fn let_run(id: Identity) {
    if let Ok(subject) = Subject::open(id) {
        subject.let_run();
    }
}

/// The same as a target; only the process, if the thread has ended.
pub fn thread_target(process: Identity, tid: Pid) -> Target {
    Target { process, thread: thread_identity(raw(process.pid), raw(tid)) }
}

/// The identity as `/proc` has it: whoever names a process may know its start more precisely, and
/// what is kept for it must be found by either.
pub fn key(id: Identity) -> Identity {
    let tick = clock::tick_ns();
    Identity { start: Ns(id.start.0 / tick * tick), ..id }
}

/// A number for the calls that want it signed; no process has one beyond.
pub fn raw(pid: Pid) -> i32 {
    i32::try_from(pid.0).unwrap_or(i32::MAX)
}

fn start(ticks: u64) -> Ns {
    Ns(ticks.saturating_mul(clock::tick_ns()))
}

/// `/proc` counts in ticks, whoever named it may have been more precise.
fn same_start(named: Ns, ticks: u64) -> bool {
    named.0 / clock::tick_ns() == ticks
}

/// What an error of `/proc` means.
pub fn told(what: &str, error: ProcError) -> Trouble {
    match error {
        ProcError::NotFound(_) => Trouble::Gone,
        ProcError::PermissionDenied(_) => Trouble::denied(what, "its user's rights"),
        ProcError::Io(error, _) => Trouble::of(what, &error),
        other => Trouble::Failed { call: what.to_owned(), why: other.to_string() },
    }
}

/// The same for a whole answer.
pub fn tell<T>(what: &str, answer: ProcResult<T>) -> Result<T, Trouble> {
    answer.map_err(|error| told(what, error))
}

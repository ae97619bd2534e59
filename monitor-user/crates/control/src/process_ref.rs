//! A reference to a live process: pid, start time and pidfd.
//!
//! In: an identity, which is a claim. Out: a pidfd of exactly that process, and what `/proc` says
//! about it and its threads. A process that has ended is `ControlError::Gone`.

use super::ControlError;
use monitor_event::Target;
use monitor_model::{Identity, Ns, Pid};
use monitor_sys::{clock, pidfd::PidFd};
use procfs::process::{MemoryMap, Process, Stat, Status};
use procfs::{ProcError, ProcResult};
use rustix::process::Signal;

const STOP: u32 = Signal::STOP.as_raw().cast_unsigned();
const CONTINUE: u32 = Signal::CONT.as_raw().cast_unsigned();

/// A process that cannot be confused with another one of the same pid.
#[derive(Debug)]
pub struct ProcessRef {
    /// Pid and start time.
    pub id: Identity,
    /// Names the process even after its pid is reused.
    pub pidfd: PidFd,
}

impl ProcessRef {
    /// Opens the process with this identity; `Gone` if the pid belongs to another process now.
    pub fn open(id: Identity) -> Result<Self, ControlError> {
        let pidfd =
            PidFd::open(id.pid).map_err(|error| ControlError::from_io("pidfd_open", &error))?;
        let process = Self { id, pidfd };
        // The process that has the pid after the pidfd was opened is the one that the pidfd names.
        let started = process.stat()?.starttime;
        if same_start(id.start, started) { Ok(process) } else { Err(ControlError::Gone) }
    }

    /// Opens the process that has this pid now.
    pub fn open_current(pid: Pid) -> Result<Self, ControlError> {
        let pidfd =
            PidFd::open(pid).map_err(|error| ControlError::from_io("pidfd_open", &error))?;
        let mut process = Self { id: Identity { pid, start: Ns(0) }, pidfd };
        process.id.start = start_ns(process.stat()?.starttime);
        Ok(process)
    }

    /// The pid, as `/proc` and ptrace take it.
    pub fn pid(&self) -> i32 {
        raw_pid(self.id.pid)
    }

    /// Its directory in `/proc`. Check the pidfd after reading: the pid may have been reused.
    pub fn procfs(&self) -> Result<Process, ControlError> {
        Process::new(self.pid()).map_err(|error| from_proc_error("opening /proc/<pid>", error))
    }

    /// Its `/proc/<pid>/stat`.
    pub fn stat(&self) -> Result<Stat, ControlError> {
        self.procfs()?.stat().map_err(|error| from_proc_error("reading /proc/<pid>/stat", error))
    }

    /// Sends `SIGCONT`, which resumes it if a signal has stopped it.
    pub fn continue_stopped(&self) -> Result<(), ControlError> {
        let sent = self.pidfd.signal(CONTINUE);
        sent.map_err(|error| ControlError::from_io("resuming the process", &error))
    }

    /// Sends `SIGCONT` only if the process is stopped or a `SIGSTOP` is pending: a stop can wait
    /// for a thread to leave the kernel, or for another tracer to pass it on.
    pub fn resume(&self) {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let is_traced_stop = |it: &Status| it.state.starts_with('t') && it.tracerpid != own;
        if self.thread_statuses().iter().any(|it| is_signal_stop(it) || is_traced_stop(it)) {
            let _gone = self.continue_stopped();
        }
    }

    /// Whether a signal has stopped it, or a `SIGSTOP` is pending.
    pub fn is_stopped(&self) -> bool {
        self.thread_statuses().iter().any(is_signal_stop)
    }

    /// The thread that traces it, or one of its threads.
    pub fn tracer(&self) -> Option<u32> {
        let traced = self.thread_statuses().into_iter().find(|it| it.tracerpid > 0)?;
        u32::try_from(traced.tracerpid).ok()
    }

    /// The status of each of its threads; none if it has ended.
    fn thread_statuses(&self) -> Vec<Status> {
        let tasks = self.procfs().and_then(|it| proc_result("listing its threads", it.tasks()));
        tasks.into_iter().flatten().flatten().filter_map(|task| task.status().ok()).collect()
    }

    /// Its current threads with their `stat`; none if it has ended.
    pub fn threads(&self) -> Vec<(i32, Stat)> {
        let Ok(tasks) = self.procfs().and_then(|process| {
            process.tasks().map_err(|error| from_proc_error("listing its threads", error))
        }) else {
            return Vec::new(); // It has ended.
        };
        tasks.flatten().filter_map(|task| Some((task.tid, task.stat().ok()?))).collect()
    }

    /// Whether it has a thread with this id.
    pub fn has_thread(&self, tid: i32) -> bool {
        std::path::Path::new(&format!("/proc/{}/task/{tid}", self.pid())).exists()
    }

    /// Those of them that have not ended.
    pub fn living_threads(&self) -> impl Iterator<Item = (i32, Stat)> {
        self.threads().into_iter().filter(|(_, stat)| lives(stat))
    }

    /// A thread that has the memory of the process: the first, unless that has ended before others.
    /// A thread that has ended has no memory.
    pub fn memory_thread(&self) -> i32 {
        // Nearly always the first: the others are listed only if it has ended.
        let first = self.procfs().and_then(|it| proc_result("reading its state", it.stat()));
        if first.is_ok_and(|stat| lives(&stat)) {
            return self.pid();
        }
        self.living_threads().next().map_or(self.pid(), |(tid, _)| tid)
    }

    /// Its memory mappings.
    pub fn maps(&self) -> Result<Vec<MemoryMap>, ControlError> {
        let read = |it: Process| proc_result("reading its memory map", it.maps());
        let maps = read(self.procfs()?)?;
        if maps.iter().next().is_some() {
            return Ok(maps.into_iter().collect());
        }
        // Its first thread has ended; of a kernel thread this is empty, too.
        let path = format!("/proc/{}/task/{}", self.pid(), self.memory_thread());
        let thread = proc_result("opening a thread", Process::new_with_root(path.into()))?;
        Ok(read(thread)?.into_iter().collect())
    }

    /// The id of the thread that a request is for: the named one, or the main thread.
    pub fn thread(&self, target: &Target) -> Result<i32, ControlError> {
        let Some(thread) = target.thread else { return Ok(self.pid()) };
        let tid = raw_pid(thread.pid);
        let task = self
            .procfs()?
            .task_from_tid(tid)
            .map_err(|error| from_proc_error("opening the thread", error))?;
        let started =
            task.stat().map_err(|error| from_proc_error("reading the thread", error))?.starttime;
        if same_start(thread.start, started) { Ok(tid) } else { Err(ControlError::Gone) }
    }

    /// The error for a thread that could not be seized.
    pub fn seize_error(&self, tid: i32, error: &std::io::Error) -> ControlError {
        if error.kind() != std::io::ErrorKind::PermissionDenied {
            return ControlError::from_io("PTRACE_SEIZE", error);
        }
        let status = self.procfs().ok().and_then(|it| it.task_from_tid(tid).ok()?.status().ok());
        match status {
            None => ControlError::Gone,
            Some(status) if status.state.starts_with(['Z', 'X']) => ControlError::Gone,
            Some(status) if status.tracerpid > 0 => {
                ControlError::AlreadyTraced { tracer: u32::try_from(status.tracerpid).unwrap_or(0) }
            }
            Some(_) => ControlError::denied("tracing the process", &need_to_trace()),
        }
    }
}

/// Whether a signal has stopped a thread, or is about to.
fn is_signal_stop(status: &Status) -> bool {
    match status.state.chars().next() {
        Some('T') => true,
        Some('t') => false,
        _ => (status.sigpnd | status.shdpnd) >> (STOP - 1) & 1 == 1,
    }
}

/// The process of a thread that traces: `TracerPid` of `/proc` is the thread, and a user knows the
/// process.
pub fn tracing_process(thread: u32) -> u32 {
    process_of(raw_pid(Pid(thread))).and_then(|pid| u32::try_from(pid).ok()).unwrap_or(thread)
}

/// The process of a thread; none if it has ended.
pub fn process_of(thread: i32) -> Option<i32> {
    Some(Process::new(thread).ok()?.status().ok()?.tgid)
}

/// What the kernel wants of a tracer (ptrace(2), Documentation/admin-guide/LSM/Yama.rst).
fn need_to_trace() -> String {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    match scope.as_deref().map(str::trim) {
        None | Some("0") => "the same user, or CAP_SYS_PTRACE".to_owned(),
        Some(scope) => format!(
            "CAP_SYS_PTRACE, or the same user and kernel.yama.ptrace_scope=0 (it is {scope})"
        ),
    }
}

/// The identity of a thread of a process; `None` if it has ended.
pub fn thread_identity(process: i32, tid: i32) -> Option<Identity> {
    let stat = Process::new(process).ok()?.task_from_tid(tid).ok()?.stat().ok()?;
    Some(Identity { pid: Pid(u32::try_from(tid).ok()?), start: start_ns(stat.starttime) })
}

/// The thread with this id; `None` if it has ended.
pub fn find_thread(tid: Pid) -> Option<Target> {
    let status = Process::new(raw_pid(tid)).ok()?.status().ok()?;
    let process = ProcessRef::open_current(Pid(u32::try_from(status.tgid).ok()?)).ok()?;
    let thread = thread_identity(process.pid(), raw_pid(tid))?;
    Some(Target { process: process.id, thread: Some(thread) })
}

/// Resumes a process as [`ProcessRef::resume`] does, if it still exists.
pub fn resume(id: Identity) {
    if let Ok(process) = ProcessRef::open(id) {
        process.resume();
    }
}

/// A thread as a target; only its process if the thread has ended.
pub fn thread_target(process: Identity, tid: Pid) -> Target {
    Target { process, thread: thread_identity(raw_pid(process.pid), raw_pid(tid)) }
}

/// Whether a thread has not ended.
const fn lives(stat: &Stat) -> bool {
    !matches!(stat.state, 'Z' | 'X')
}

/// Whether two identities are of one process, whatever the precision of their start times.
pub fn is_same(one: Identity, other: Identity) -> bool {
    tick_identity(one) == tick_identity(other)
}

/// The identity with its start time rounded down to ticks, as `/proc` has it. Used as map key,
/// because other sources know the start time more precisely.
pub fn tick_identity(id: Identity) -> Identity {
    let tick = clock::tick_ns();
    Identity { start: Ns(id.start.0 / tick * tick), ..id }
}

/// A pid for calls that take it signed; no pid exceeds `i32::MAX`.
pub fn raw_pid(pid: Pid) -> i32 {
    i32::try_from(pid.0).unwrap_or(i32::MAX)
}

fn start_ns(ticks: u64) -> Ns {
    Ns(ticks.saturating_mul(clock::tick_ns()))
}

/// Compares at the resolution of `/proc`, which is one tick.
fn same_start(named: Ns, ticks: u64) -> bool {
    named.0 / clock::tick_ns() == ticks
}

/// Maps an error of `/proc`; a missing file means that the process has ended.
pub fn from_proc_error(what: &str, error: ProcError) -> ControlError {
    match error {
        ProcError::NotFound(_) => ControlError::Gone,
        ProcError::PermissionDenied(_) => {
            ControlError::denied(what, "the same user, or root privileges")
        }
        ProcError::Io(error, _) => ControlError::from_io(what, &error),
        other => ControlError::Failed { call: what.to_owned(), why: other.to_string() },
    }
}

/// Maps the error of a result of `/proc`.
pub fn proc_result<T>(what: &str, answer: ProcResult<T>) -> Result<T, ControlError> {
    answer.map_err(|error| from_proc_error(what, error))
}

//! The thread of a process that its probes belong to: with it, the kernel drops them.

use monitor_model::Pid;
use monitor_proc::stat;
use monitor_sys::pidfd::PidFd;

/// A thread with probes.
pub struct ProbedThread {
    pid: Pid,
    /// Its thread id.
    pub tid: Pid,
    /// Distinguishes the process from a later one with its pid; none if it could not be opened.
    pidfd: Option<PidFd>,
}

impl ProbedThread {
    /// The first thread of a process, or another one if that has ended.
    pub fn of_process(pid: Pid) -> Self {
        let pidfd = PidFd::open(pid).ok();
        Self { pid, tid: living(pid), pidfd }
    }

    /// Whether the process has ended.
    pub fn process_has_ended(&self) -> bool {
        self.pidfd.as_ref().is_some_and(PidFd::has_ended)
    }

    /// Whether it has probes still.
    pub fn is_alive(&self) -> bool {
        !self.process_has_ended() && is_alive(self.pid, self.tid)
    }
}

fn living(pid: Pid) -> Pid {
    if is_alive(pid, pid) {
        return pid;
    }
    threads(pid).find(|tid| is_alive(pid, *tid)).unwrap_or(pid)
}

/// The threads of a process, ended ones too; none, if it has ended.
pub fn threads(pid: Pid) -> impl Iterator<Item = Pid> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.0)).into_iter().flatten();
    threads.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok()).map(Pid)
}

/// Whether a thread is not ending: the first one of a process stays as long as there are others.
fn is_alive(pid: Pid, tid: Pid) -> bool {
    let text = std::fs::read(format!("/proc/{}/task/{}/stat", pid.0, tid.0));
    let stat = text.ok().and_then(|text| stat::parse(&text).ok());
    stat.is_some_and(|stat| !stat.is_ending())
}

//! Reaps a child and returns its resource usage: wait4(2), which the libraries lack.

use monitor_model::id::{Ns, Pid};
use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus};

/// Unit of `ru_inblock` and `ru_oublock` (`task_io_get_inblock` of the kernel).
const BLOCK_BYTES: u64 = 512;

/// Resource usage of a child and of its own reaped children (getrusage(2)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time; exact, because the kernel scales both to the measured run time.
    pub cpu: Ns,
    /// User time.
    pub user: Ns,
    /// System time.
    pub system: Ns,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes written to storage, or to the page cache for it.
    pub written_bytes: u64,
    /// Largest peak resident size of any of these processes, in bytes, where known.
    pub peak_rss_bytes: Option<u64>,
}

/// Waits until the child exits, and reaps it.
pub fn wait(child: Pid) -> io::Result<(ExitStatus, Usage)> {
    let pid = libc::pid_t::try_from(child.0).map_err(|_| io::ErrorKind::InvalidInput)?;
    let ended = wait4(pid, 0)?;
    ended.map(|(_, status, usage)| (status, usage)).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reaps a child that has exited, whichever it is; absent if none has, or there are no children.
pub fn reap_any() -> Option<(Pid, ExitStatus, Usage)> {
    // It fails where there are no children.
    wait4(-1, libc::WNOHANG).ok().flatten()
}

/// Reaps a child; absent if none has exited yet.
fn wait4(pid: libc::pid_t, options: libc::c_int) -> io::Result<Option<(Pid, ExitStatus, Usage)>> {
    let mut status = 0;
    // SAFETY: all members are integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let reaped = loop {
        // SAFETY: both pointers point to locals that outlive the call.
        let rc = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
        match u32::try_from(rc) {
            Ok(0) => return Ok(None),
            Ok(reaped) => break Pid(reaped),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    Ok(Some((reaped, ExitStatus::from_raw(status), usage_from(usage))))
}

fn usage_from(usage: libc::rusage) -> Usage {
    let (user, system) = (nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime));
    Usage {
        cpu: Ns(user + system),
        user: Ns(user),
        system: Ns(system),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        read_bytes: count(usage.ru_inblock) * BLOCK_BYTES,
        written_bytes: count(usage.ru_oublock) * BLOCK_BYTES,
        peak_rss_bytes: u64::try_from(usage.ru_maxrss).ok().map(|kib| kib * 1024),
    }
}

fn count(number: libc::c_long) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn nanoseconds(time: libc::timeval) -> u64 {
    let part = |it: i64, scale: u64| u64::try_from(it).unwrap_or(0) * scale;
    part(time.tv_sec, 1_000_000_000) + part(time.tv_usec, 1_000)
}

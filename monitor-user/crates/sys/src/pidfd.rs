//! Pidfds: descriptors that name one process, and a watch for the exit of many.
//!
//! In: process ids and marks. Out: signals sent, exit codes, the marks of processes that exited. A
//! pidfd keeps naming the same process (pidfd_open(2)); the caller checks after opening it that
//! this process is the intended one.

use monitor_model::id::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::process::{
    Pid as RawPid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal, setpriority_process,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::{io, num::NonZeroI32};

/// `PIDFD_GET_INFO` of include/uapi/linux/pidfd.h, with the 64 bytes of its first form.
const PIDFD_GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;
/// `PIDFD_INFO_EXIT`, since 6.15: the exit status of a reaped process.
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info`.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// `PIDFD_THREAD` of include/uapi/linux/pidfd.h: a thread other than the main thread, since 6.9.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

/// A pidfd.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process that has this id now.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self(pidfd_open(raw_pid(pid)?, PidfdFlags::empty())?))
    }

    /// Opens the parent of this process, if it has this id: another process may have it by now.
    ///
    /// # Errors
    /// If no process has the id, or no descriptor is free.
    pub fn open_parent(pid: Pid) -> io::Result<Option<Self>> {
        let opened = Self::open(pid)?;
        Ok((getppid() == Some(raw_pid(pid)?)).then_some(opened))
    }

    /// Opens a thread; kernels before 6.9 return `EINVAL`.
    pub fn open_thread(tid: Pid) -> io::Result<Self> {
        Ok(Self(pidfd_open(raw_pid(tid)?, PIDFD_THREAD)?))
    }

    /// Sends a signal; real-time signals are allowed.
    pub fn signal(&self, number: u32) -> io::Result<()> {
        let number = i32::try_from(number).ok().and_then(NonZeroI32::new);
        let number = number.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel checks the number; the signal goes to another process, so it cannot
        // be one that our own C library reserves for itself.
        let signal = unsafe { Signal::from_raw_nonzero_unchecked(number) };
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Sets the nice value. No call takes a pidfd for that, so it is set by pid right after the
    /// process was seen alive.
    pub fn renice(&self, pid: Pid, value: i32) -> io::Result<()> {
        if self.has_ended() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(setpriority_process(Some(raw_pid(pid)?), value)?)
    }

    /// Whether the process has exited; it may still be a zombie.
    pub fn has_ended(&self) -> bool {
        let mut ends = [PollFd::new(&self.0, PollFlags::IN)];
        matches!(poll(&mut ends, Some(&Timespec::default())), Ok(1..))
    }

    /// The exit status as in wait(2); `None` before the process is reaped or before Linux 6.15.
    pub fn status(&self) -> Option<i32> {
        let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: the kernel writes at most the 64 bytes that are encoded in the request number.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
        (rc == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }

    /// The exit code as a shell reports it: 128 plus the number for a signal.
    pub fn exit_code(&self) -> Option<u64> {
        self.status().map(|status| exit_code(status.cast_unsigned()))
    }
}

/// Readable when the process has exited.
impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The exit code of a child as a shell returns it: 128 plus the number for a signal.
pub fn returned_code(status: ExitStatus) -> u8 {
    // The number of a signal is at most 127.
    u8::try_from(exit_code(status.into_raw().cast_unsigned())).unwrap_or(u8::MAX)
}

/// The exit code of a status as in wait(2), as a shell reports it: 128 plus the number for a
/// signal.
pub const fn exit_code(status: u32) -> u64 {
    match status & 0x7f {
        0 => (status >> 8 & 0xff) as u64,
        signal => 128 + signal as u64,
    }
}

/// Sends a signal to one thread by its id, for kernels without pidfds of threads.
pub fn tgkill(process: i32, thread: i32, signal: i32) -> io::Result<()> {
    // SAFETY: three integers; the kernel reads no memory of ours.
    let rc = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn raw_pid(pid: Pid) -> io::Result<RawPid> {
    let raw = i32::try_from(pid.0).ok().and_then(RawPid::from_raw);
    raw.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reports the exit of many processes. Dropping the `PidFd` of a process ends the watch.
pub struct ExitWatch(OwnedFd);

impl ExitWatch {
    /// A watch of no process.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Watches a process; `take_ended` returns its mark once, after it has exited.
    pub fn watch(&self, pid: Pid, mark: u64) -> io::Result<PidFd> {
        let pidfd = PidFd::open(pid)?;
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        epoll::add(&self.0, &pidfd.0, epoll::EventData::new_u64(mark), once)?;
        Ok(pidfd)
    }

    /// The marks of the processes that have exited since the last call.
    pub fn take_ended(&self) -> Vec<u64> {
        let mut events = Vec::with_capacity(64);
        let mut marks = Vec::new();
        while let Ok(1..) = epoll::wait(
            &self.0,
            rustix::buffer::spare_capacity(&mut events),
            Some(&Timespec::default()),
        ) {
            marks.extend(events.drain(..).map(|event| event.data.u64()));
        }
        marks
    }
}

impl AsFd for ExitWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_exit_is_reported_once_and_only_while_the_pidfd_is_open() {
        let cat = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (mut one, mut other) = (cat(), cat());
        let exits = ExitWatch::new().unwrap();
        let pidfd = exits.watch(Pid(one.id()), 7).unwrap();
        drop(exits.watch(Pid(other.id()), 8).unwrap());
        assert!(exits.take_ended().is_empty());
        for child in [&mut one, &mut other] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        assert_eq!(exits.take_ended(), [7]);
        assert!(exits.take_ended().is_empty());
        // Older kernels return nothing.
        assert!(pidfd.status().is_none_or(|status| status == 0));
    }

    #[test]
    fn a_process_that_does_not_exist_cannot_be_watched() {
        assert!(ExitWatch::new().unwrap().watch(Pid(u32::MAX), 1).is_err());
    }
}

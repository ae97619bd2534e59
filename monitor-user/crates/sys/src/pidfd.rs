//! The end of processes: held by a descriptor each, and waited for all at once.
//!
//! In: process ids and marks. Out: the marks of those that have ended. A descriptor means one
//! process for ever (pidfd_open(2)); whether it is the one that was meant, the caller must check
//! after it was opened.

use monitor_model::id::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::process::{
    Pid as RawPid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, setpriority_process,
};
use std::io;
use std::num::NonZeroI32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `PIDFD_GET_INFO` of include/uapi/linux/pidfd.h, with the 64 bytes of its first form.
const PIDFD_GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;
/// `PIDFD_INFO_EXIT`, since 6.15: the status of one that was waited for.
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

/// `PIDFD_THREAD` of include/uapi/linux/pidfd.h: a thread that leads no process, since 6.9.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

/// A process, held.
#[derive(Debug)]
pub struct Held(OwnedFd);

impl Held {
    /// Holds whoever has this id now.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self(pidfd_open(raw(pid)?, PidfdFlags::empty())?))
    }

    /// Holds a thread, where the kernel can.
    pub fn thread(tid: Pid) -> io::Result<Self> {
        Ok(Self(pidfd_open(raw(tid)?, PIDFD_THREAD)?))
    }

    /// Sends it a signal, a real-time one too.
    pub fn signal(&self, number: u32) -> io::Result<()> {
        let number = i32::try_from(number).ok().and_then(NonZeroI32::new);
        let number = number.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel checks the number; it is not one that our own C library waits for,
        // and it goes to another process as kill(1) would send it.
        let signal = unsafe { Signal::from_raw_nonzero_unchecked(number) };
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Gives it another nice value. There is no call for that by descriptor: it is made by number
    /// while the process is known to live, and so has its number.
    pub fn renice(&self, pid: Pid, value: i32) -> io::Result<()> {
        if self.has_ended() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(setpriority_process(Some(raw(pid)?), value)?)
    }

    /// Whether it has ended; it may still have to be waited for.
    pub fn has_ended(&self) -> bool {
        let mut ends = [PollFd::new(&self.0, PollFlags::IN)];
        matches!(poll(&mut ends, Some(&Timespec::default())), Ok(1..))
    }

    /// How it ended, as `wait(2)` tells it, where the kernel says it to those who did not wait.
    pub fn status(&self) -> Option<i32> {
        let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: the kernel writes at most the 64 bytes that the number of the call says.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
        (rc == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }

    /// The same as a shell tells it: 128 and its number for a signal.
    pub fn exit_code(&self) -> Option<u64> {
        let status = u64::from(self.status()?.cast_unsigned());
        Some(match status & 0x7f {
            0 => status >> 8 & 0xff,
            signal => 128 + signal,
        })
    }
}

/// Sends a signal to one thread of a process, by number: for kernels that hold no threads.
pub fn thread_kill(process: i32, thread: i32, signal: i32) -> io::Result<()> {
    // SAFETY: three numbers; the kernel reads no memory of ours.
    let rc = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn raw(pid: Pid) -> io::Result<RawPid> {
    let raw = i32::try_from(pid.0).ok().and_then(RawPid::from_raw);
    raw.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Waits for the end of many. Who lets go of a process waits for it no more.
pub struct Ends(OwnedFd);

impl Ends {
    /// Of nobody yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Holds a process; its mark comes once, when it has ended.
    pub fn hold(&self, pid: Pid, mark: u64) -> io::Result<Held> {
        let held = Held::open(pid)?;
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        epoll::add(&self.0, &held.0, epoll::EventData::new_u64(mark), once)?;
        Ok(held)
    }

    /// The marks of those that have ended since it was asked last.
    pub fn ended(&self) -> Vec<u64> {
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

impl AsFd for Ends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_end_of_a_process_comes_once_and_only_while_it_is_held() {
        let cat = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (mut one, mut other) = (cat(), cat());
        let ends = Ends::new().unwrap();
        let held = ends.hold(Pid(one.id()), 7).unwrap();
        drop(ends.hold(Pid(other.id()), 8).unwrap());
        assert!(ends.ended().is_empty());
        for child in [&mut one, &mut other] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        assert_eq!(ends.ended(), [7]);
        assert!(ends.ended().is_empty());
        // Older kernels do not say; none says anything else.
        assert!(held.status().is_none_or(|status| status == 0));
    }

    #[test]
    fn nobody_cannot_be_held() {
        assert!(Ends::new().unwrap().hold(Pid(u32::MAX), 1).is_err());
    }
}

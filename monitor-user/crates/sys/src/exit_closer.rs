//! Closes a descriptor where no signal can interrupt the kernel: in the exit of a process.
//!
//! When the last descriptor of a uprobe is closed, the kernel writes the original byte into the
//! probed process. A thread with a pending `SIGKILL` cannot do that: the kernel gives up ("failed
//! to unregister, leaking uprobe"), and the breakpoint stays until the process ends
//! (`uprobe_unregister_nosync` and `__get_user_pages`, 5.10 to 6.18). A process that exits has
//! taken its `SIGKILL` already. So a child inherits the descriptor, this process closes its own,
//! and the child exits; if this process is killed before, the last of the two exits closes it.

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::io::{read, retry_on_intr, write};
use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// A byte that means: go on.
const GO: &[u8] = b"g";
/// Bytes of the stack of a child.
const STACK: usize = 64 << 10;

/// What a child works with; the parent keeps it until the child has ended.
struct ChildTask<'a> {
    descriptor: RawFd,
    pair: &'a UnixStream,
}

/// Closes a descriptor, and waits for what the kernel does then. Without memory or processes for a
/// child, this thread closes it.
pub fn close(descriptor: OwnedFd) {
    let Ok((ours, childs)) = UnixStream::pair() else { return };
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let task = ChildTask { descriptor: descriptor.as_raw_fd(), pair: &childs };
    let Some(pid) = start(&mut stack, &task) else { return };
    drop(childs);
    // It reads nothing if the child was killed: then this thread has the last one.
    let mut byte = [0];
    let _ready = retry_on_intr(|| read(&ours, &mut byte[..]));
    drop(descriptor);
    let _gone = write(&ours, GO);
    reap(pid);
}

/// Starts a child that shares the memory of this process, which is not copied, but has descriptors
/// of its own.
fn start(stack: &mut [u128], task: &ChildTask<'_>) -> Option<libc::pid_t> {
    // A handler would act on the memory of this process.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).ok()?;
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let task = std::ptr::from_ref(task).cast_mut().cast::<c_void>();
    // SAFETY: the stack and the task live until the child has ended, which `close` waits for; the
    // child makes system calls only.
    let pid = unsafe { libc::clone(child, top, libc::CLONE_VM | libc::SIGCHLD, task) };
    // It fails for no mask that the kernel has returned.
    let _restored = before.thread_set_mask();
    (pid > 0).then_some(pid)
}

/// Keeps the descriptor alone until the parent has closed its own or has ended, and exits.
extern "C" fn child(task: *mut c_void) -> libc::c_int {
    // SAFETY: `start` passes a task that lives as long as the child.
    let ChildTask { descriptor, pair } = unsafe { &*task.cast::<ChildTask<'_>>() };
    let (low, high) = (pair.as_raw_fd().min(*descriptor), pair.as_raw_fd().max(*descriptor));
    // None of these is the last descriptor of its file: the parent waits.
    close_range(0, low - 1);
    close_range(low + 1, high - 1);
    close_range(high + 1, RawFd::MAX);
    let mut byte = [0];
    let _sent = retry_on_intr(|| write(pair, GO));
    let _go = retry_on_intr(|| read(pair, &mut byte[..]));
    // SAFETY: this ends the child; returning would do more than that.
    unsafe { libc::_exit(0) }
}

/// Closes descriptors from one number to another; before 5.9 they stay until the child exits.
fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        // SAFETY: the descriptors belong to this process, which uses none of them.
        let _closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

fn reap(pid: libc::pid_t) {
    loop {
        // SAFETY: no status is wanted.
        let reaped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        let error = std::io::Error::last_os_error();
        if reaped != -1 || error.kind() != std::io::ErrorKind::Interrupted {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn the_last_descriptor_is_closed() {
        let (mut ours, closed) = std::io::pipe().expect("a pipe");
        close(closed.into());
        let mut rest = Vec::new();
        assert_eq!(ours.read_to_end(&mut rest).ok(), Some(0), "the other end is closed");
    }
}

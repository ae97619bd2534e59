//! Closes a descriptor where no signal can interrupt the kernel: in the exit of a process.
//!
//! When the last descriptor of a uprobe is closed, the kernel writes the original byte into the
//! probed process. A thread with a pending `SIGKILL` cannot do that: the kernel gives up ("failed
//! to unregister, leaking uprobe"), and the breakpoint stays until the process ends
//! (`uprobe_unregister_nosync` and `__get_user_pages`, 5.10 to 6.18). A process that exits has
//! taken its `SIGKILL` already. So a child inherits the descriptor, this process closes its own,
//! and the child exits; if this process is killed before, the last of the two exits closes it.

use rustix::io::{read, retry_on_intr, write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// A byte that means: go on.
const GO: &[u8] = b"g";

/// Closes a descriptor, and waits for what the kernel does then. Without memory or processes for a
/// child, this thread closes it.
pub fn close(descriptor: OwnedFd) {
    let Ok((ours, childs)) = UnixStream::pair() else { return };
    // SAFETY: the child makes system calls only, and ends.
    match unsafe { libc::fork() } {
        0 => child(descriptor.as_raw_fd(), &childs),
        -1 => {}
        pid => {
            drop(childs);
            // It reads nothing if the child was killed: then this thread has the last one.
            let mut byte = [0];
            let _ready = retry_on_intr(|| read(&ours, &mut byte[..]));
            drop(descriptor);
            let _gone = write(&ours, GO);
            reap(pid);
        }
    }
}

/// Keeps the descriptor alone until the parent has closed its own or has ended, and exits.
fn child(descriptor: RawFd, pair: &UnixStream) -> ! {
    let (low, high) = (descriptor.min(pair.as_raw_fd()), descriptor.max(pair.as_raw_fd()));
    // None of these is the last descriptor of its file: the parent waits.
    close_range(0, low - 1);
    close_range(low + 1, high - 1);
    close_range(high + 1, RawFd::MAX);
    let mut byte = [0];
    let _sent = retry_on_intr(|| write(pair, GO));
    let _go = retry_on_intr(|| read(pair, &mut byte[..]));
    // SAFETY: this ends the process.
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
    use rustix::pipe::pipe;

    #[test]
    fn the_last_descriptor_is_closed() {
        let (ours, closed) = pipe().expect("a pipe");
        close(closed);
        let mut byte = [0];
        assert_eq!(read(&ours, &mut byte[..]), Ok(0), "the other end is closed");
    }
}

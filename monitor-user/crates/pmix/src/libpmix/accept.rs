//! `accept` of this program, which the library calls instead of that of libc.
//!
//! In: a connection. Out: the connection, if its other end belongs to the user of this process or
//! to root, as the kernel knows the owner of the socket. The library believes what a process says
//! of itself, so a process of another user could act as a rank or a tool; and the library ends by a
//! signal when a tool is refused later (PMIx 4.2.2 and 5.0.11, `process_cbfunc` of
//! `ptl_base_connection_hdlr.c`). A symbol of the executable has precedence over that of a library.

use super::passed::next_passed;
use super::queue::send;
use crate::upcall::Upcall;
use libc::{sockaddr, socklen_t};
use monitor_sys::tcp_peer;
use std::ffi::{c_int, c_void};
use std::net::TcpStream;
use std::os::fd::{FromRawFd as _, IntoRawFd as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether owners are checked: only in a process that hosts a job.
static CHECKS: AtomicBool = AtomicBool::new(false);
/// Whether the library gets connections that another process has accepted.
static PASSED: AtomicBool = AtomicBool::new(false);

/// Checks the owners of connections from now on. Returns whether libraries call this function: the
/// linker may have hidden it.
pub fn check_owners() -> bool {
    CHECKS.store(true, Ordering::Relaxed);
    // SAFETY: the name of a function of libc.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"accept".as_ptr()) };
    found.cast_const() == accept as *const c_void
}

/// Gives the library connections that the front of the server of the node has accepted, from now
/// on: each time the front connects.
pub fn accept_passed() {
    PASSED.store(true, Ordering::Relaxed);
}

/// accept(2), for connections of the user of this process and of root. Instead of another one, it
/// returns a connection that has ended: what the library does at an error depends on its version.
///
/// # Safety
/// As accept(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn accept(
    listener: c_int,
    address: *mut sockaddr,
    size: *mut socklen_t,
) -> c_int {
    // SAFETY: of the caller.
    let accepted = unsafe { libc::accept4(listener, address, size, 0) };
    if accepted < 0 || !CHECKS.load(Ordering::Relaxed) {
        return accepted;
    }
    // SAFETY: the kernel has just returned it, and it has no other owner.
    let stream = unsafe { TcpStream::from_raw_fd(accepted) };
    let owner = owner_of_peer(&stream);
    let own = rustix::process::geteuid().as_raw();
    let is_own = owner.is_some_and(|uid| uid == own || uid == 0);
    if is_own && !PASSED.load(Ordering::Relaxed) {
        return stream.into_raw_fd();
    }
    if let Some(passed) = is_own.then(next_passed).flatten() {
        return passed.into_raw_fd();
    }
    drop(stream);
    // Of the front, without a connection of a tool.
    if is_own {
        return ended();
    }
    send(Upcall::Refused(owner));
    ended()
}

/// A connection that has ended. Without a descriptor, the library has none either: accept(2) would
/// have failed.
fn ended() -> c_int {
    UnixStream::pair().map_or(-1, |(ended, _)| ended.into_raw_fd())
}

/// The user that owns the other end of a connection between processes of this node; none if it is
/// not known, or closed already.
pub fn owner_of_peer(stream: &TcpStream) -> Option<u32> {
    tcp_peer::user(stream.local_addr().ok()?, stream.peer_addr().ok()?)
}

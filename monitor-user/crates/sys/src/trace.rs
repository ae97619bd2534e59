//! ptrace(2): each request that `control` makes is one function here.
//!
//! In: a thread that the caller traces, unless it says otherwise. Out: what the kernel answered.
//! nix has most of these, but its signals end at 31: a thread that stopped with a real-time signal
//! would be lost by its `waitpid` and could not be continued with it.

use rustix::process::{Pid, WaitOptions, waitpid};
use std::io;

/// What may be asked of the kernel when a thread is seized (`PTRACE_O_…`).
const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;
/// `PTRACE_GETSIGMASK` and its counterpart of include/uapi/linux/ptrace.h; libc has neither.
const GET_MASK: u32 = 0x420a;
const SET_MASK: u32 = 0x420b;
/// Bytes of the kernel's signal mask.
const MASK_BYTES: usize = 8;

/// `NT_PRSTATUS`: the integer registers.
pub const INTEGERS: i32 = 1;
/// `NT_PRFPREG`: x87 and SSE on x86.
pub const FLOATS: i32 = 2;
/// `NT_X86_XSTATE`: everything that `xsave` keeps.
pub const EXTENDED: i32 = 0x202;
/// `NT_X86_SHSTK`: the shadow stack, where the thread has one.
pub const SHADOW: i32 = 0x204;

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// Until something happens.
    Freely,
    /// For one instruction.
    OneStep,
    /// Not at all, but it hears `SIGCONT`.
    Listening,
}

/// Traces a thread that we do not trace, without stopping it.
pub fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, data(OPTIONS))
}

/// Stops a running thread; its stop is waited for like any other.
pub fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a stopped thread go on, with a signal or 0.
pub fn resume(tid: i32, onward: Onward, signal: i32) -> io::Result<()> {
    let call = match onward {
        Onward::Freely => libc::PTRACE_CONT,
        Onward::OneStep => libc::PTRACE_SINGLESTEP,
        Onward::Listening => libc::PTRACE_LISTEN,
    };
    request(call, tid, 0, data(signal))
}

/// Traces a stopped thread no more; it goes on with a signal or 0.
pub fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, data(signal))
}

/// The calling process lets its parent trace it; for use between fork and exec.
pub fn trace_me() -> io::Result<()> {
    request(libc::PTRACE_TRACEME, 0, 0, 0)
}

/// What an event stop tells beside its kind: the new thread, the former thread id.
pub fn message(tid: i32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message).addr())?;
    Ok(message)
}

/// `si_code` of the signal that a thread is stopped with.
pub fn signal_code(tid: i32) -> io::Result<i32> {
    // SAFETY: all members are integers and pointers, for which zero is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, tid, 0, (&raw mut info).addr())?;
    Ok(info.si_code)
}

/// Reads a set of registers; gives the number of bytes that there were.
pub fn read_set(tid: i32, set: i32, room: &mut [u8]) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    request(libc::PTRACE_GETREGSET, tid, data(set), (&raw mut part).addr())?;
    Ok(part.iov_len)
}

/// Writes a set of registers.
pub fn write_set(tid: i32, set: i32, bytes: &[u8]) -> io::Result<()> {
    // The kernel only reads; `iovec` has no other pointer.
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_SETREGSET, tid, data(set), (&raw mut part).addr())
}

/// The signals that the thread has blocked, one bit each.
pub fn signal_mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0_u64;
    request(GET_MASK, tid, MASK_BYTES, (&raw mut mask).addr())?;
    Ok(mask)
}

/// Blocks these signals and no others.
pub fn set_signal_mask(tid: i32, mask: u64) -> io::Result<()> {
    request(SET_MASK, tid, MASK_BYTES, (&raw const mask).addr())
}

/// Writes a word of `struct user`, which is where the debug registers are.
pub fn poke_user(tid: i32, offset: usize, value: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEUSER, tid, offset, usize::try_from(value).unwrap_or(usize::MAX))
}

/// What has become of a thread or child, as `wait(2)` tells it; nothing if nothing has.
pub fn status(tid: i32) -> io::Result<Option<i32>> {
    let pid = Pid::from_raw(tid).ok_or(io::ErrorKind::InvalidInput)?;
    // `__WALL`: threads are children of another kind.
    let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    Ok(waitpid(Some(pid), options)?.map(|(_, status)| status.as_raw()))
}

/// A number of the interface as the last argument, which is a pointer in most requests.
fn data(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn request(call: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: only the functions above call it; where `data` is an address it is that of a local
    // which is large enough for what the request writes. A stale `tid` fails with ESRCH.
    let rc = unsafe { libc::ptrace(call, tid, address, data) };
    if rc == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

//! ptrace(2): one function for each request that `control` makes.
//!
//! In: a thread that the caller traces, unless noted otherwise. Out: the kernel's answer. nix has
//! most of these, but its `Signal` ends at 31: its `waitpid` fails for a thread that stopped with a
//! real-time signal, and the thread could not be resumed with that signal.

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, wait, waitid, waitpid};
use std::io;

/// Options set when a thread is seized (`PTRACE_O_…`).
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;
/// `PTRACE_GETSIGMASK` and its counterpart of include/uapi/linux/ptrace.h; libc has neither.
const GET_MASK: u32 = 0x420a;
const SET_MASK: u32 = 0x420b;
/// `PTRACE_GET_SYSCALL_INFO`, of Linux 5.3, and the words of its structure.
const GET_SYSCALL_INFO: u32 = 0x420e;
const SYSCALL_INFO_WORDS: usize = 11;
/// Bytes of a signal mask in the kernel.
const MASK_BYTES: usize = 8;

/// `PTRACE_EVENT_STOP` of include/uapi/linux/ptrace.h, above the signal in a wait status.
pub const EVENT_STOP: i32 = 128;

/// `PTRACE_EVENT_EXEC`, in the same place.
pub const EVENT_EXEC: i32 = 4;

/// `si_code` of the `SIGTRAP` of a perf breakpoint (asm-generic/siginfo.h).
pub const TRAP_PERF: i32 = 6;

/// Bytes of `siginfo_t` (asm-generic/siginfo.h).
pub const SIGNAL_INFO_BYTES: usize = 128;

/// `NT_PRSTATUS`: the integer registers.
pub const GENERAL_REGSET: i32 = 1;
/// `NT_PRFPREG`: x87 and SSE on x86.
pub const FLOAT_REGSET: i32 = 2;
/// `NT_X86_XSTATE`: the whole `xsave` area.
pub const XSTATE_REGSET: i32 = 0x202;
/// `NT_X86_SHSTK`: the shadow stack, if the thread has one.
pub const SHADOW_STACK_REGSET: i32 = 0x204;

/// How a stopped thread is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeMode {
    /// `PTRACE_CONT`: until the next stop.
    Continue,
    /// `PTRACE_SYSCALL`: until the entry or the end of a system call.
    SystemCall,
    /// `PTRACE_SINGLESTEP`: for one instruction.
    SingleStep,
    /// `PTRACE_LISTEN`: it stays stopped and reports `SIGCONT`.
    Listen,
}

/// Starts tracing a thread without stopping it.
pub fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, data(OPTIONS))
}

/// Starts tracing a thread without stopping it, and without its events: what it creates is not
/// traced.
pub fn seize_alone(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, 0)
}

/// Stops a running thread; the stop is reported by `wait_status` like any other.
pub fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Resumes a stopped thread and delivers a signal, or none if it is 0.
pub fn resume(tid: i32, mode: ResumeMode, signal: i32) -> io::Result<()> {
    let call = match mode {
        ResumeMode::Continue => libc::PTRACE_CONT,
        ResumeMode::SystemCall => libc::PTRACE_SYSCALL,
        ResumeMode::SingleStep => libc::PTRACE_SINGLESTEP,
        ResumeMode::Listen => libc::PTRACE_LISTEN,
    };
    request(call, tid, 0, data(signal))
}

/// Stops tracing a stopped thread and resumes it with a signal, or none if it is 0.
pub fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, data(signal))
}

/// Makes the parent the tracer of the calling process; for use between fork and exec.
pub fn trace_me() -> io::Result<()> {
    request(libc::PTRACE_TRACEME, 0, 0, 0)
}

/// The message of an event stop: the id of the new thread, or the former thread id.
pub fn event_message(tid: i32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message).addr())?;
    Ok(message)
}

/// `si_code` of the signal that stopped a thread.
pub fn signal_code(tid: i32) -> io::Result<i32> {
    // SAFETY: all members are integers and pointers, for which zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, tid, 0, (&raw mut info).addr())?;
    Ok(info.si_code)
}

/// The `siginfo_t` of the signal that stopped a thread, as its bytes.
pub fn signal_info(tid: i32) -> io::Result<[u8; SIGNAL_INFO_BYTES]> {
    let mut info = [0; SIGNAL_INFO_BYTES];
    request(libc::PTRACE_GETSIGINFO, tid, 0, info.as_mut_ptr().addr())?;
    Ok(info)
}

/// Reads a register set; returns its size in bytes.
pub fn read_regset(tid: i32, set: i32, room: &mut [u8]) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    request(libc::PTRACE_GETREGSET, tid, data(set), (&raw mut part).addr())?;
    Ok(part.iov_len)
}

/// Writes a register set.
pub fn write_regset(tid: i32, set: i32, bytes: &[u8]) -> io::Result<()> {
    // The kernel only reads through this pointer; `iovec` has no const variant.
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_SETREGSET, tid, data(set), (&raw mut part).addr())
}

/// The signals that the thread blocks; bit `n - 1` is signal `n`.
pub fn signal_mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0_u64;
    request(GET_MASK, tid, MASK_BYTES, (&raw mut mask).addr())?;
    Ok(mask)
}

/// Replaces the signals that the thread blocks.
pub fn set_signal_mask(tid: i32, mask: u64) -> io::Result<()> {
    request(SET_MASK, tid, MASK_BYTES, (&raw const mask).addr())
}

/// Writes a word of `struct user`, which contains the debug registers.
pub fn poke_user(tid: i32, offset: usize, value: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEUSER, tid, offset, usize::try_from(value).unwrap_or(usize::MAX))
}

/// The next wait status of a traced thread or a child (wait(2)); `None` if there is none.
pub fn wait_status(tid: i32) -> io::Result<Option<i32>> {
    let pid = Pid::from_raw(tid).ok_or(io::ErrorKind::InvalidInput)?;
    // `__WALL`: includes threads, which are not ordinary children.
    let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    Ok(waitpid(Some(pid), options)?.map(|(_, status)| status.as_raw()))
}

/// A wait status of any thread that the caller traces, or of a child of it, if there is one.
pub fn poll_any() -> io::Result<Option<(i32, i32)>> {
    let bits = (libc::__WALL | libc::__WNOTHREAD).cast_unsigned();
    let waited = wait(WaitOptions::NOHANG | WaitOptions::from_bits_retain(bits))?;
    Ok(waited.map(|(pid, status)| (pid.as_raw_nonzero().get(), status.as_raw())))
}

/// What `peek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeekFor {
    /// An end.
    End,
    /// A stop.
    Stop,
}

/// A thread that the caller traces, or a child of it, with a wait status that was not taken yet;
/// the status stays.
pub fn peek(what: PeekFor) -> io::Result<Option<i32>> {
    let which = match what {
        PeekFor::End => libc::WEXITED,
        PeekFor::Stop => libc::WSTOPPED,
    };
    let options = which | libc::WNOHANG | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: all members are integers and pointers, for which zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes only to `info`.
    let rc = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) };
    if rc == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `si_pid` is part of what waitid(2) writes; it is 0 if there is none.
    let pid = unsafe { info.si_pid() };
    Ok((pid != 0).then_some(pid))
}

/// Takes the stop of a child that the caller does not trace.
pub fn take_stop(pid: i32) -> io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let _status = waitid(WaitId::Pid(pid), options)?;
    Ok(())
}

/// What a thread does that stopped at the entry or the end of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStop {
    /// It is about to begin the call.
    Entry,
    /// The call has returned this.
    Exit(i64),
}

/// Which end of a system call a thread stopped at; none, if at neither.
pub fn call_stop(tid: i32) -> io::Result<Option<CallStop>> {
    // `struct ptrace_syscall_info`: the operation is the first byte, `rval` at 24.
    let mut info = [0_u64; SYSCALL_INFO_WORDS];
    request(GET_SYSCALL_INFO, tid, size_of_val(&info), info.as_mut_ptr().addr())?;
    Ok(match info[0].to_le_bytes()[0] {
        1 => Some(CallStop::Entry),
        2 => Some(CallStop::Exit(info[3].cast_signed())),
        _ => None,
    })
}

/// An integer as the `data` argument, which is a pointer in most requests.
fn data(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn request(call: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: only the functions above call it; where `data` is an address, it is that of a local
    // large enough for what the request writes. A stale `tid` fails with ESRCH.
    let rc = unsafe { libc::ptrace(call, tid, address, data) };
    if rc == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

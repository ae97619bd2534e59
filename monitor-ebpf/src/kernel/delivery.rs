//! Which signal was delivered to a process.
//!
//! When a signal ends a process, `kernel/signal.c` gives each of its threads a `SIGKILL`, and
//! `get_signal` reports that one. So do `exit_group` and an exec by one of several threads, without
//! any signal. The exit code of the group has the number of the signal, or none.

use super::task::TASK;
use super::{constant, probe};
use crate::abi::Owner;
use crate::abi::offset::ABSENT;
use crate::abi::rule::ActionOffsets;
use crate::abi::task::GROUP_EXIT;
use crate::kernel::task::Task;
use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::bpf_get_current_task;
use aya_ebpf::maps::LruHashMap;

/// Set by the loader.
#[unsafe(no_mangle)]
static SIGNAL_ACTION: ActionOffsets = ActionOffsets::ABSENT;

/// Processes whose last signal was reported.
pub type EndedBySignal = LruHashMap<Owner, u32>;

const KILL: u32 = 9;
/// A bit for each signal without a handler that does not end its process: `SIGCHLD`, `SIGCONT`,
/// `SIGSTOP`, `SIGTSTP`, `SIGTTIN`, `SIGTTOU`, `SIGURG`, `SIGWINCH` (signal(7)).
const HARMLESS: u64 = 1 << 17 | 1 << 18 | 1 << 19 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23 | 1 << 28;
/// The part of an exit code that is a signal (wait(2)).
const SIGNAL_OF_CODE: u32 = 0x7f;
/// `SIG_IGN`; larger values are handlers.
const IGNORED: u64 = 1;

/// The signal that the current process gets, where the kernel reports `number` with `action`; none
/// if the process gets no signal, or its last one was reported for another thread.
#[inline(always)]
pub fn delivered(ended: &EndedBySignal, number: u32, action: u64) -> Option<u32> {
    if number == KILL {
        let number = signal_of_group()?;
        return is_first(ended, number).then_some(number);
    }
    let is_harmless = number < 64 && HARMLESS >> number & 1 == 1;
    if !is_harmless && !has_handler(action) {
        let _ = is_first(ended, number);
    }
    Some(number)
}

/// Whether an action is a handler.
#[inline(always)]
pub fn has_handler(action: u64) -> bool {
    let at = constant!(SIGNAL_ACTION.handler);
    at != ABSENT && probe::<u64>(action as *const u8, at) > IGNORED
}

/// The signal that ends the current process.
#[inline(always)]
fn signal_of_group() -> Option<u32> {
    // SAFETY: the helper has no arguments. 5.10 has no typed current task.
    let task = unsafe { bpf_get_current_task() } as *const u8;
    let group: *const u8 = probe(task, constant!(TASK.signal));
    let flags: u32 = probe(group, constant!(TASK.sig_flags));
    let code: u32 = probe(group, constant!(TASK.sig_exit_code));
    let number = code & SIGNAL_OF_CODE;
    (flags & GROUP_EXIT != 0 && number != 0).then_some(number)
}

/// Whether no signal that ends the current process was reported before.
#[inline(always)]
fn is_first(ended: &EndedBySignal, number: u32) -> bool {
    ended.insert(&Task::current_owner_untyped(), &number, u64::from(BPF_NOEXIST)).is_ok()
}

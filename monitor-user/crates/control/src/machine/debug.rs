//! The debug registers of x86-64: four addresses at which a thread traps.
//!
//! They belong to a thread; a new thread starts without any (arch/x86/kernel/process.c,
//! `copy_thread`). They persist after the tracer has ended, so they must be cleared explicitly.

use crate::ControlError;
use monitor_sys::ptrace;

/// Number of address registers.
pub const SLOTS: usize = 4;
/// `offsetof(struct user, u_debugreg)` of sys/user.h.
const FIRST: usize = 848;
const CONTROL: usize = FIRST + 7 * 8;

/// The trap addresses of one thread.
pub type DebugSlots = [Option<u64>; SLOTS];

/// Makes a thread trap before the instructions at exactly these addresses.
pub fn set_slots(tid: i32, slots: &DebugSlots) -> Result<(), ControlError> {
    poke(tid, CONTROL, 0)?;
    let mut control = 0;
    for (place, address) in slots.iter().enumerate() {
        if let Some(address) = address {
            poke(tid, FIRST + 8 * place, *address)?;
            // Local enable; type "execution" and its length are zero.
            control |= 1 << (2 * place);
        }
    }
    if control == 0 { Ok(()) } else { poke(tid, CONTROL, control) }
}

fn poke(tid: i32, offset: usize, value: u64) -> Result<(), ControlError> {
    ptrace::poke_user(tid, offset, value).map_err(|error| match ControlError::from_io("", &error) {
        ControlError::Gone => ControlError::Gone,
        _ => ControlError::Exhausted(format!("no hardware breakpoint is available: {error}")),
    })
}

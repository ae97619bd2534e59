//! The debug registers of x86-64: four addresses at which a thread traps, without a byte of ours.
//!
//! They belong to a thread; a new one begins without (arch/x86/kernel/process.c, `copy_thread`).
//! They outlive the tracer, so whoever sets them must clear them.

use super::super::trouble::Trouble;
use monitor_sys::trace;

/// How many there are.
pub const SLOTS: usize = 4;
/// `offsetof(struct user, u_debugreg)` of sys/user.h.
const FIRST: usize = 848;
const CONTROL: usize = FIRST + 7 * 8;

/// The addresses of one thread.
pub type Slots = [Option<u64>; SLOTS];

/// Traps at these addresses before their instruction, and at no others.
pub fn set_slots(tid: i32, slots: &Slots) -> Result<(), Trouble> {
    poke(tid, CONTROL, 0)?;
    let mut control = 0;
    for (place, address) in slots.iter().enumerate() {
        if let Some(address) = address {
            poke(tid, FIRST + 8 * place, *address)?;
            // Local enable; the kind "execution" and its length are zeros.
            control |= 1 << (2 * place);
        }
    }
    if control == 0 { Ok(()) } else { poke(tid, CONTROL, control) }
}

fn poke(tid: i32, offset: usize, value: u64) -> Result<(), Trouble> {
    trace::poke_user(tid, offset, value).map_err(|error| match Trouble::of("", &error) {
        Trouble::Gone => Trouble::Gone,
        _ => Trouble::Exhausted(format!("no hardware breakpoint is to be had: {error}")),
    })
}

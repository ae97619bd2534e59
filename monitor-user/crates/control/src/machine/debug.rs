//! The breakpoints of an x86-64 processor: four addresses at which a thread traps.
//!
//! They belong to a thread; a new thread starts without any (arch/x86/kernel/process.c,
//! `copy_thread`). As perf events they end with this process. Where the system has none for it they
//! are debug registers, which persist after the tracer has ended and then kill the thread.

use crate::ControlError;
use monitor_model::Pid;
use monitor_sys::{perf_event, ptrace};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Number of addresses.
pub const SLOTS: usize = 4;
/// `offsetof(struct user, u_debugreg)` of sys/user.h.
const FIRST: usize = 848;
const CONTROL: usize = FIRST + 7 * 8;

/// The trap addresses of one thread.
pub type DebugSlots = [Option<u64>; SLOTS];

/// The addresses at which one thread traps, and what makes it do so.
#[derive(Debug, Default)]
pub struct DebugTraps {
    slots: DebugSlots,
    events: [Option<OwnedFd>; SLOTS],
    has_registers: bool,
}

impl DebugTraps {
    /// Makes the thread, which is stopped, trap before the instructions at exactly these addresses.
    ///
    /// # Errors
    /// `Exhausted` if the thread has no breakpoint left.
    pub fn set(&mut self, tid: i32, slots: DebugSlots) -> Result<(), ControlError> {
        if self.slots == slots {
            return Ok(());
        }
        if !self.has_registers {
            match self.set_events(tid, &slots) {
                // An older kernel, or one that keeps perf events from this user.
                Err(error) if is_refused(&error) => self.has_registers = true,
                done => {
                    done.map_err(|error| exhausted(&error))?;
                    self.slots = slots;
                    return Ok(());
                }
            }
        }
        self.events = Default::default();
        clear_or_set_registers(tid, &slots)?;
        self.slots = slots;
        Ok(())
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.slots == DebugSlots::default()
    }

    fn set_events(&mut self, tid: i32, slots: &DebugSlots) -> io::Result<()> {
        let changed: Vec<usize> = (0..SLOTS).filter(|n| self.slots[*n] != slots[*n]).collect();
        // All that end come before those that begin: there are no more than four.
        changed.iter().for_each(|n| self.events[*n] = None);
        for n in changed {
            if let Some(address) = slots[n] {
                let thread = Pid(tid.cast_unsigned());
                self.events[n] = Some(perf_event::open_trap(thread, address)?);
            }
        }
        Ok(())
    }
}

fn is_refused(error: &io::Error) -> bool {
    use Errno as E;
    let refusals = [E::INVAL, E::TOOBIG, E::ACCESS, E::PERM, E::NOENT, E::OPNOTSUPP, E::NOSYS];
    Errno::from_io_error(error).is_some_and(|it| refusals.contains(&it))
}

/// Clears the debug registers of a stopped thread, which a tracer before this one may have set.
pub fn clear_registers(tid: i32) -> Result<(), ControlError> {
    clear_or_set_registers(tid, &DebugSlots::default())
}

fn clear_or_set_registers(tid: i32, slots: &DebugSlots) -> Result<(), ControlError> {
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
    ptrace::poke_user(tid, offset, value).map_err(|error| exhausted(&error))
}

fn exhausted(error: &io::Error) -> ControlError {
    match ControlError::from_io("", error) {
        ControlError::Gone => ControlError::Gone,
        _ => ControlError::Exhausted(format!("no hardware breakpoint is available: {error}")),
    }
}

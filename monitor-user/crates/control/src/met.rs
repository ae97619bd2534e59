//! Where threads met the events for which they are held.
//!
//! A thread that a kernel program holds stands a little further than where the event was: behind
//! the probed instruction, or in the code of the kernel's own that the probe leads to. What is read
//! of it is what was there at the event, and what is written comes to be as if it stood there.

use super::act::{Mark, Spot, Tool};
use super::machine::Registers;
use super::trouble::Trouble;
use std::collections::BTreeMap;

/// By thread, and for whom.
#[derive(Default)]
pub struct Met(BTreeMap<(i32, Tool, Mark), Spot>);

impl Met {
    /// A thread is held for an event that it met here.
    pub fn enter(&mut self, tid: i32, (tool, mark): (Tool, Mark), spot: Spot) {
        let _before = self.0.insert((tid, tool, mark), spot);
    }

    /// It is held for that no more.
    pub fn leave(&mut self, tid: i32, (tool, mark): (Tool, Mark)) {
        let _spot = self.0.remove(&(tid, tool, mark));
    }

    /// It goes elsewhere before that.
    pub fn depart(&mut self, tid: i32) {
        self.0.retain(|(own, ..), _| *own != tid);
    }

    /// The tool has gone.
    pub fn forget(&mut self, tool: Tool) {
        self.0.retain(|(_, own, _), _| *own != tool);
    }

    /// The registers of a thread that stands, as they were where it met its event.
    pub fn registers(&self, tid: i32) -> Result<Registers, Trouble> {
        let mut registers = Registers::of(tid)?;
        if let Some(spot) = self.of(tid) {
            registers.stand_at(spot);
        }
        Ok(registers)
    }

    /// Changes them.
    pub fn change(
        &mut self,
        tid: i32,
        change: impl FnOnce(&mut Registers) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let real = Registers::of(tid)?;
        let mut wanted = self.registers(tid)?;
        change(&mut wanted)?;
        if let Some(spot) = self.of(tid) {
            if wanted.pc() == spot.pc {
                // It goes on from where it is; the stack is moved by as much as was asked for.
                let moved = wanted.sp().wrapping_sub(spot.sp);
                wanted.stand_at(Spot { pc: real.pc(), sp: real.sp().wrapping_add(moved) });
            } else {
                self.depart(tid);
            }
        }
        wanted.set(tid)
    }

    fn of(&self, tid: i32) -> Option<Spot> {
        let own = (tid, Tool(0), Mark(0))..=(tid, Tool(u64::MAX), Mark(u64::MAX));
        self.0.range(own).next().map(|(_, spot)| *spot)
    }
}

//! Acts on a thread that stands: its registers, where it goes on, its stack.
//!
//! In: the thread, which is stopped for it if it runs. Out: what was read. Of a thread that an
//! event holds it is what was there at the event.

use super::super::act::{Done, Names};
use super::super::machine::Floats;
use super::super::met::Met;
use super::super::subject::Subject;
use super::super::trace::code;
use super::super::trouble::Trouble;
use super::super::unwind;
use super::{Answer, Worker, done, open, patience};
use monitor_event::thread::Target;

/// Most registers that can be meant.
const REGISTERS: u16 = 64;

impl Worker {
    /// Does something with a thread that stands.
    fn standing<T>(
        &mut self,
        target: &Target,
        act: impl FnOnce(&mut Met, &Subject, i32) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let subject = open(target)?;
        let tid = subject.thread(target)?;
        let mut patience = patience(self.line.as_ref());
        let met = &mut self.met;
        self.traces.look(subject, tid, &mut patience, |traced| act(met, &traced.subject, tid))
    }

    pub(super) fn integers(&mut self, target: &Target, first: u16, count: u16) -> Answer {
        let numbers = numbers(first, count)?;
        let registers = self.standing(target, |met, _, tid| met.registers(tid))?;
        numbers.map(|it| registers.get(it)).collect::<Result<_, _>>().map(Done::Integers)
    }

    pub(super) fn set_integers(&mut self, target: &Target, first: u16, values: &[u64]) -> Answer {
        let numbers = numbers(first, u16::try_from(values.len()).unwrap_or(u16::MAX))?;
        done(self.standing(target, |met, _, tid| {
            met.change(tid, |registers| {
                numbers.zip(values).try_for_each(|(number, value)| registers.put(number, *value))
            })
        }))
    }

    pub(super) fn floats(&mut self, target: &Target, first: u16, count: u16) -> Answer {
        let numbers = numbers(first, count)?;
        let floats = self.standing(target, |_, _, tid| Floats::of(tid))?;
        numbers.map(|it| floats.get(it)).collect::<Result<_, _>>().map(Done::Floats)
    }

    pub(super) fn set_floats(&mut self, target: &Target, first: u16, values: &[f64]) -> Answer {
        let numbers = numbers(first, u16::try_from(values.len()).unwrap_or(u16::MAX))?;
        done(self.standing(target, |_, _, tid| {
            let mut floats = Floats::of(tid)?;
            numbers.zip(values).try_for_each(|(number, value)| floats.put(number, *value))?;
            floats.set(tid)
        }))
    }

    pub(super) fn goto(&mut self, target: &Target, address: u64) -> Answer {
        done(self.standing(target, |met, subject, tid| {
            code(subject, address)?;
            met.change(tid, |registers| {
                registers.set_pc(address);
                Ok(())
            })
        }))
    }

    pub(super) fn backtrace(&mut self, target: &Target, most: u16, names: Names) -> Answer {
        let frames = self.standing(target, |met, subject, tid| {
            unwind::backtrace(subject, &met.registers(tid)?, most)
        })?;
        // The thread runs again while files are read.
        Ok(Done::Frames(unwind::told(&open(target)?, frames, names)))
    }
}

/// Register numbers, of which there are not many.
fn numbers(first: u16, count: u16) -> Result<std::ops::Range<u16>, Trouble> {
    let end = first.checked_add(count).filter(|_| (1..=REGISTERS).contains(&count));
    let end = end.ok_or_else(|| Trouble::Range(format!("1 to {REGISTERS} registers at once")))?;
    Ok(first..end)
}

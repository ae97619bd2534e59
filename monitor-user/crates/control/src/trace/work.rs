//! Work in a process whose threads all stand: see `control::work`.
//!
//! In: a list of deeds, and where no thread may be meanwhile. Out: that all of it was done, or what
//! kept it from being done. The first thread does the calls, one after the other; the others stand
//! until the last has returned.

use super::super::act::What;
use super::super::holder::Cause;
use super::super::machine::Registers;
use super::super::memory;
use super::super::patience::Patience;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::super::unwind;
use super::super::work::{Deed, Term, Work};
use super::errand::Errand;
use super::traced::Traced;
use super::tracee::{Kin, Stands, Tracee};
use super::{Traces, Wish, called};
use monitor_event::thread::Argument;
use std::time::Duration;

/// `syscall` of x86-64.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// For a call that is given up to be put back.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);

impl Traces {
    /// Does all of it, or says why not.
    pub fn work(
        &mut self,
        wish: &Wish,
        subject: Subject,
        work: &Work,
        patience: &mut Patience<'_>,
    ) -> Result<(), Trouble> {
        let traced = self.traced(subject);
        let done = traced
            .still(patience)
            .and_then(|()| traced.apart(work))
            .and_then(|()| traced.perform(wish, &work.deeds, patience));
        for tid in traced.threads.keys().copied().collect::<Vec<_>>() {
            traced.looked(tid);
        }
        traced.shed();
        self.sweep();
        done
    }
}

impl Traced {
    /// Every thread stands, and stays so until it was looked at.
    fn still(&mut self, patience: &mut Patience<'_>) -> Result<(), Trouble> {
        self.seize_all()?;
        let moves =
            |it: &&Tracee| it.kin == Kin::Thread && !(it.asked && it.stands == Stands::Stopped);
        while let Some(tid) = self.threads.values().find(moves).map(|it| it.tid) {
            match self.halt(tid, patience) {
                Ok(()) | Err(Trouble::Gone) => {} // That thread has ended.
                Err(other) => return Err(other),
            }
        }
        if self.threads.is_empty() { Err(Trouble::Gone) } else { Ok(()) }
    }

    /// Whether no thread is where it must not be.
    fn apart(&self, work: &Work) -> Result<(), Trouble> {
        if work.apart.is_empty() && work.at_rest.is_empty() {
            return Ok(());
        }
        for tid in self.threads.keys() {
            let registers = Registers::of(*tid)?;
            let frames = unwind::backtrace(&self.subject, &registers, unwind::MOST)?;
            let is_inside = |pc: u64| work.apart.iter().any(|it| it.contains(&pc));
            let acts = work.at_rest.iter().any(|it| it.contains(&registers.pc()))
                && !self.is_in_call(registers.pc());
            if acts || frames.iter().any(|it| is_inside(it.pc)) {
                return Err(Trouble::state(
                    "a thread is inside the library, or takes memory, and nothing may be changed \
                     under it; ask again when it has come out",
                ));
            }
        }
        Ok(())
    }

    /// Whether the instruction before an address is a system call.
    fn is_in_call(&self, pc: u64) -> bool {
        let before = memory::read(&self.subject, pc.wrapping_sub(2), 2);
        before.is_ok_and(|it| it == SYSTEM_CALL)
    }

    fn perform(
        &mut self,
        wish: &Wish,
        deeds: &[Deed],
        patience: &mut Patience<'_>,
    ) -> Result<(), Trouble> {
        let mut results: Vec<u64> = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Expect(address, word) => {
                    if memory::word(&self.subject, *address)? != *word {
                        return Err(Trouble::state("it has changed meanwhile; ask again"));
                    }
                }
                Deed::Call(procedure, terms) => {
                    let arguments = terms.iter().map(|it| argument(it, &results));
                    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                    results.push(self.call_now(wish, (*procedure, &arguments), patience)?);
                }
                Deed::Succeeded(place) => {
                    // The lower half of the register is the `int`.
                    let code = Term::Result(*place).number(&results)? as u32 as i32;
                    if code < 0 {
                        let why = format!("the library refused with {code}");
                        return Err(Trouble::State(why));
                    }
                }
                Deed::Write { base, offset, value, width } => {
                    let at = base.number(&results)?.wrapping_add(*offset);
                    let bytes = value.number(&results)?.to_le_bytes();
                    memory::write(&self.subject, at, &bytes[..*width.min(&bytes.len())])?;
                }
            }
        }
        Ok(())
    }

    /// The first thread calls a procedure, and stands again when it has returned.
    fn call_now(
        &mut self,
        wish: &Wish,
        call: (u64, &[Argument]),
        patience: &mut Patience<'_>,
    ) -> Result<u64, Trouble> {
        self.may_send(wish.tid, wish.tool)?;
        let way = called(self, wish.tid, call)?;
        let thread = self.threads.get_mut(&wish.tid).ok_or(Trouble::Gone)?;
        thread.late = false;
        let despite = thread.holders.keys().copied().collect();
        thread.errand = Some(Errand { tool: wish.tool, mark: wish.mark, way, despite });
        self.looked(wish.tid);
        let what = self.came_back_from(wish, patience).or_else(|why| {
            self.recall(wish.tid);
            self.came_back_from(wish, &mut Patience::new(GIVEN_UP_WITHIN, None)).or(Err(why))
        })?;
        if let Some(thread) = self.threads.get_mut(&wish.tid) {
            thread.asked = true;
            let _until = thread.holders.remove(&(wish.tool, Cause::Event(wish.mark)));
        }
        match what {
            What::Called(integer, _) => Ok(integer),
            What::Failed(trouble) => Err(trouble),
            _ => Err(Trouble::state("the thread came back from elsewhere")),
        }
    }

    /// What became of the call.
    fn came_back_from(
        &mut self,
        wish: &Wish,
        patience: &mut Patience<'_>,
    ) -> Result<What, Trouble> {
        loop {
            self.collect();
            let own = Some((wish.tool, wish.mark));
            if let Some(place) = self.told.iter().position(|it| it.wanted == own) {
                return Ok(self.told.remove(place).what);
            }
            patience.wait("the return of the procedure")?;
        }
    }
}

fn argument(term: &Term, results: &[u64]) -> Result<Argument, Trouble> {
    match term {
        Term::Bytes(bytes) => Ok(Argument::Bytes(bytes.clone())),
        other => other.number(results).map(Argument::Integer),
    }
}

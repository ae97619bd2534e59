//! Leaving a traced process as it was found: on the way out, or after another hand that died.
//!
//! Bytes come out without anybody's help; debug registers only of a thread that stands. Threads
//! that have nothing of ours are not stopped for it: when the tracer ends, the kernel lets them go.

use super::super::act::Patch;
use super::super::machine::{self, Slots};
use super::super::patience::Patience;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::Traces;
use super::breakpoint;
use super::traced::Traced;
use super::tracee::{Stands, Tracee};
use std::time::Duration;

/// All must run on within a second.
const WITHIN: Duration = Duration::from_millis(300);

/// How often it is looked for threads that kernel programs have stopped.
const LOOK: Duration = Duration::from_millis(2);

/// What becomes of the thread that traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// It ends at once.
    Ends,
    /// It goes on, so everybody must stop once to be let go.
    Stays,
}

impl Traces {
    /// Leaves everything as it was found. As long as kernel programs may stop somebody, threads
    /// that come to one are let go, too.
    pub fn undo(&mut self, tracer: Tracer, programs_run: &mut dyn FnMut() -> bool) {
        for traced in self.0.values_mut() {
            traced.begin_undo(tracer);
        }
        while programs_run() {
            self.0.values_mut().for_each(Traced::collect);
            std::thread::sleep(LOOK);
        }
        let mut patience = Patience::new(WITHIN, None);
        loop {
            self.0.values_mut().for_each(Traced::collect);
            // A thread may have met a byte just before it was taken out, so one more look at least.
            let waited = patience.wait("leaving the processes");
            self.0.values_mut().for_each(Traced::collect);
            if waited.is_err() || !self.0.values().any(|it| it.has_left_something(tracer)) {
                break;
            }
        }
        self.0.clear();
    }

    /// Undoes what another hand, which has died, left in a process.
    pub fn recover(
        &mut self,
        subject: Subject,
        patches: &[Patch],
        patience: &mut Patience<'_>,
    ) -> Result<(), Trouble> {
        for patch in patches {
            breakpoint::restore(&subject, patch)?;
        }
        let traced = self.traced(subject);
        traced.seize_all()?;
        for tid in traced.threads.keys().copied().collect::<Vec<_>>() {
            // A thread that ends meanwhile needs nothing.
            if traced.halt(tid, patience).is_ok() {
                let _ended = machine::set_slots(tid, &Slots::default());
            }
            traced.looked(tid);
        }
        traced.shed();
        self.sweep();
        Ok(())
    }
}

impl Traced {
    fn begin_undo(&mut self, tracer: Tracer) {
        // It fails only if the process has ended.
        let _ended = self.breakpoints.unset(&self.subject, |_| true);
        let _found = self.unwatch(|_| true);
        self.quiet.clear();
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.holders.clear();
                thread.asked = false;
            }
            self.recall(tid);
            self.settle(tid);
        }
        let must_stop = |it: &&mut Tracee| it.has_slots() || tracer == Tracer::Stays;
        for thread in self.threads.values_mut().filter(must_stop) {
            thread.interrupt();
        }
    }

    fn has_left_something(&self, tracer: Tracer) -> bool {
        let left = |it: &Tracee| it.has_slots() || it.errand.is_some() || tracer == Tracer::Stays;
        self.threads.values().any(|it| left(it) || it.stands == Stands::Stopped)
    }

    /// Sets the debug registers of every thread, each of which must stand for it.
    pub fn program(&mut self, patience: &mut Patience<'_>) -> Result<(), Trouble> {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            match self.halt(tid, patience) {
                Ok(()) => {
                    let slots = self.breakpoints.slots(None);
                    let thread = self.threads.get_mut(&tid).ok_or(Trouble::Gone)?;
                    let set = thread.set_slots(slots);
                    self.looked(tid);
                    set?;
                }
                Err(Trouble::Gone) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}

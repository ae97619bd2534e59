//! Threads under ptrace: held, looked at, stepped, sent on errands.
//!
//! ```text
//!  Traces ---> Traced (a process) ---> Tracee (a thread)
//!                stop.rs: what a stop means     onward.rs: where it goes from there
//! ```
//!
//! In: what is wanted of which thread. Out: that it stands, or what happened to it later. Only the
//! thread that made a `Traces` may use it: the kernel knows no other tracer.

mod boundary;
mod breakpoint;
mod errand;
mod onward;
mod stop;
mod traced;
mod tracee;
mod undo;
mod work;

use super::act::{Happened, Mark, Patch, Tool};
use super::holder::Cause;
use super::machine::{self, Registers};
use super::patience::Patience;
use super::subject::{Subject, key, tell};
use super::trouble::Trouble;
use super::unwind;
pub use breakpoint::{Place, TRAP};
use errand::{Errand, Return, Way};
use monitor_event::thread::Argument;
use monitor_model::id::Identity;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use traced::Traced;
pub use undo::Tracer;

/// How long a procedure may take that a thread was made to call.
pub const CALL_AT_MOST: Duration = Duration::from_secs(5);
/// `AT_ENTRY` of getauxval(3).
const ENTRY: u64 = 9;

/// All that is traced.
#[derive(Default)]
pub struct Traces(BTreeMap<Identity, Traced>);

/// Who wants what of which thread.
pub struct Wish {
    /// Who.
    pub tool: Tool,
    /// What he calls it.
    pub mark: Mark,
    /// The thread.
    pub tid: i32,
}

impl Traces {
    /// Looks at a thread while it stands, or changes it.
    pub fn look<T>(
        &mut self,
        subject: Subject,
        tid: i32,
        patience: &mut Patience<'_>,
        act: impl FnOnce(&mut Traced) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let traced = self.traced(subject);
        let done = traced.halt(tid, patience).and_then(|()| act(traced));
        traced.looked(tid);
        self.sweep();
        done
    }

    /// Stops one thread for a tool.
    pub fn hold(
        &mut self,
        tool: Tool,
        subject: Subject,
        tid: i32,
        patience: &mut Patience<'_>,
    ) -> Result<(), Trouble> {
        self.look(subject, tid, patience, |traced| {
            let thread = traced.threads.get_mut(&tid).ok_or(Trouble::Gone)?;
            let _again = thread.holders.insert((tool, Cause::Stop), None);
            Ok(())
        })
    }

    /// Lets go of a thread that the tool stopped.
    pub fn release(&mut self, tool: Tool, id: Identity, tid: i32) -> Result<(), Trouble> {
        let traced = self.0.get_mut(&key(id));
        let traced =
            traced.ok_or_else(|| Trouble::state("this tool has not stopped the thread"))?;
        let released = traced.let_go(tid, (tool, Cause::Stop));
        self.sweep();
        released
    }

    /// Lets a thread go on that an event held; its signal is taken away, or left to it.
    pub fn go_on(&mut self, wish: &Wish, id: Identity, delivers: bool) -> Result<(), Trouble> {
        let traced =
            self.0.get_mut(&key(id)).ok_or_else(|| Trouble::state("nothing is held there"))?;
        let event = (wish.tool, Cause::Event(wish.mark));
        let thread = traced.threads.get_mut(&wish.tid);
        if let Some(thread) = thread.filter(|it| it.holders.contains_key(&event)) {
            thread.heed(delivers);
        }
        let released = traced.let_go(wish.tid, event);
        self.sweep();
        released
    }

    /// Tells when any thread comes to an address.
    pub fn set(
        &mut self,
        subject: Subject,
        place: Place<'_>,
        who: (Tool, Mark),
        patience: &mut Patience<'_>,
    ) -> Result<Option<Patch>, Trouble> {
        let traced = self.traced(subject);
        let set = traced.seize_all().and_then(|()| {
            let patch = traced.breakpoints.set(&traced.subject, &place, who)?;
            if patch.is_none() { traced.program(patience).map(|()| patch) } else { Ok(patch) }
        });
        if set.is_err() {
            let _ended = traced.breakpoints.unset(&traced.subject, |it| *it == who);
            traced.shed();
        }
        self.sweep();
        set
    }

    /// Holds any thread that a kernel program stops, for this tool.
    pub fn watch(&mut self, subject: Subject, who: (Tool, Mark)) -> Result<(), Trouble> {
        let traced = self.traced(subject);
        let seized = traced.seize_all();
        if seized.is_ok() {
            let _again = traced.watches.insert(who);
        }
        traced.shed();
        self.sweep();
        seized
    }

    /// Forgets what a tool wanted under this name.
    pub fn unset(&mut self, who: (Tool, Mark), id: Identity) -> Result<(), Trouble> {
        let nothing = || Trouble::state("nothing of this name is set in the process");
        let traced = self.0.get_mut(&key(id)).ok_or_else(nothing)?;
        let mut found = traced.unwatch(|it| *it == who);
        found |= traced.breakpoints.unset(&traced.subject, |it| *it == who)? > 0;
        let out = traced
            .threads
            .values()
            .filter(|thread| thread.errand.as_ref().is_some_and(|it| (it.tool, it.mark) == who));
        for tid in out.map(|thread| thread.tid).collect::<Vec<_>>() {
            traced.recall(tid);
            found = true;
        }
        traced.shed();
        self.sweep();
        if found { Ok(()) } else { Err(nothing()) }
    }

    /// One instruction.
    pub fn step(&mut self, wish: &Wish, subject: Subject, patience: &mut Patience<'_>) -> Sent {
        self.send(wish, subject, patience, |_| Ok(Way::Step))
    }

    /// One instruction, calls as a whole.
    pub fn next(&mut self, wish: &Wish, subject: Subject, patience: &mut Patience<'_>) -> Sent {
        self.send(wish, subject, patience, |_| {
            let registers = Registers::of(wish.tid)?;
            Ok(Way::Next { pc: registers.pc(), sp: registers.sp() })
        })
    }

    /// Until the current procedure has returned.
    pub fn finish(&mut self, wish: &Wish, subject: Subject, patience: &mut Patience<'_>) -> Sent {
        self.send(wish, subject, patience, |traced| {
            let (address, sp) = unwind::caller(&traced.subject, &Registers::of(wish.tid)?)?;
            Ok(Way::Back { address, sp, told: Return::Value })
        })
    }

    /// Makes a thread call a procedure.
    pub fn call(
        &mut self,
        wish: &Wish,
        subject: Subject,
        (procedure, arguments): (u64, &[Argument]),
        patience: &mut Patience<'_>,
    ) -> Sent {
        self.send(wish, subject, patience, |traced| {
            called(traced, wish.tid, (procedure, arguments))
        })
    }

    fn send(
        &mut self,
        wish: &Wish,
        subject: Subject,
        patience: &mut Patience<'_>,
        way: impl FnOnce(&mut Traced) -> Result<Way, Trouble>,
    ) -> Sent {
        self.look(subject, wish.tid, patience, |traced| {
            traced.may_send(wish.tid, wish.tool)?;
            let way = way(traced)?;
            let thread = traced.threads.get_mut(&wish.tid).ok_or(Trouble::Gone)?;
            thread.late = false;
            let despite = thread.holders.keys().copied().collect();
            thread.errand = Some(Errand { tool: wish.tool, mark: wish.mark, way, despite });
            Ok(())
        })
    }

    /// The bytes of ours in a process.
    pub fn patches(&self, id: Identity) -> Vec<Patch> {
        self.0.get(&key(id)).map(|it| it.breakpoints.patches()).unwrap_or_default()
    }

    /// The program's own bytes change under ours.
    pub fn overwrite(&mut self, id: Identity, address: u64, bytes: &[u8]) {
        if let Some(traced) = self.0.get_mut(&key(id)) {
            traced.breakpoints.overwrite(address, bytes);
        }
    }

    /// Whether the stops of a child of ours are for us to wait for.
    pub fn has(&self, tid: i32) -> bool {
        self.0.values().any(|it| it.threads.contains_key(&tid))
    }

    /// Whether a thread stands for a kernel program.
    pub fn has_caught(&self, id: Identity, tid: i32) -> bool {
        let thread = self.0.get(&key(id)).and_then(|traced| traced.threads.get(&tid));
        thread.is_some_and(|it| it.caught.is_some())
    }

    /// Whether a thread of the process is out for us.
    pub fn is_out(&self, id: Identity) -> bool {
        let traced = self.0.get(&key(id));
        traced.is_some_and(|it| it.threads.values().any(|thread| thread.errand.is_some()))
    }

    /// Takes in what has happened, and ends what is past its time.
    pub fn turn(&mut self, told: &mut Vec<Happened>) {
        let now = Instant::now();
        for traced in self.0.values_mut() {
            traced.collect();
            traced.expire(now);
            told.append(&mut traced.told);
        }
        self.sweep();
    }

    /// When something is past its time next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(Traced::next).min()
    }

    /// A tool has gone.
    pub fn forget(&mut self, tool: Tool) {
        self.0.values_mut().for_each(|traced| traced.forget(tool));
        self.sweep();
    }

    fn traced(&mut self, subject: Subject) -> &mut Traced {
        self.0.entry(key(subject.id)).or_insert_with(|| Traced::new(subject))
    }

    /// What is traced no more and has nothing to tell.
    fn sweep(&mut self) {
        self.0.retain(|_, traced| !traced.threads.is_empty() || !traced.told.is_empty());
    }
}

/// Makes a stopped thread begin a procedure.
fn called(
    traced: &Traced,
    tid: i32,
    (procedure, arguments): (u64, &[Argument]),
) -> Result<Way, Trouble> {
    let subject = &traced.subject;
    // Nobody comes a second time to where the program began.
    let auxv = tell("reading its auxiliary vector", subject.proc()?.auxv())?;
    let address = *auxv.get(&ENTRY).ok_or_else(|| Trouble::state("it has no entry"))?;
    let before = machine::begin(subject, tid, (procedure, address), arguments)?;
    let until = Instant::now() + CALL_AT_MOST;
    Ok(Way::Call { address, before: Box::new(before), until })
}

/// Refuses an address at which there is no code.
pub fn code(subject: &Subject, address: u64) -> Result<(), Trouble> {
    breakpoint::code_at(subject, address).map(|_| ())
}

/// Whether a thread was sent out.
pub type Sent = Result<(), Trouble>;

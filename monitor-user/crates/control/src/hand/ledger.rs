//! What a hand has done and not undone, kept where it survives the hand.
//!
//! In: acts with their answers, and what happened. Out: the acts that undo all of it.

use super::super::act::{Act, Done, Dump, Happened, Mark, Method, Patch, Tool, What};
use super::super::subject::key;
use super::super::trouble::Trouble;
use monitor_event::thread::Target;
use monitor_model::id::Identity;
use monitor_sys::pidfd::Held;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};

const CONTINUE: u32 = Signal::CONT.as_raw().cast_unsigned();

/// What is held and set.
#[derive(Default)]
pub struct Ledger {
    entries: BTreeMap<Identity, Entry>,
    /// Whom CRIU has in its hands, for whom: it goes on without the tool, and without the hand.
    moves: BTreeMap<(Tool, Mark), Move>,
}

enum Move {
    Dumped(Identity, Dump),
    Restored,
}

#[derive(Default)]
struct Entry {
    /// For whom, and for which event of which thread, if it is for one.
    stopped: BTreeMap<(Tool, Option<(Mark, Target)>), Method>,
    /// Kernel programs may have stopped it.
    guarded: BTreeSet<(Tool, Mark)>,
    /// Threads of it were traced, and may have debug registers of ours.
    traced: BTreeSet<Tool>,
    patches: Vec<Patch>,
}

impl Ledger {
    /// An act is asked for. What it begins may have begun although nobody answers.
    pub fn ask(&mut self, tool: Tool, act: &Act) {
        let (mark, begun) = match act {
            Act::Dump(target, mark, dump) => (*mark, Move::Dumped(target.process, dump.clone())),
            Act::Restore(mark, _) => (*mark, Move::Restored),
            _ => return,
        };
        let _none = self.moves.insert((tool, mark), begun);
    }

    /// An act was answered.
    pub fn enter(&mut self, tool: Tool, act: &Act, answer: &Result<Done, Trouble>) {
        match (act, answer) {
            (Act::Stop(Target { process, thread: None }), Ok(Done::Stopped(method))) => {
                let _again = self.entry(*process).stopped.insert((tool, None), method.clone());
            }
            (Act::Start(program), Ok(Done::Started(id))) if program.stopped => {
                let _none = self.entry(*id).stopped.insert((tool, None), Method::Signal);
            }
            (Act::Continue(Target { process, thread: None }), Ok(_)) => {
                let _held = self.entry(*process).stopped.remove(&(tool, None));
            }
            (Act::Catch(target, mark, _), Ok(Done::Stopped(method))) => {
                let holder = (tool, Some((*mark, *target)));
                let _again = self.entry(target.process).stopped.insert(holder, method.clone());
            }
            (Act::Release(target, mark), _) => {
                let _held =
                    self.entry(target.process).stopped.remove(&(tool, Some((*mark, *target))));
            }
            (Act::Watch(target, mark), _) => {
                let _again = self.entry(target.process).guarded.insert((tool, *mark));
            }
            (Act::Unset(target, mark), _) => {
                let _found = self.entry(target.process).guarded.remove(&(tool, *mark));
            }
            (Act::Break(target, ..), Ok(Done::Placed(patch))) => {
                let entry = self.entry(target.process);
                let _again = entry.traced.insert(tool);
                entry.patches.extend(patch.filter(|it| !entry.patches.contains(it)));
            }
            (
                Act::Next(target, ..) | Act::Finish(target, ..) | Act::Call(target, ..),
                Ok(Done::It),
            ) => {
                let _again = self.entry(target.process).traced.insert(tool);
            }
            (Act::Dump(_, mark, _) | Act::Restore(mark, _), Err(_)) => {
                let _asked = self.moves.remove(&(tool, *mark));
            }
            (Act::Forget, _) => self.forget(tool),
            _ => {}
        }
        self.entries.retain(|_, entry| !entry.is_empty());
    }

    /// What has ended needs no undoing.
    pub fn happened(&mut self, happened: &Happened) {
        let id = key(happened.target.process);
        if matches!(happened.what, What::Dumped | What::Restored | What::Failed(_)) {
            let _over = happened.wanted.and_then(|who| self.moves.remove(&who));
        }
        match (&happened.what, happened.wanted, self.entries.get_mut(&id)) {
            (What::Ended | What::Dumped, ..) => _ = self.entries.remove(&id),
            (What::Overdue(_) | What::Failed(_), Some((tool, mark)), Some(entry)) => {
                let _held = entry.stopped.remove(&(tool, Some((mark, happened.target))));
            }
            _ => {}
        }
        self.entries.retain(|_, entry| !entry.is_empty());
    }

    /// Lets run what our own rights reach; it does no harm to do it twice.
    pub fn undo_here(&self) {
        for (id, entry) in &self.entries {
            for method in entry.stopped.values() {
                let _refused = match method {
                    Method::Freezer(folder) => std::fs::write(folder.join("cgroup.freeze"), "0"),
                    Method::Already | Method::Trace => Ok(()),
                    Method::Signal => Held::open(id.pid).and_then(|it| it.signal(CONTINUE)),
                };
            }
        }
    }

    /// The same for those who were dumped, where no other hand can wait until CRIU is done.
    pub fn undo_dumps_here(&self) {
        for (id, _) in self.dumped() {
            let _refused = Held::open(id.pid).and_then(|it| it.signal(CONTINUE));
        }
    }

    fn dumped(&self) -> impl Iterator<Item = (Identity, &Dump)> {
        self.moves.values().filter_map(|it| match it {
            Move::Dumped(id, dump) => Some((*id, dump)),
            Move::Restored => None,
        })
    }

    /// What another hand does to undo it all.
    pub fn acts(&self) -> Vec<Act> {
        let settle = |(id, dump): (Identity, &Dump)| Act::Settle(id, dump.clone());
        let mut acts: Vec<Act> = self.dumped().map(settle).collect();
        for (id, entry) in &self.entries {
            if !entry.traced.is_empty() {
                acts.push(Act::Recover(*id, entry.patches.clone()));
            }
            if entry.stopped.values().any(|it| *it == Method::Signal) {
                acts.push(Act::Kill(Target::from(*id), Signal::CONT.as_raw()));
            }
        }
        acts
    }

    /// What says that no program stops anybody any more, and who says it.
    pub fn without_programs(&self) -> Vec<(Tool, Act)> {
        let unset = |id: Identity, (tool, mark): (Tool, Mark)| (tool, Act::Unset(id.into(), mark));
        let guarded = |(id, entry): (&Identity, &Entry)| {
            let id = *id;
            entry.guarded.iter().map(move |who| unset(id, *who)).collect::<Vec<_>>()
        };
        self.entries.iter().flat_map(guarded).collect()
    }

    /// That nothing is held any more, for those who held it.
    pub fn ended(&self) -> Vec<Happened> {
        let told = |id: Identity, wanted| Happened {
            target: Target::from(id),
            wanted,
            what: What::Failed(Trouble::HandLost),
        };
        let held = self.entries.keys().map(|id| told(*id, None));
        let moves = self.moves.iter().map(|(who, it)| match it {
            Move::Dumped(id, _) => told(*id, Some(*who)),
            Move::Restored => told(Identity::default(), Some(*who)),
        });
        held.chain(moves).collect()
    }

    fn entry(&mut self, id: Identity) -> &mut Entry {
        self.entries.entry(key(id)).or_default()
    }

    /// Bytes stay in the list: putting back what is back already changes nothing. So do those who
    /// are dumped: that goes on without the tool.
    fn forget(&mut self, tool: Tool) {
        for entry in self.entries.values_mut() {
            entry.stopped.retain(|(own, _), _| *own != tool);
            entry.guarded.retain(|(own, _)| *own != tool);
            let _traced = entry.traced.remove(&tool);
        }
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.stopped.is_empty() && self.traced.is_empty() && self.guarded.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Ns, Pid};

    const ID: Identity = Identity { pid: Pid(7), start: Ns(10_000_000) };
    const ONE: Tool = Tool(1);
    const OTHER: Tool = Tool(2);

    #[test]
    fn what_nobody_holds_any_more_needs_no_undoing() {
        let mut ledger = Ledger::default();
        let (stop, go) = (Act::Stop(ID.into()), Act::Continue(ID.into()));
        let stopped = Ok(Done::Stopped(Method::Signal));
        ledger.enter(ONE, &stop, &stopped);
        ledger.enter(OTHER, &stop, &stopped);
        ledger.enter(ONE, &go, &Ok(Done::It));
        assert_eq!(ledger.acts(), [Act::Kill(ID.into(), 18)]);
        ledger.enter(OTHER, &go, &Err(Trouble::Gone));
        assert_eq!(ledger.acts().len(), 1, "it was not let go");
        ledger.enter(OTHER, &go, &Ok(Done::It));
        assert_eq!(ledger.acts(), []);
    }

    #[test]
    fn what_a_program_stopped_is_let_go_unless_its_event_is_over() {
        let (mut ledger, mark) = (Ledger::default(), Mark(5));
        let spot = crate::Spot { pc: 1, sp: 2 };
        let stopped = Ok(Done::Stopped(Method::Signal));
        ledger.enter(ONE, &Act::Catch(ID.into(), mark, spot), &stopped);
        ledger.enter(ONE, &Act::Stop(ID.into()), &stopped);
        let thread = Identity { pid: Pid(8), ..ID };
        let second = Target { thread: Some(thread), ..ID.into() };
        ledger.enter(ONE, &Act::Catch(second, mark, spot), &stopped);
        ledger.enter(ONE, &Act::Release(second, mark), &Ok(Done::It));
        let of_first = (ONE, Some((mark, ID.into())));
        assert!(ledger.entry(ID).stopped.contains_key(&of_first), "its first thread is not let go");
        let release = Act::Release(ID.into(), mark);
        ledger.enter(ONE, &release, &Ok(Done::It));
        assert_eq!(ledger.acts(), [Act::Kill(ID.into(), 18)], "it is stopped for the tool itself");
        ledger.enter(ONE, &Act::Continue(ID.into()), &Ok(Done::It));
        ledger.enter(ONE, &Act::Catch(ID.into(), mark, spot), &stopped);
        let what = What::Overdue(std::time::Duration::ZERO);
        let (target, wanted) = (ID.into(), Some((ONE, mark)));
        ledger.happened(&Happened { target, wanted, what });
        assert!(ledger.entries.is_empty());
        // Whom a program may stop, is looked after even if nothing was done to him yet.
        ledger.enter(ONE, &Act::Watch(ID.into(), mark), &Err(Trouble::Busy { tracer: 1 }));
        assert_eq!(ledger.ended().len(), 1);
        ledger.enter(ONE, &Act::Unset(ID.into(), mark), &Ok(Done::It));
        assert!(ledger.entries.is_empty());
    }

    #[test]
    fn a_byte_is_put_back_by_the_next_hand() {
        let mut ledger = Ledger::default();
        let patch = Patch { address: 16, original: 0x55 };
        let set = Act::Break(ID.into(), 16, Mark(3));
        ledger.enter(ONE, &set, &Ok(Done::Placed(Some(patch))));
        assert_eq!(ledger.acts(), [Act::Recover(ID, vec![patch])]);
        ledger.enter(ONE, &Act::Forget, &Ok(Done::It));
        assert_eq!(ledger.acts(), []);
    }

    #[test]
    fn a_move_is_settled_and_told_although_its_tool_has_gone_and_nobody_has_answered() {
        let (mut ledger, mark) = (Ledger::default(), Mark(4));
        let dump = Dump { folder: "/images".into(), name: "7-1".into() };
        let (leave, come) =
            (Act::Dump(ID.into(), mark, dump.clone()), Act::Restore(Mark(5), dump.clone()));
        ledger.ask(ONE, &leave);
        ledger.ask(ONE, &come);
        ledger.enter(ONE, &Act::Forget, &Ok(Done::It));
        assert_eq!(ledger.acts(), [Act::Settle(ID, dump)]);
        let lost = |id: Identity, mark| Happened {
            target: id.into(),
            wanted: Some((ONE, mark)),
            what: What::Failed(Trouble::HandLost),
        };
        assert_eq!(ledger.ended(), [lost(ID, mark), lost(Identity::default(), Mark(5))]);
        // Begun is not over; refused is, and done.
        ledger.enter(ONE, &leave, &Ok(Done::It));
        ledger.enter(ONE, &come, &Err(Trouble::Gone));
        assert_eq!(ledger.ended(), [lost(ID, mark)]);
        ledger.happened(&Happened { what: What::Dumped, ..lost(ID, mark) });
        assert_eq!((ledger.ended(), ledger.acts()), (Vec::new(), Vec::new()));
    }
}

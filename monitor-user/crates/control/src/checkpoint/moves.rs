//! Dumps and restores that go on: CRIU takes longer than an act may.
//!
//! In: what shall be dumped or restored, for whom. Out: that it is, or why not. A process that is
//! dumped stands until it is written down whole, and is ended then; whatever goes wrong before, it
//! runs on, also when nobody listens any more.

use super::super::act::{Dump, Happened, Mark, Tool, What};
use super::super::subject::{Subject, key};
use super::super::trouble::Trouble;
use super::come::Come;
use super::criu::LOOK;
use super::leave::{Leave, MayGo};
use super::settle::Settle;
use monitor_event::thread::Target;
use monitor_model::id::Identity;
use std::time::Instant;

/// All that go on.
#[derive(Default)]
pub struct Moves(Vec<Move>);

enum Move {
    Leaves((Tool, Mark), Leave),
    Comes((Tool, Mark), Come),
    /// Begun by a hand that has died.
    Settles(Settle),
}

impl Moves {
    /// Begins to dump a process.
    pub fn dump(
        &mut self,
        who: (Tool, Mark),
        subject: Subject,
        dump: &Dump,
    ) -> Result<(), Trouble> {
        self.0.push(Move::Leaves(who, Leave::begin(subject, dump)?));
        Ok(())
    }

    /// Begins to restore one.
    pub fn restore(&mut self, who: (Tool, Mark), dump: &Dump) -> Result<(), Trouble> {
        self.0.push(Move::Comes(who, Come::begin(dump)?));
        Ok(())
    }

    /// Lets a process run when the CRIU of another hand is done with it.
    pub fn settle(&mut self, id: Identity, dump: &Dump) -> Result<(), Trouble> {
        self.0.push(Move::Settles(Settle::begin(id, dump)?));
        Ok(())
    }

    /// Whether a process is being dumped.
    pub fn has(&self, id: Identity) -> bool {
        let is_it = |it: &Move| matches!(it, Move::Leaves(_, it) if key(it.subject.id) == key(id));
        self.0.iter().any(is_it)
    }

    /// Takes in how far they are; who is dumped is asked once more whether it may go.
    pub fn turn(&mut self, may_go: MayGo<'_>, told: &mut Vec<Happened>) {
        let now = Instant::now();
        self.0.retain_mut(|it| match it {
            Move::Leaves(who, it) => {
                let what = it.turn(may_go, now).map(|what| (it.subject.id, what));
                goes_on(*who, what, told)
            }
            Move::Comes(who, it) => goes_on(*who, it.turn(now), told),
            Move::Settles(it) => !it.turn(now),
        });
    }

    /// When to look again.
    pub fn next(&self) -> Option<Instant> {
        (!self.0.is_empty()).then(|| Instant::now() + LOOK)
    }

    /// Lets who is being dumped run on, and who is being restored come.
    pub fn undo(&mut self) {
        for it in std::mem::take(&mut self.0) {
            match it {
                Move::Leaves(_, it) => it.undo(),
                Move::Comes(_, it) => it.undo(),
                Move::Settles(it) => it.undo(),
            }
        }
    }
}

/// Whether nothing has come of it yet; else it is told.
fn goes_on(who: (Tool, Mark), what: Option<(Identity, What)>, told: &mut Vec<Happened>) -> bool {
    let Some((process, what)) = what else { return true };
    told.push(Happened { target: Target::from(process), wanted: Some(who), what });
    false
}

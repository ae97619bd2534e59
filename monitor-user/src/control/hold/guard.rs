//! Processes that kernel programs may stop: whoever writes down that one was may die before.
//!
//! In: which they are, and for whom. Out: those that stand are let run, as long as the programs may
//! still be there. A program sends its signal before anybody in user space knows of it.

use super::super::act::{Mark, Tool};
use super::super::subject::{Subject, key};
use crate::model::id::Identity;
use std::collections::{BTreeMap, BTreeSet};

/// All of them.
#[derive(Default)]
pub struct Guards(BTreeMap<Identity, Guard>);

struct Guard {
    subject: Subject,
    whose: BTreeSet<(Tool, Mark)>,
}

impl Guards {
    /// From now on a program may stop it.
    pub fn add(&mut self, subject: Subject, who: (Tool, Mark)) {
        let id = key(subject.id);
        let fresh = || Guard { subject, whose: BTreeSet::new() };
        let _again = self.0.entry(id).or_insert_with(fresh).whose.insert(who);
    }

    /// The program has gone; whether there was any.
    pub fn remove(&mut self, who: (Tool, Mark), id: Identity) -> bool {
        let guard = self.0.get_mut(&key(id));
        let found = guard.is_some_and(|guard| guard.whose.remove(&who));
        self.0.retain(|_, guard| !guard.whose.is_empty());
        found
    }

    /// The tool has gone.
    pub fn forget(&mut self, tool: Tool) {
        self.0.values_mut().for_each(|guard| guard.whose.retain(|who| who.0 != tool));
        self.0.retain(|_, guard| !guard.whose.is_empty());
    }

    /// Whether a program may stop it.
    pub fn has(&self, id: Identity) -> bool {
        self.0.contains_key(&key(id))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets run those that stand.
    pub fn let_run(&self) {
        for guard in self.0.values() {
            guard.subject.let_run();
        }
    }
}

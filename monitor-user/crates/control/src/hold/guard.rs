//! Processes that kernel programs may stop: whoever writes down that one was may die before.
//!
//! In: which they are, and for whom. Out: those that stand are let run, as long as the programs may
//! still be there. A program sends its signal before anybody in user space knows of it; so whoever
//! was left alone a moment ago may have been stopped, and nobody has read that.

use super::super::act::{Mark, Tool};
use super::super::subject::{Subject, key};
use monitor_model::id::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long what a program has done may stay unread after it was taken away, or has ended.
pub const UNREAD_FOR: Duration = Duration::from_secs(2);

/// All of them.
#[derive(Default)]
pub struct Guards {
    guarded: BTreeMap<Identity, Guard>,
    /// Those whose programs were taken away, and when.
    left: Vec<(Instant, Subject)>,
}

struct Guard {
    subject: Subject,
    whose: BTreeSet<(Tool, Mark)>,
}

impl Guards {
    /// From now on a program may stop it.
    pub fn add(&mut self, subject: Subject, who: (Tool, Mark)) {
        let id = key(subject.id);
        let fresh = || Guard { subject, whose: BTreeSet::new() };
        let _again = self.guarded.entry(id).or_insert_with(fresh).whose.insert(who);
    }

    /// The program has gone; whether there was any.
    pub fn remove(&mut self, who: (Tool, Mark), id: Identity) -> bool {
        let guard = self.guarded.get_mut(&key(id));
        let found = guard.is_some_and(|guard| guard.whose.remove(&who));
        self.leave_unguarded();
        found
    }

    /// The tool has gone.
    pub fn forget(&mut self, tool: Tool) {
        self.guarded.values_mut().for_each(|guard| guard.whose.retain(|who| who.0 != tool));
        self.leave_unguarded();
    }

    fn leave_unguarded(&mut self) {
        let now = Instant::now();
        self.left.retain(|(since, _)| now.duration_since(*since) < UNREAD_FOR);
        let gone = self.guarded.extract_if(.., |_, guard| guard.whose.is_empty());
        self.left.extend(gone.map(|(_, guard)| (now, guard.subject)));
    }

    /// Whether a program may stop it.
    pub fn has(&self, id: Identity) -> bool {
        self.guarded.contains_key(&key(id))
    }

    /// Whether nobody is, nor was a moment ago.
    pub fn is_empty(&self) -> bool {
        self.guarded.is_empty() && self.left.iter().all(|(since, _)| since.elapsed() >= UNREAD_FOR)
    }

    /// Lets run those that stand.
    pub fn let_run(&self) {
        let left = self.left.iter().filter(|(since, _)| since.elapsed() < UNREAD_FOR);
        let guarded = self.guarded.values().map(|guard| &guard.subject);
        guarded.chain(left.map(|(_, subject)| subject)).for_each(Subject::let_run);
    }
}

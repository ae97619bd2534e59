//! Programs that a process executes and libraries that it loads later: it is scanned again. Its
//! children get probes.
//!
//! In: records of an exec, and of the function that dynamic linkers call for debuggers before and
//! after they load something (`r_brk` of `struct r_debug`, link.h). Out: the taps are set in what
//! is new. Calls until then are missed unless the process is held: see `exec_hold`, `image_hold`.

use super::unseen_calls::{ProbeGap, UnseenCalls};
use super::{Edge, Taps, fork_watch::ForkWatch};
use monitor_backend::rule::insn::{Insn, RecordOptions};
use monitor_backend::{rule::HookPoint, rule::rule_record::RuleRecord as Record};
use monitor_event::tap::Tap;
use monitor_model::{Identity, Pid};
use monitor_symbols::function_spec::LINKER_HOOK;
use monitor_sys::{clock, pidfd::PidFd};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

impl Taps {
    /// Watches for new images while there are taps or tap programs.
    pub(super) fn watch_images(&mut self) {
        let own = Arc::new(Tap::new(LINKER_HOOK, Edge::Start));
        let had_it = self.taps.contains_key(&own);
        self.watch_new_images(&own);
        let new = self.watch_targets();
        if self.taps.contains_key(&own) {
            let unscanned = if had_it { new } else { self.included.clone() };
            unscanned.into_iter().for_each(|pid| self.scan_for_tap(&own, pid));
        }
    }

    fn watch_new_images(&mut self, own: &Arc<Tap>) {
        if self.programs.is_empty() && self.taps.keys().all(|tap| tap == own) {
            self.remove(own);
            if let Some(list) = self.exec_watch.take() {
                self.rules.remove(list);
            }
            return;
        }
        _ = self.taps.entry(Arc::clone(own)).or_default();
        if self.exec_watch.is_none() {
            let urgent = RecordOptions { urgent: true, ..RecordOptions::default() };
            match self.add_program(HookPoint::Exec, vec![Insn::Record(urgent)]) {
                Ok(list) => self.exec_watch = Some(list),
                Err(error) => tracing::warn!(%error, "processes are not scanned after exec"),
            }
        }
    }

    /// Whether a record means that a process has a new image.
    pub(super) fn is_image_change(&self, record: &Record) -> bool {
        self.is_of_linker(record) || self.exec_watch == Some(record.program)
    }

    /// Whether a record is of the hook.
    pub(super) fn is_of_linker(&self, record: &Record) -> bool {
        self.meanings.get(&record.program).is_some_and(|(tap, ..)| tap.name == LINKER_HOOK)
    }

    /// Watches the images and the forks of exactly the processes with taps or tap programs; returns
    /// those that are new.
    pub(super) fn watch_targets(&mut self) -> BTreeSet<Pid> {
        let programs = self.programs.values();
        let mut targets: BTreeSet<Pid> =
            programs.flat_map(|it| it.program.pids.iter().copied()).collect();
        targets.extend(&self.watched);
        for gone in self.included.difference(&targets) {
            self.rules.exclude(self.set, *gone);
        }
        let unhooked = Vec::from_iter(self.included.difference(&targets).copied());
        unhooked.into_iter().for_each(|pid| self.note_unhooked(pid));
        let new = &targets - &self.included;
        for came in &new {
            // A process that has ended is not included, and has no functions.
            if let Err(error) = self.rules.include(self.set, *came) {
                tracing::warn!("calls of process {} are not seen: {error}", came.0);
            }
        }
        self.included.clone_from(&targets);
        self.watch_forks(if self.has_taps() { targets } else { BTreeSet::new() });
        new
    }

    fn watch_forks(&mut self, parents: BTreeSet<Pid>) {
        if parents.is_empty() {
            if let Some(unused) = self.fork_watch.take() {
                unused.remove(&mut *self.rules);
            }
            return;
        }
        let watch = match self.fork_watch.take() {
            Some(watch) => Ok(watch),
            None => ForkWatch::new(&mut *self.rules),
        };
        let watch = watch.and_then(|mut watch| {
            watch.set_parents(&mut *self.rules, parents)?;
            Ok(watch)
        });
        match watch {
            Ok(watch) => self.fork_watch = Some(watch),
            Err(error) => tracing::warn!(%error, "calls of new children are not seen"),
        }
    }

    /// Sets the probes of a process that the kernel has added to a set; returns how many, or why
    /// they are refused.
    pub(super) fn set_probes(&mut self, pid: Pid) -> Result<usize, String> {
        let set = self.rules.set_probes(pid).map_err(|error| error.to_string());
        let refused = set.as_ref().err();
        // A fork storm has one cause for thousands of children.
        if let Some(why) = refused.filter(|_| refused != self.last_refusal.as_ref()) {
            tracing::warn!("calls of process {} and others are not seen: {why}", pid.0);
        }
        self.last_refusal = refused.cloned();
        set
    }

    /// Sets the probes of a process that may have none since a record.
    pub fn end_gap(&mut self, watched: Identity, record: &Record) -> Option<UnseenCalls> {
        let pid = record.process.pid;
        let gap = match self.set_probes(pid) {
            Ok(0) if has_ended(pid) && !self.probe_locations().is_empty() => ProbeGap::Ended,
            // Nothing is watched in it.
            Ok(0) => return None,
            Ok(_) => ProbeGap::Before(Duration::from_nanos(clock::boot().since(record.at).0)),
            Err(why) => ProbeGap::Refused(why),
        };
        Some(UnseenCalls { pid, watched, gap })
    }
}

fn has_ended(pid: Pid) -> bool {
    PidFd::open(pid).map_or(true, |it| it.has_ended())
}

//! Programs that a process executes and libraries that it loads later: it is scanned again. Its
//! children get probes.
//!
//! In: records of an exec, and of the function that dynamic linkers call for debuggers before and
//! after they load something (`r_brk` of `struct r_debug`, link.h). Out: the taps are set in what
//! is new. The process is not held: calls until then are not seen. See `exec_hold` for that.

use super::unseen_calls::{ProbeGap, UnseenCalls};
use super::{Edge, Taps, fork_watch::ForkWatch};
use monitor_backend::rule::insn::{Insn, RecordOptions};
use monitor_backend::{rule::HookPoint, rule::rule_record::RuleRecord as Record};
use monitor_event::tap::Tap;
use monitor_model::{Identity, Pid};
use monitor_sys::{clock, pidfd::PidFd};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Its name in the linkers of glibc and musl, and of Android. Both in one name that no client
/// writes, so that it is never a tap of a client.
const LINKER_HOOK: &str = "_dl_debug_state|rtld_db_dlactivity";

impl Taps {
    /// Watches for new images while there are taps.
    pub(super) fn watch_images(&mut self) {
        self.watch_new_images();
        self.watch_forks();
    }

    fn watch_new_images(&mut self) {
        let own = Arc::new(Tap::new(LINKER_HOOK, Edge::Start));
        if self.taps.keys().all(|tap| *tap == own) {
            self.remove(&own);
            if let Some(list) = self.exec_watch.take() {
                self.rules.remove(list);
            }
            return;
        }
        _ = self.taps.entry(own).or_default();
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
        let of_linker =
            self.meanings.get(&record.program).is_some_and(|(tap, ..)| tap.name == LINKER_HOOK);
        of_linker || self.exec_watch == Some(record.program)
    }

    /// Watches the forks of exactly the processes with taps.
    pub(super) fn watch_forks(&mut self) {
        let programs = self.programs.values();
        let mut parents: BTreeSet<Pid> =
            programs.flat_map(|it| it.program.pids.iter().copied()).collect();
        if !self.taps.is_empty() {
            parents.extend(&self.watched);
        }
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

    /// Sets the probes of a process that has none since a record of the fork watch.
    pub(super) fn end_gap(&mut self, watched: Identity, record: &Record) -> Option<UnseenCalls> {
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

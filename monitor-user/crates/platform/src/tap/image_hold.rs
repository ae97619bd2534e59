//! Libraries that a process loads: its thread is held at the hook of the dynamic linker until the
//! taps are in them. Without that, the time until then is reported.
//!
//! ```text
//!  the hook --- record, stop of a traced thread --> scan --> the thread is due to be released
//!                    \-- no tracer -------------> scan --> calls were not seen for this time
//! ```
//!
//! A library is mapped when the hook is called, and its constructors have not run. A process is to
//! be traced only while a watched function is missing in it: a library that the probes know gets
//! them from the kernel as it is mapped.

use super::Taps;
use super::library_loads::{LoadStop, Loading};
use super::unseen_calls::{ProbeGap, UnseenCalls};
use monitor_backend as backend;
use monitor_backend::rule::insn::{Insn, RecordOptions};
use monitor_backend::rule::rule_record::{RuleRecord as Record, StopScope};
use monitor_backends::procfs;
use monitor_event::tap::Tap;
use monitor_model::{Identity, Ns, Pid};
use monitor_symbols::function_spec::LINKER_HOOK;
use monitor_sys::clock;
use std::collections::BTreeSet;
use std::time::Duration;

impl Taps {
    /// What is done at the hook: record the call, and stop the thread if its process is traced.
    pub(super) fn hook_insns(&mut self) -> Result<Vec<Insn>, backend::Error> {
        let stop = Some(self.loads.sets(&mut *self.rules)?);
        Ok(vec![Insn::Record(RecordOptions { urgent: true, stop, ..RecordOptions::default() })])
    }

    /// From now on threads of exactly these processes stop at the hook: they are traced.
    pub fn set_traced(&mut self, traced: BTreeSet<Pid>) {
        let Ok(sets) = self.loads.sets(&mut *self.rules) else { return };
        for gone in self.loads.traced.difference(&traced) {
            self.rules.exclude(sets.traced, *gone);
        }
        for came in traced.difference(&self.loads.traced) {
            // One that has ended is not included, and loads nothing.
            match self.rules.include(sets.traced, *came) {
                Ok(()) => tracing::info!(pid = came.0, "held while it loads a library"),
                Err(error) => tracing::debug!(pid = came.0, %error, "not held"),
            }
        }
        self.loads.traced = traced;
    }

    /// Whether a process does not have the function of a tap: it may load it.
    pub fn is_missing(&self, tap: &Tap, pid: Pid) -> bool {
        self.loads.missing.keys().any(|(name, own)| *own == pid && name == tap)
    }

    /// The processes that lack a watched function, and that the hook reports when they load it.
    pub fn processes_with_missing(&mut self) -> BTreeSet<Pid> {
        let (taps, programs) = (&self.taps, &self.programs);
        let watched = &self.watched;
        self.loads.missing.retain(|(tap, pid), _| {
            let of_tap = taps.get(tap).is_some_and(|it| match &it.processes {
                Some(own) => own.pids.contains(pid),
                None => watched.contains(pid),
            });
            of_tap || programs.values().any(|it| *it.tap == *tap && it.program.pids.contains(pid))
        });
        let lacking = self.loads.missing.keys().map(|(_, pid)| *pid);
        lacking.filter(|pid| self.loads.hooked.contains(pid)).collect()
    }

    /// Threads that were stopped at the hook since the last call.
    pub fn take_load_stops(&mut self) -> Vec<LoadStop> {
        std::mem::take(&mut self.loads.stops)
    }

    /// Processes that have probes in all that they had mapped when they were stopped at the hook.
    pub fn take_scanned(&mut self) -> BTreeSet<Pid> {
        std::mem::take(&mut self.loads.scanned)
    }

    /// A thread that was stopped at the hook runs before its process was scanned.
    pub fn load_stop_ended(&mut self, pid: Pid) {
        if let Some(loading) = self.loads.loading.get_mut(&pid) {
            loading.missed_since = loading.missed_since.or_else(|| Some(clock::boot()));
        }
    }

    /// Notes a call of the hook.
    pub(super) fn note_load(&mut self, record: &Record) {
        let process = record.process;
        if record.stopped == StopScope::Thread {
            self.loads.stops.push(LoadStop { process, tid: record.tid, at: record.at });
            _ = self.note_loading(process);
        } else {
            self.note_missed(process, record.at);
        }
    }

    /// A process may have loaded something since then.
    fn note_missed(&mut self, process: Identity, since: Ns) {
        let loading = self.note_loading(process);
        loading.missed_since = loading.missed_since.or(Some(since));
    }

    fn note_loading(&mut self, process: Identity) -> &mut Loading {
        if let Some(answers) = &mut self.answers {
            answers.maps_changed(process.pid);
        }
        let fresh = Loading { process, missed_since: None, has_new: false };
        self.loads.loading.entry(process.pid).or_insert(fresh)
    }

    /// A process is held by other means while it is scanned.
    pub(super) fn forget_load(&mut self, pid: Pid) {
        _ = self.loads.loading.remove(&pid);
    }

    /// A process has the function of a tap, or does not have it.
    pub(super) fn note_found(&mut self, tap: &Tap, pid: Pid, is_found: bool) {
        if tap.name == LINKER_HOOK {
            return;
        }
        let key = (tap.clone(), pid);
        if is_found {
            _ = self.loads.missing.remove(&key);
        } else {
            _ = self.loads.missing.insert(key, clock::boot());
        }
    }

    /// The hook has its probe in a process.
    pub(super) fn note_hooked(&mut self, pid: Pid, is_new_place: bool) {
        if self.loads.hooked.insert(pid) || is_new_place {
            _ = self.loads.newly_hooked.insert(pid);
        }
    }

    /// The hook does not report what this process loads any more.
    pub(super) fn note_unhooked(&mut self, pid: Pid) {
        _ = self.loads.hooked.remove(&pid);
        self.forget_load(pid);
    }

    /// Ends the scans of processes about which no question is open. What lacks a function is
    /// scanned again once the hook has its probe: it may have loaded something before that.
    pub(super) fn finish_scans(&mut self) {
        for pid in std::mem::take(&mut self.loads.newly_hooked) {
            let missing = self.loads.missing.iter().filter(|((_, own), _)| *own == pid);
            let since = missing.map(|(_, since)| *since).min();
            let (Some(since), Some(start)) = (since, procfs::start_time(pid)) else { continue };
            self.note_missed(Identity { pid, start }, since);
            self.scan(pid);
        }
        self.end_scans();
    }

    /// A function has its probes at a new place.
    pub(super) fn note_new_site(&mut self, tap: &Tap, pid: Pid) {
        if let Some(loading) = self.loads.loading.get_mut(&pid) {
            loading.has_new |= tap.name != LINKER_HOOK;
        }
    }

    fn end_scans(&mut self) {
        let answers = self.answers.as_ref();
        let is_scanned = |pid: &Pid| answers.is_none_or(|it| !it.is_asked(*pid));
        let ended = self.loads.loading.extract_if(.., |pid, _| is_scanned(pid));
        for (pid, loading) in ended.collect::<Vec<_>>() {
            _ = self.loads.scanned.insert(pid);
            if let Some(since) = loading.missed_since.filter(|_| loading.has_new) {
                let time = Duration::from_nanos(clock::boot().since(since).0);
                let gap = ProbeGap::Library(time);
                self.unseen.push(UnseenCalls { pid, watched: loading.process, gap });
            }
        }
    }
}

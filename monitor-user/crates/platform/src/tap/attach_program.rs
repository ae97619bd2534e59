//! Attaches the programs of a rule wherever its processes have the function.
//!
//! In: a tap program with its processes, which may be more than before. Out: programs at the sites
//! that are new. A process in which that is refused is reported: its calls are not seen.

use super::attach::{FoundSite, unsupported};
use super::tap_program::{AttachedProgram, AttachedSite, TapProgram};
use super::unseen_calls::{ProbeGap, UnseenCalls};
use super::{TapError, Taps, is_absent};
use monitor_backends::procfs;
use monitor_model::{Identity, Pid};
use std::collections::{BTreeSet, HashMap};
use std::{sync::Arc, task::Poll};

impl Taps {
    /// Attaches a tap program to its function, or replaces what it does.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses it, or if it cannot be attached in any of the processes. If it
    /// can be attached in some, calls of the others are reported as not seen.
    pub fn add_program_at_calls(
        &mut self,
        number: u64,
        program: TapProgram,
    ) -> Result<(), TapError> {
        let mut pids = program.pids.clone();
        let attached_program = match self.programs.remove(&number) {
            Some(mut known) => {
                pids = &pids - &known.program.pids;
                known.refused_in.retain(|pid| program.pids.contains(pid));
                AttachedProgram { program, ..known }
            }
            None => {
                let tap = Arc::new(program.tap.clone());
                AttachedProgram { program, tap, sites: HashMap::new(), refused_in: BTreeSet::new() }
            }
        };
        let done = self.replace_insns(&attached_program);
        let is_new = pids.len() == attached_program.program.pids.len();
        let _none = self.programs.insert(number, attached_program);
        self.watch_images();
        done?;
        self.scan_for_new_program(number, (pids, is_new))
    }

    /// Looks for the function of a tap program in processes that are new to it.
    fn scan_for_new_program(
        &mut self,
        number: u64,
        (pids, are_all): (BTreeSet<Pid>, bool),
    ) -> Result<(), TapError> {
        let mut refused = Vec::new();
        let n_pids = pids.len();
        for pid in pids {
            match self.scan_for_program(number, pid) {
                Ok(()) => {}
                Err(TapError::Kernel(error)) if are_all => return Err(error.into()),
                Err(error) => refused.push((pid, error)),
            }
        }
        if are_all
            && refused.len() == n_pids
            && let Some((_, error)) = refused.pop()
        {
            return Err(error);
        }
        for (pid, error) in refused {
            self.note_refused(number, pid, &error);
        }
        Ok(())
    }

    /// Notes that a process does not get the probes of a tap program.
    fn note_refused(&mut self, number: u64, pid: Pid, error: &TapError) {
        let Some(attached) = self.programs.get_mut(&number) else { return };
        // It is scanned each time it loads something.
        if attached.refused_in.insert(pid)
            && let Some(start) = procfs::start_time(pid)
        {
            let gap = ProbeGap::Refused(format!("{}: {error}", attached.tap.name));
            self.unseen.push(UnseenCalls { pid, watched: Identity { pid, start }, gap });
        }
    }

    /// Removes a tap program.
    pub fn remove_program(&mut self, number: u64) {
        for attached in self.programs.remove(&number).into_iter().flat_map(|it| it.sites) {
            self.detach(attached.1);
        }
        self.watch_images();
    }

    /// How often its programs have run.
    pub fn program_runs(&self, number: u64) -> u64 {
        let places = self.programs.get(&number).into_iter().flat_map(|it| it.sites.values());
        let programs = places.flat_map(AttachedSite::edge_programs);
        programs.map(|list| self.rules.run_counts(list).runs).sum()
    }

    /// Looks for the functions of tap programs in a process.
    pub(super) fn scan_for_programs(&mut self, pid: Pid) {
        let meant = self.programs.iter().filter(|(_, it)| it.program.pids.contains(&pid));
        for number in meant.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Err(error) = self.scan_for_program(number, pid) {
                self.note_refused(number, pid, &error);
            }
        }
    }

    fn scan_for_program(&mut self, number: u64, pid: Pid) -> Result<(), TapError> {
        match self.attach_in_process(number, pid) {
            Err(TapError::Symbol(error)) if is_absent(&error) => {
                if let Some(tap) = self.programs.get(&number).map(|it| Arc::clone(&it.tap)) {
                    self.note_absence(&tap, pid, &error);
                }
                Ok(())
            }
            done => done,
        }
    }

    fn attach_in_process(&mut self, number: u64, pid: Pid) -> Result<(), TapError> {
        let Some(attached_program) = self.programs.get(&number) else { return Ok(()) };
        let (tap, program) = (Arc::clone(&attached_program.tap), attached_program.program.clone());
        let Poll::Ready(found) = self.find_calls(&tap, pid) else { return Ok(()) };
        let found = found?;
        self.note_found(&tap, pid, true);
        for site in &found.sites {
            let location = (site.file.identity, site.offset);
            let is_there = |it: &AttachedProgram| it.sites.contains_key(&location);
            if self.programs.get(&number).is_some_and(is_there) {
                continue;
            }
            let site = FoundSite { site, pid };
            let attached = self.attach_program((&tap, number), &program, site)?;
            if let Some(attached_program) = self.programs.get_mut(&number) {
                let _none = attached_program.sites.insert(location, attached);
            }
            self.note_new_site(&tap, pid);
        }
        Ok(())
    }

    /// Replaces the instructions of the programs that are attached.
    fn replace_insns(&mut self, attached_program: &AttachedProgram) -> Result<(), TapError> {
        for list in attached_program.sites.values().flat_map(AttachedSite::edge_programs) {
            let Some(plan) = self.meanings.get(&list).map(|(_, plan, _)| Arc::clone(plan)) else {
                continue;
            };
            let insns = (attached_program.program.make_insns)(&plan).map_err(unsupported)?;
            self.rules.replace(list, &insns)?;
        }
        Ok(())
    }
}

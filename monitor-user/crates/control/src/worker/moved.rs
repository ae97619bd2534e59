//! Acts on processes that leave and come.
//!
//! In: a process, or the files of one. Out: whether it may go; that a dump is begun. What we have
//! in a process would be dumped with it, so who holds or traces it comes first.

use super::super::act::{Done, Dump, Mark, Site, Tool};
use super::super::checkpoint;
use super::super::hold::Holds;
use super::super::patience::Patience;
use super::super::site;
use super::super::subject::Subject;
use super::super::trace::Traces;
use super::super::trouble::Trouble;
use super::{Answer, Worker, done, open};
use monitor_event::thread::Target;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

/// How long the check of CRIU may take: it tries what it needs of the kernel.
const CHECK_AT_MOST: Duration = Duration::from_secs(5);

impl Worker {
    /// Whether CRIU works here.
    pub(super) fn check(&mut self) -> Answer {
        let line = self.line.as_ref().map(|it| it.as_fd());
        let mut patience = Patience::new(CHECK_AT_MOST, line);
        self.criu.version(&mut patience).map(Done::Version)
    }

    /// Whether it works, and nothing of the process would be lost.
    pub(super) fn lossless(&mut self, target: &Target) -> Answer {
        let version = self.check()?;
        checkpoint::is_lossless(&open(target)?)?;
        Ok(version)
    }

    /// Whether it works, and the process may go, to this folder.
    pub(super) fn movable(&mut self, target: &Target, folder: &Path) -> Answer {
        let version = self.check()?;
        self.ours().may_begin(&open(target)?)?;
        checkpoint::takes(folder)?;
        Ok(version)
    }

    /// Begins to dump it, if it may go still.
    pub(super) fn dump(&mut self, who: (Tool, Mark), target: &Target, dump: &Dump) -> Answer {
        let subject = open(target)?;
        self.ours().may_begin(&subject)?;
        done(self.moves.dump(who, subject, dump))
    }

    /// Refuses what would be done to one that CRIU has in its hands.
    pub(super) fn is_here(&self, subject: &Subject) -> Result<(), Trouble> {
        match self.moves.has(subject.id) {
            true => Err(Trouble::state("the process is on its way to another node")),
            false => Ok(()),
        }
    }

    /// Takes in how far those are that leave and come.
    pub(super) fn turn_moves(&mut self) {
        let ours = Ours { holds: &self.holds, traces: &self.traces, sites: &self.sites };
        self.moves.turn(&|subject| ours.may_go(subject), &mut self.told);
    }

    fn ours(&self) -> Ours<'_> {
        Ours { holds: &self.holds, traces: &self.traces, sites: &self.sites }
    }
}

/// What we have in processes.
struct Ours<'a> {
    holds: &'a Holds,
    traces: &'a Traces,
    sites: &'a [Site],
}

impl Ours<'_> {
    /// Whether CRIU may begin: who stands would be taken for one that it has stopped.
    fn may_begin(&self, subject: &Subject) -> Result<(), Trouble> {
        self.may_go(subject)?;
        match subject.stat()?.state {
            'T' | 't' => {
                Err(Trouble::State(format!("process {} is stopped: let it go on", subject.pid())))
            }
            _ => Ok(()),
        }
    }

    /// Refuses one that somebody here, or anybody else, has something in.
    fn may_go(&self, subject: &Subject) -> Result<(), Trouble> {
        let of_kernel = site::patches(subject, self.sites, &(0..u64::MAX))?;
        let is_traced = subject.threads().iter().any(|(tid, _)| self.traces.has(*tid));
        if self.holds.has(subject.id) || is_traced || !of_kernel.is_empty() {
            let pid = subject.pid();
            return Err(Trouble::State(format!(
                "a tool has stopped process {pid}, or has breakpoints or probes in it: let it go \
                 on, and disable these, at ready_to_migrate at the latest"
            )));
        }
        let status = subject.proc()?.status();
        let status = status.map_err(|_| Trouble::Gone)?;
        if let Ok(tracer @ 1..) = u32::try_from(status.tracerpid) {
            return Err(Trouble::Busy { tracer });
        }
        checkpoint::is_free(subject)
    }
}

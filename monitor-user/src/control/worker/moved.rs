//! Acts on processes that leave and come.
//!
//! In: a process, or the files of one. Out: whether it may go; that a dump is begun. What we have
//! in a process would be dumped with it, so who holds or traces it comes first.

use super::super::act::{Done, Dump, Mark, Target, Tool};
use super::super::checkpoint;
use super::super::patience::Patience;
use super::super::site;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::{Answer, Worker, done, open};
use std::os::fd::AsFd as _;
use std::time::Duration;

/// How long the check of CRIU may take: it tries what it needs of the kernel.
const CHECK_AT_MOST: Duration = Duration::from_secs(5);

impl Worker {
    /// Whether CRIU works here.
    pub(super) fn check(&self) -> Answer {
        let line = self.line.as_ref().map(|it| it.as_fd());
        let mut patience = Patience::new(CHECK_AT_MOST, line);
        checkpoint::check(&mut patience).map(Done::Version)
    }

    /// Whether it works, and nothing of the process would be lost.
    pub(super) fn lossless(&self, target: &Target) -> Answer {
        let version = self.check()?;
        checkpoint::is_lossless(&open(target)?)?;
        Ok(version)
    }

    /// Whether it works, and the process may go.
    pub(super) fn movable(&self, target: &Target) -> Answer {
        let version = self.check()?;
        let subject = open(target)?;
        self.is_ours(&subject)?;
        checkpoint::is_free(&subject)?;
        Ok(version)
    }

    /// Begins to dump it, if it may go still.
    pub(super) fn dump(&mut self, who: (Tool, Mark), target: &Target, dump: &Dump) -> Answer {
        let subject = open(target)?;
        self.is_ours(&subject)?;
        checkpoint::is_free(&subject)?;
        done(self.moves.dump(who, subject, dump))
    }

    /// Refuses one that somebody here, or anybody else, has something in.
    fn is_ours(&self, subject: &Subject) -> Result<(), Trouble> {
        let of_kernel = site::patches(subject, &self.sites, &(0..u64::MAX))?;
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
        match status.state.starts_with(['T', 't']) {
            true => {
                Err(Trouble::State(format!("process {} is stopped: let it go on", subject.pid())))
            }
            false => Ok(()),
        }
    }
}

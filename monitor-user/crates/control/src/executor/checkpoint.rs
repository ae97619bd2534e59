//! Checkpoint requests: checks, dump, restore.
//!
//! In: a process, or its dump. Out: whether it can be dumped; that a dump has started. A process
//! that a tool holds, traces or probes is refused: breakpoints and stops would be dumped with it.

use super::{Answer, Executor, done, open};
use crate::{
    ControlError, DumpLocation, ProbeLocation, RequestTag, ToolId, WorkerReply, checkpoint,
    deadline::DeadlineWait, process_ref::ProcessRef, stop::StopTable, trace::Tracer,
    uprobe_patches,
};
use monitor_event::Target;
use std::{os::fd::AsFd as _, path::Path, time::Duration};

/// Most time of `criu check`, which tries the kernel features that it needs.
const CHECK_AT_MOST: Duration = Duration::from_secs(5);

impl Executor {
    /// Checks that CRIU works here.
    pub(super) fn check_criu(&mut self) -> Answer {
        let peer = self.peer.as_ref().map(|it| it.as_fd());
        let mut deadline = DeadlineWait::new(CHECK_AT_MOST, peer);
        self.criu.version(&mut deadline).map(WorkerReply::CriuVersion)
    }

    /// Checks that CRIU works and a dump of the process would lose nothing.
    pub(super) fn check_lossless(&mut self, target: &Target) -> Answer {
        let version = self.check_criu()?;
        checkpoint::check_lossless(&open(target)?)?;
        Ok(version)
    }

    /// Checks that CRIU works and the process can be moved through this folder.
    pub(super) fn check_movable(&mut self, target: &Target, folder: &Path) -> Answer {
        let version = self.check_criu()?;
        self.interference().check_dump_start(&open(target)?)?;
        checkpoint::prepare_folder(folder)?;
        Ok(version)
    }

    /// Starts a dump, if the process can still be moved.
    pub(super) fn dump(
        &mut self,
        requester: (ToolId, RequestTag),
        target: &Target,
        dump: &DumpLocation,
    ) -> Answer {
        let process = open(target)?;
        self.interference().check_dump_start(&process)?;
        done(self.checkpoint_jobs.dump(requester, process, dump))
    }

    /// Refuses requests on a process that is being dumped.
    pub(super) fn check_not_moving(&self, process: &ProcessRef) -> Result<(), ControlError> {
        match self.checkpoint_jobs.contains(process.id) {
            true => Err(ControlError::wrong_state("the process is being dumped")),
            false => Ok(()),
        }
    }

    /// Polls running dumps and restores.
    pub(super) fn poll_checkpoints(&mut self) {
        let interference =
            Interference { stops: &self.stops, tracer: &self.tracer, probes: &self.probes };
        self.checkpoint_jobs.poll(&|process| interference.check_unused(process), &mut self.events);
    }

    fn interference(&self) -> Interference<'_> {
        Interference { stops: &self.stops, tracer: &self.tracer, probes: &self.probes }
    }
}

/// What this user worker has stopped, traced and probed.
struct Interference<'a> {
    stops: &'a StopTable,
    tracer: &'a Tracer,
    probes: &'a [ProbeLocation],
}

impl Interference<'_> {
    /// Whether CRIU may start: a stopped process looks like one that CRIU has stopped.
    fn check_dump_start(&self, process: &ProcessRef) -> Result<(), ControlError> {
        self.check_unused(process)?;
        match process.stat()?.state {
            'T' | 't' => Err(ControlError::WrongState(format!(
                "process {} is stopped; resume it first",
                process.pid()
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a process that a tool or another tracer uses.
    fn check_unused(&self, process: &ProcessRef) -> Result<(), ControlError> {
        let of_kernel = uprobe_patches::patches(process, self.probes, &(0..u64::MAX))?;
        let is_held_alone = process.threads().iter().any(|(tid, _)| self.tracer.traces(*tid));
        if self.stops.contains(process.id) || is_held_alone || !of_kernel.is_empty() {
            let pid = process.pid();
            return Err(ControlError::WrongState(format!(
                "a tool has stopped process {pid} or has breakpoints or probes in it; continue it \
                 and disable them, at ready_to_migrate at the latest"
            )));
        }
        let status = process.procfs()?.status();
        let status = status.map_err(|_| ControlError::Gone)?;
        if let Ok(tracer @ 1..) = u32::try_from(status.tracerpid) {
            return Err(ControlError::AlreadyTraced { tracer });
        }
        checkpoint::check_movable(process)
    }
}

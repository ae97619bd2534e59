//! The ranks of a launcher in the background, for the statuses of their ends.
//!
//! In: the folder where the output of the launcher is kept, which its environment and that of its
//! ranks names. Out: the id of their job, and how each rank has ended, where the kernel says so to
//! another process than the parent (Linux 6.15). They are looked for a few times, at growing
//! intervals: ranks that end before are not found.

use super::reader::{JobReader, jobs_of};
use monitor_backend::BackendChoice;
use monitor_control::host_protocol::{EndedRank, OUTPUT_FOLDER};
use monitor_control::output_log::LOOK_AGAIN;
use monitor_control::process_ref::ProcessRef;
use monitor_jobs::ParallelJob;
use monitor_sys::pidfd::PidFd;
use procfs::process::Process;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// From the start of the launcher to the first look, and how much later each further one is.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LATER: u32 = 2;
/// Most looks.
const LOOKS: u32 = 12;

/// The ranks that were found.
#[derive(Debug, Default)]
pub struct LaunchedRanks {
    ranks: BTreeMap<u32, ProcessRef>,
}

impl LaunchedRanks {
    /// The times between looks.
    pub fn pauses() -> impl Iterator<Item = Duration> {
        (0..LOOKS).map(|look| FIRST_LOOK * LATER.pow(look))
    }

    /// Looks for ranks; the job, if it is there, and whether all of its ranks here are.
    pub fn find(&mut self, folder: &Path) -> Option<(ParallelJob, bool)> {
        // What cannot be read now is read at the next look.
        let sample = JobReader::open_once(BackendChoice::Procfs).ok()?.read().ok()?;
        let is_of = |it: &ParallelJob| folder_of(it).as_deref() == Some(folder);
        let job = jobs_of(&sample).into_iter().find(is_of)?;
        for rank in &job.ranks {
            // It may have ended.
            if let Ok(process) = ProcessRef::open(rank.process) {
                let _known = self.ranks.entry(rank.rank).or_insert(process);
            }
        }
        let here = u32::try_from(self.ranks.len()).unwrap_or(u32::MAX);
        let is_complete = job.local_size.is_some_and(|size| here >= size);
        Some((job, is_complete))
    }

    /// How they ended: neither code nor signal where that is not known by this time.
    pub fn ends(&self, namespace: &str, until: Instant) -> Vec<EndedRank> {
        let end = |(rank, process): (&u32, &ProcessRef)| {
            let status = reaped(&process.pidfd, until);
            EndedRank {
                namespace: namespace.to_owned(),
                rank: Some(*rank),
                code: status.and_then(|it| it.code()),
                signal: status.and_then(|it| it.signal()),
            }
        };
        let ended = self.ranks.iter().filter(|(_, it)| it.pidfd.has_ended());
        ended.map(end).collect()
    }
}

/// How a process that has ended did so, once its parent has reaped it.
pub fn reaped(process: &PidFd, until: Instant) -> Option<ExitStatus> {
    loop {
        let status = process.status().map(ExitStatus::from_raw);
        if status.is_some() || Instant::now() >= until {
            return status;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The folder where the output of the launcher of a job is kept, if it is.
pub fn folder_of(job: &ParallelJob) -> Option<PathBuf> {
    let first = job.ranks.first().map(|it| it.process);
    let variable = |pid: u32| {
        let environ = Process::new(pid.cast_signed()).and_then(|it| it.environ()).ok()?;
        environ.get(OsStr::new(OUTPUT_FOLDER)).map(PathBuf::from)
    };
    // A server that starts several jobs may itself have been started by a launch.
    first.into_iter().chain(job.launcher).find_map(|it| variable(it.pid.0))
}

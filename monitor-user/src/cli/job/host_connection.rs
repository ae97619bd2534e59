//! A connection to the PMIx host of a job that `job launch -n` has started, or to the process that
//! keeps the output of a launcher in the background.
//!
//! In: a job, a request. Out: answers of the host, on a socket in the folder of the job, which is
//! closed to other users. A host that keeps the output of a job that has ended is found by the id;
//! that of a launcher, by the pid of the launcher and by the id of the launch as well.

use super::launched_ranks::folder_of;
use super::launcher_host::NAMES;
use super::reader::{JobReader, jobs_of, named_ranks};
use crate::cli::exit::{Exit, Failure};
use monitor_backend::BackendChoice;
use monitor_control::host_protocol::{HostAnswer, HostRequest, socket_path};
use monitor_control::job_folder::{id_of, ids, path_of};
use monitor_jobs::{ParallelJob, RankSet, Runtime};
use monitor_pmix::rendezvous::FOLDER;
use procfs::process::Process;
use rustix::net::UCred;
use rustix::net::sockopt::socket_peercred;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Longest answer, bytes: a part of the output is much shorter.
const LONGEST: u64 = 16 << 20;

/// How the ids of launches begin.
pub const LAUNCH: &str = "launch-";

/// A host.
pub struct HostConnection {
    /// The id of its job, or of the launch.
    pub id: String,
    /// The ranks that the user names; all, if none.
    pub ranks: Option<RankSet>,
    folder: PathBuf,
    /// The user of the job.
    uid: u32,
    /// The service that hosts it, if it is a session.
    service: Option<i32>,
}

impl HostConnection {
    /// The host of a job that runs, or of one that has ended and whose output is kept.
    ///
    /// # Errors
    /// If there is no such job, or no host of it.
    pub fn find(written: &str) -> Result<Self, Failure> {
        let sample = JobReader::open_once(BackendChoice::Procfs)?.read()?;
        let jobs = jobs_of(&sample);
        match named_ranks(&jobs, written, &sample) {
            Ok((job, ranks)) => {
                let ranks = written.contains(':').then(|| ranks.iter().map(|it| it.rank).collect());
                // It may have ended since it was found.
                Self::of_job(job, ranks).or_else(|why| Self::kept(written).ok_or(why))
            }
            Err(why) => Self::kept(written).ok_or(why),
        }
    }

    /// That of a job.
    ///
    /// # Errors
    /// If it has another runtime.
    pub fn of_job(job: &ParallelJob, ranks: Option<RankSet>) -> Result<Self, Failure> {
        let id = job.id.to_string();
        let uid = job.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let first = job.ranks.first().map(|it| it.process.pid.0.cast_signed());
        if job.runtime != Runtime::Native {
            let folder = folder_of(job).and_then(|it| Some((id_of(&it)?.to_owned(), it)));
            let Some((id, folder)) = folder else {
                let title = job.runtime.title();
                return Err(Failure::usage(format!(
                    "job {id}: its launcher ({title}) was not started by `job launch \
                     --background`, which keeps output"
                )));
            };
            let service = job.daemon.filter(|_| job.runtime == Runtime::Session);
            let service = service.and_then(|it| parent_of(it.pid.0));
            let first = first.filter(|_| job.runtime == Runtime::Session);
            return Ok(Self { id, ranks, folder: seen_by(first, folder), uid, service });
        }
        let environ = first.and_then(|pid| Process::new(pid).and_then(|it| it.environ()).ok());
        let folder = environ.as_ref().and_then(|it| it.get(OsStr::new(FOLDER)));
        let folder = folder.map_or_else(|| path_of(&std::env::temp_dir(), &id), PathBuf::from);
        Ok(Self { id, ranks, folder: seen_by(first, folder), uid, service: None })
    }

    /// That of a job that has ended, by its whole id; of a launch, also by the pid of the launcher,
    /// and before there is a rank.
    fn kept(written: &str) -> Option<Self> {
        let (id, ranks) = match written.split_once(':') {
            Some((id, ranks)) => (id, Some(ranks.parse().ok()?)),
            None => (written, None),
        };
        if Path::new(id).components().count() != 1 {
            return None;
        }
        let parent = std::env::temp_dir();
        let uid = rustix::process::geteuid().as_raw();
        let own = |id: &str| {
            let folder = path_of(&parent, id);
            let found = std::fs::symlink_metadata(&folder);
            found.is_ok_and(|it| it.is_dir() && it.uid() == uid).then_some(folder)
        };
        let is_named = |folder: &Path| {
            let names = std::fs::read_to_string(folder.join(NAMES)).unwrap_or_default();
            names.lines().any(|it| it == id)
        };
        let launch = || {
            let ids = ids(&parent, LAUNCH).into_iter();
            ids.filter_map(|id| Some((own(&id)?, id))).find(|(folder, _)| is_named(folder))
        };
        let (folder, id) = own(id).map(|it| (it, id.to_owned())).or_else(launch)?;
        Some(Self { id, ranks, folder, uid, service: None })
    }

    /// Sends a request, and gives each answer to the function, until that returns `false`.
    ///
    /// # Errors
    /// If the host does not answer, or refuses.
    pub fn ask(
        &self,
        request: &HostRequest,
        mut answered: impl FnMut(HostAnswer) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let lost = |error| {
            let message = format!("job {}: its host does not answer: {error}", self.id);
            Failure { message, exit: Exit::NoTarget }
        };
        let folder = File::open(&self.folder).map_err(lost)?;
        let mut stream = UnixStream::connect(socket_path(&folder)).map_err(lost)?;
        let peer = socket_peercred(&stream).map_err(|it| lost(it.into()))?;
        if !self.is_host(&peer) {
            let why = format!("job {}: its host is a process of user {}", self.id, peer.uid);
            return Err(Failure::failed(why));
        }
        let mut line = serde_json::to_vec(request).map_err(Failure::failed)?;
        line.push(b'\n');
        match stream.write_all(&line) {
            // A host that is busy answers before the request.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            other => other.map_err(lost)?,
        }
        let mut lines = BufReader::new(stream);
        loop {
            line.clear();
            if lines.by_ref().take(LONGEST).read_until(b'\n', &mut line).map_err(lost)? == 0 {
                return Err(lost(ErrorKind::UnexpectedEof.into()));
            }
            match serde_json::from_slice(&line).map_err(Failure::failed)? {
                HostAnswer::Refused(why) => {
                    return Err(Failure::failed(format!("job {}: {why}", self.id)));
                }
                answer => {
                    if !answered(answer)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether the process at the other end of a socket is the host: one of the user of the job, or
    /// the service of a session. The user of the job may have named a socket of root, which root
    /// would take for that of the job.
    fn is_host(&self, peer: &UCred) -> bool {
        let (uid, own) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
        let is_service = self.service == Some(peer.pid.as_raw_nonzero().get());
        uid == self.uid || is_service || (uid == 0 && own == self.uid)
    }

    /// Sends a request that has one answer.
    ///
    /// # Errors
    /// As [`HostConnection::ask`].
    pub fn ask_once(&self, request: &HostRequest) -> Result<HostAnswer, Failure> {
        let mut only = HostAnswer::Done;
        self.ask(request, |answer| {
            only = answer;
            Ok(false)
        })?;
        Ok(only)
    }
}

/// A folder as a rank sees it: the host may have another root or other mounts, as below a service
/// with a /tmp of its own.
fn seen_by(rank: Option<i32>, folder: PathBuf) -> PathBuf {
    let seen = rank.zip(folder.strip_prefix("/").ok());
    let seen = seen.map(|(pid, rest)| PathBuf::from(format!("/proc/{pid}/root")).join(rest));
    seen.filter(|it| it.is_dir()).unwrap_or(folder)
}

/// The parent of a process.
fn parent_of(pid: u32) -> Option<i32> {
    Process::new(pid.cast_signed()).and_then(|it| it.stat()).ok().map(|it| it.ppid)
}

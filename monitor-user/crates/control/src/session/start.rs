//! Starts a launcher, with the directory of its session and the pipes of its program.
//!
//! In: a user. Out: the process, its socket, and the service's ends of three pipes. The directory
//! is made with the rights of the user, and only the user may enter it.

use super::cgroup::{PREFIX, SessionCgroups};
use super::error::{Refusal, SessionError};
use super::message::LaunchCommand;
use super::stored_files::StoredFiles;
use crate::user_worker::frame::frame;
use crate::user_worker::process::spawn;
use crate::user_worker::{User, WorkerRole};
use monitor_model::Pid;
use monitor_sys::{fsuid, random};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::DirBuilder;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// How many names are tried for the directory of a session.
const NAME_TRIES: usize = 8;
/// How long the end of a launcher is awaited that has just begun.
const DROP_TIME: Duration = Duration::from_millis(200);
/// The pause between checks of that.
const LOOK: Duration = Duration::from_millis(2);

/// A launcher.
#[derive(Debug)]
pub struct Launcher {
    /// Its process.
    pub process: LauncherProcess,
    /// The socket to it; does not block.
    pub socket: UnixStream,
    /// The directory of the session.
    pub folder: PathBuf,
    /// Its files.
    pub stored: StoredFiles,
    /// The cgroups that it and all that it starts are in.
    pub cgroups: SessionCgroups,
}

/// The process of a launcher, a child of this one; ended on drop.
#[derive(Debug)]
pub struct LauncherProcess {
    child: Child,
    is_reaped: bool,
}

impl LauncherProcess {
    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Kills it, and waits this long for its end: a call of its user's file system may hold it.
    /// Whether it has ended.
    pub fn end(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let _ended = self.child.kill();
        while !self.is_reaped {
            // An error is that of a child that was reaped.
            self.is_reaped = self.child.try_wait().map_or(true, |status| status.is_some());
            if !self.is_reaped && Instant::now() >= until {
                return false;
            }
            if !self.is_reaped {
                std::thread::sleep(LOOK);
            }
        }
        true
    }
}

impl Drop for LauncherProcess {
    fn drop(&mut self) {
        if !self.is_reaped && !self.end(DROP_TIME) {
            tracing::warn!("the launcher of a session, process {}, does not end", self.child.id());
        }
    }
}

/// The service's ends of the streams of a program.
#[derive(Debug)]
pub struct LauncherPipes {
    /// What the program reads.
    pub input: OwnedFd,
    /// What it writes.
    pub output: OwnedFd,
    /// What it writes as errors.
    pub error: OwnedFd,
}

impl Launcher {
    /// Starts a launcher from this executable for a user, with a new directory in `parent`.
    ///
    /// # Errors
    ///
    /// When there is no room for the directory, the process or its descriptors.
    pub fn start(
        program: &Path,
        user: &User,
        parent: &Path,
    ) -> Result<(Self, LauncherPipes), SessionError> {
        let failed =
            |call: &'static str| move |error: io::Error| SessionError::kernel(call, &error);
        let folder = make_folder(user, parent).map_err(failed("making the directory"))?;
        // Its user may move the directory away.
        let stored = StoredFiles::open(&folder, (user.uid, user.gid))?;
        // A program opens them again by /dev/stdout, as its user.
        let (own, others) = fsuid::as_user(user.uid, user.gid, pipes)
            .and_then(|made| made)
            .map_err(failed("making pipes"))?;
        let is_own = user.uid == fsuid::effective_uid();
        let worker_user = (!is_own).then_some(user);
        let (child, socket) = spawn(program, worker_user, WorkerRole::Launcher, None)
            .map_err(failed("starting the launcher"))?;
        // It starts nothing before its first command.
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let cgroups = SessionCgroups::enter(&name, Pid(child.id()));
        let process = LauncherProcess { child, is_reaped: false };
        let launcher = Self { process, socket, folder, stored, cgroups };
        launcher.begin(&others).map_err(failed("starting the launcher"))?;
        Ok((launcher, own))
    }

    /// Sends the directory, and the ends of the pipes.
    fn begin(&self, pipes: &[OwnedFd; 3]) -> io::Result<()> {
        let bytes = frame(&LaunchCommand::Begin(self.folder.clone()))?;
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        let fds = pipes.each_ref().map(|it| it.as_fd());
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        // The socket is new and has room.
        let parts = [IoSlice::new(&bytes)];
        let sent = sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// The ends of the service, and those of the program: its input, output and errors.
fn pipes() -> io::Result<(LauncherPipes, [OwnedFd; 3])> {
    let pipe = || -> io::Result<(OwnedFd, OwnedFd)> {
        let (read, write) = io::pipe()?;
        Ok((read.into(), write.into()))
    };
    let ((in_read, input), (output, out_write), (error, err_write)) = (pipe()?, pipe()?, pipe()?);
    Ok((LauncherPipes { input, output, error }, [in_read, out_write, err_write]))
}

/// Makes a directory of the user, which no other user may enter.
fn make_folder(user: &User, parent: &Path) -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..NAME_TRIES {
        let folder = parent.join(format!("{PREFIX}{}", random::hex::<8>()?));
        let make = || DirBuilder::new().mode(0o700).create(&folder);
        match fsuid::as_user(user.uid, user.gid, make)? {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The launcher has ended.
pub fn launcher_gone() -> SessionError {
    SessionError::new(Refusal::Io, "the process that runs the program of the session has ended")
}

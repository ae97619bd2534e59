//! The process of a rank.
//!
//! In: a program, an environment, what the library adds to it. Out: a process in a group of its
//! own; what it writes, as it comes; its end. The kernel kills it when the host ends. The first
//! rank has the standard input of the host, the others have none.

use crate::attribute::ProcName;
use monitor_control::grouped_process::{GroupedProcess, OutputPlace};
use monitor_sys::readable::readable;
use monitor_sys::{fd_limit, ptrace, spawn};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;

/// Open MPI 4 takes its rank from PMIx if a launcher of another kind has started it: that of a
/// batch system, which it knows by a variable (its `schizo` components). Without one, each rank is
/// a job of its own. Nothing else reads this variable: other components would read a whole set.
const DIRECT_LAUNCH: (&str, &str) = ("JSM_JSRUN_PORT", "0");

/// How long a process may take until it stops at its exec.
const STOPS: Duration = Duration::from_secs(10);
/// How often it is seen whether it has.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// What a rank executes.
#[derive(Clone, Debug)]
pub struct RankProgram {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its working directory, if it is not that of the host.
    pub folder: Option<PathBuf>,
    /// Its environment, without what the library adds.
    pub environment: Vec<(OsString, OsString)>,
}

/// Where the rank is in its job.
#[derive(Clone, Debug)]
pub struct RankPlace {
    /// Its name.
    pub name: ProcName,
    /// Number of ranks of its job.
    pub size: u32,
    /// Where its output goes.
    pub output: OutputPlace,
    /// Whether it has the standard input of the host.
    pub has_input: bool,
    /// Whether it is stopped before its first instruction.
    pub stops_on_exec: bool,
}

/// The process of a rank has ended.
#[derive(Debug)]
pub struct RankEnd {
    /// The rank.
    pub name: ProcName,
}

/// Starts it. The thread that starts it must live as long as the host.
///
/// # Errors
/// If the program cannot be executed, or no descriptor is free.
pub fn start(
    program: &RankProgram,
    place: &RankPlace,
    added: &[CString],
    ended: UnboundedSender<RankEnd>,
) -> io::Result<GroupedProcess> {
    let words = program.command.split_first();
    let (path, arguments) = words.ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(path);
    command.args(arguments).env_clear().envs(program.environment.iter().cloned());
    let sizes = place.size.to_string();
    command.env("MONITOR_JOB_SIZE", &sizes).env("MONITOR_JOB_LOCAL_SIZE", &sizes);
    let (name, value) = DIRECT_LAUNCH;
    command.env(name, value);
    for variable in added.iter().map(|it| it.as_bytes()) {
        let at = variable.iter().position(|it| *it == b'=').unwrap_or(variable.len());
        let (name, value) = variable.split_at(at);
        let value = value.get(1..).unwrap_or_default();
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    if let Some(folder) = &program.folder {
        command.current_dir(folder);
    }
    command.stdin(if place.has_input { Stdio::piped() } else { Stdio::null() });
    fd_limit::restore_in(&mut command);
    if place.stops_on_exec {
        spawn::trace_me(&mut command);
    }
    let mut process = GroupedProcess::start(&mut command, place.output.clone())?;
    if place.stops_on_exec
        && let Err(error) = stop_at_exec(&process)
    {
        process.kill();
        return Err(error);
    }
    let end = readable(process.as_fd().try_clone_to_owned()?)?;
    if let Some(mut input) = process.take_input() {
        // It ends with the input, or at the first write after the rank has closed it.
        let _detached = std::thread::spawn(move || io::copy(&mut io::stdin(), &mut input));
    }
    let name = place.name.clone();
    let mut changes = signal(SignalKind::child())?;
    tokio::spawn(async move {
        let _readable = end.readable().await;
        // A process that traces it, and ends or detaches later, learns of its end first; then
        // the kernel sends SIGCHLD, and does not wake those that wait at its descriptor.
        while !can_be_reaped(end.get_ref()) && changes.recv().await.is_some() {}
        // The host has ended, if it is not received.
        let _sent = ended.send(RankEnd { name });
    });
    Ok(process)
}

/// Whether this process gets the status of a child that has ended.
fn can_be_reaped(child: &OwnedFd) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::PidFd(child.as_fd()), options), Ok(None))
}

/// Waits until it stops at its exec, and leaves it stopped by a signal: nothing traces it then.
fn stop_at_exec(process: &GroupedProcess) -> io::Result<()> {
    let pid = i32::try_from(process.pid().0).map_err(io::Error::other)?;
    let until = Instant::now() + STOPS;
    loop {
        match ptrace::wait_status(pid)? {
            Some(status) if libc::WIFSTOPPED(status) => break,
            Some(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            None if Instant::now() >= until => return Err(io::ErrorKind::TimedOut.into()),
            None => std::thread::sleep(LOOK_AGAIN),
        }
    }
    ptrace::detach(pid, Signal::STOP.as_raw())
}

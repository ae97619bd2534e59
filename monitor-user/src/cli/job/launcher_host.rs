//! `monitor job launcher-host`: the parent of a launcher in the background.
//!
//! In: the command line of a launcher, whose output goes to pipes. Out: a line that it runs; then
//! this process waits for it. A child, the output keeper, reads the pipes; this process holds them
//! open as well and starts another keeper where one was killed, so that the launcher writes into an
//! open pipe whichever of the two is killed.

use super::background::{STARTED, begin_session, leave_terminal};
use super::launch_args::JobLauncherHostArgs;
use crate::cli::client::runtime;
use crate::cli::exit::Failure;
use crate::cli::run::not_started;
use monitor_control::host_protocol::OUTPUT_FOLDER;
use monitor_control::job_folder::JobFolder;
use monitor_control::user_worker::SELF_EXE;
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use monitor_sys::{fd_limit, spawn};
use rustix::io::{FdFlags, fcntl_setfd};
use std::ffi::{CStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use tokio::signal::unix::{SignalKind, signal};

/// The command name of this process.
const PROGRAM: &CStr = c"monitor-launch";
/// The file in that folder with names of what is in it: the pid of the launcher, ids of its jobs.
pub const NAMES: &str = "names";
/// How often a keeper that was killed is replaced.
const MOST_KEEPERS: u32 = 64;
const TERMINATE: u32 = 15;
const INTERRUPT: u32 = 2;
const KILL: u32 = 9;

/// Starts the launcher, and waits until its output is kept no longer. Returns the exit code where
/// it is not started.
///
/// # Errors
/// If a folder, a pipe or a process cannot be had.
pub fn launcher_host(args: &JobLauncherHostArgs) -> Result<u8, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("job launch: {error}"));
    begin_session(PROGRAM);
    let folder = JobFolder::create(&std::env::temp_dir(), &args.id).map_err(failed)?;
    let (out, out_end) = io::pipe().map_err(failed)?;
    let (errors, errors_end) = io::pipe().map_err(failed)?;
    let mut command = command(&args.command);
    command.env(OUTPUT_FOLDER, folder.path());
    command.stdout(out_end).stderr(errors_end);
    let mut launcher = match command.spawn() {
        Ok(launcher) => launcher,
        Err(error) => return Ok(not_started(&args.command[0], &error)),
    };
    // Its ends of the pipes are those of the launcher alone.
    drop(command);
    let names = format!("{}\n", launcher.id());
    if let Err(error) = fs::write(folder.path().join(NAMES), names) {
        let _ended = launcher.kill();
        return Err(failed(error));
    }
    let host = LauncherHost { args, folder, streams: [out.into(), errors.into()], launcher };
    runtime()?.block_on(host.serve()).map_err(failed)?;
    Ok(0)
}

/// The launcher, without what it does not inherit.
fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
    if words[0] == SELF_EXE {
        command.arg0("monitor");
    }
    spawn::default_signals(&mut command);
    fd_limit::restore_in(&mut command);
    command
}

struct LauncherHost<'a> {
    args: &'a JobLauncherHostArgs,
    folder: JobFolder,
    streams: [OwnedFd; 2],
    launcher: Child,
}

impl LauncherHost<'_> {
    async fn serve(mut self) -> io::Result<()> {
        let pid = Pid(self.launcher.id());
        let running = PidFd::open(pid)?;
        let pass_on = |number| {
            // It has ended if this fails.
            let _ended = running.signal(number);
        };
        let mut changes = signal(SignalKind::child())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let started = self.start_keeper().and_then(|mut keeper| {
            let mut line = String::new();
            let stdout = keeper.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            BufReader::new(stdout).read_line(&mut line)?;
            if line.is_empty() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(keeper) }
        });
        let mut keeper = match started {
            Ok(keeper) => keeper,
            Err(error) => {
                pass_on(KILL);
                return Err(error);
            }
        };
        if !leave_terminal(&format!("{STARTED} {}", pid.0)) {
            // The command was interrupted.
            pass_on(TERMINATE);
        }
        let (mut status, mut keepers) = (None, 1);
        loop {
            if status.is_none() {
                status = self.launcher.try_wait()?;
                status.iter().for_each(|it| report(&mut keeper, *it));
            }
            match keeper.try_wait()? {
                Some(end) if end.signal().is_some() && keepers < MOST_KEEPERS => {
                    keepers += 1;
                    keeper = match self.start_keeper() {
                        Ok(keeper) => keeper,
                        Err(_) => return self.discard().await,
                    };
                    status.iter().for_each(|it| report(&mut keeper, *it));
                }
                Some(end) if end.success() => return Ok(()),
                Some(_) => return self.discard().await,
                None => {}
            }
            tokio::select! {
                _ = changes.recv() => {}
                _ = hang_up.recv() => {}
                _ = terminate.recv() => match status {
                    None => pass_on(TERMINATE),
                    Some(_) => return end(keeper),
                },
                _ = interrupt.recv() => match status {
                    None => pass_on(INTERRUPT),
                    Some(_) => return end(keeper),
                },
            }
        }
    }

    /// Starts what reads the pipes.
    fn start_keeper(&self) -> io::Result<Child> {
        let mut command = Command::new(SELF_EXE);
        command.arg0("monitor").args(["job", "output-keeper", "--id", &self.args.id]);
        command.args(["--keep", &format!("{}ns", self.args.keep.as_nanos())]);
        command.arg("--folder").arg(self.folder.path());
        command.args(["--launcher", &self.launcher.id().to_string()]);
        if let Some(label) = &self.args.label {
            command.args(["--label", label]);
        }
        let [out, errors] = &self.streams;
        // No other process is started from now on.
        for inherited in [out.as_fd(), errors.as_fd(), self.folder.lock()] {
            fcntl_setfd(inherited, FdFlags::empty())?;
        }
        command.args(["--streams", &format!("{},{}", out.as_raw_fd(), errors.as_raw_fd())]);
        spawn::default_signals(&mut command);
        fd_limit::restore_in(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    /// Reads and drops what the launcher writes, where no keeper can be started, until it has
    /// ended.
    async fn discard(mut self) -> io::Result<()> {
        for stream in self.streams {
            let mut stream = File::from(stream);
            let _detached = std::thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        }
        let mut changes = signal(SignalKind::child())?;
        while self.launcher.try_wait()?.is_none() && changes.recv().await.is_some() {}
        Ok(())
    }
}

/// Ends a keeper, so that it does not write into the folder when that is removed.
fn end(mut keeper: Child) -> io::Result<()> {
    keeper.kill()?;
    keeper.wait().map(|_| ())
}

/// Says to a keeper how the launcher ended: as in wait(2).
fn report(keeper: &mut Child, status: ExitStatus) {
    if let Some(stdin) = &mut keeper.stdin {
        // It was killed if this fails, and the next one gets it.
        let _gone = writeln!(stdin, "{}", status.into_raw());
    }
}

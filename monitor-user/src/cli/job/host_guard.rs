//! `monitor job host-guard`: the parent of the host of a job in the background.
//!
//! In: the arguments of `job host`. Out: nothing while the host runs. When it ends by a signal, the
//! kernel kills the ranks, and this process what they have started: it is the parent of all of them
//! whose own parents have ended (PR_SET_CHILD_SUBREAPER), whatever their groups and environments.

use super::background::{begin_session, leave_streams};
use super::launch_args::JobHostGuardArgs;
use crate::cli::client::runtime;
use crate::cli::exit::Failure;
use monitor_control::job_folder::remove_left;
use monitor_control::user_worker::SELF_EXE;
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use monitor_sys::{fd_limit, spawn};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// The command name of this process.
const PROGRAM: &CStr = c"monitor-guard";
/// How long processes that are killed may take to end.
const END: Duration = Duration::from_secs(10);
/// How often it is seen whether there are more of them.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const TERMINATE: u32 = 15;
const INTERRUPT: u32 = 2;
const KILL: u32 = 9;

/// Runs the host. Returns its exit code, 128 plus the signal that ended it.
///
/// # Errors
/// If it cannot be started.
pub fn host_guard(args: &JobHostGuardArgs) -> Result<u8, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("job launch: {error}"));
    begin_session(PROGRAM);
    // Without it, processes that have left their rank stay.
    let _subreaper = set_child_subreaper(Some(getpid()));
    let mut command = Command::new(SELF_EXE);
    command.arg0("monitor").args(["job", "host"]).args(&args.host);
    spawn::default_signals(&mut command);
    fd_limit::restore_in(&mut command);
    let host = Pid(command.spawn().map_err(failed)?.id());
    // Those of the command are closed when the host leaves them.
    leave_streams();
    let code = runtime()?.block_on(wait_for(host)).map_err(failed)?;
    Ok(code)
}

async fn wait_for(host: Pid) -> io::Result<u8> {
    let running = PidFd::open(host)?;
    let pass_on = |number| {
        // It has ended if this fails.
        let _ended = running.signal(number);
    };
    let mut changes = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    loop {
        match reap(host) {
            Some(HostEnd::Exited(code)) => return Ok(code),
            Some(HostEnd::Killed(code)) => {
                end_children();
                remove_left(&std::env::temp_dir());
                return Ok(code);
            }
            None => {}
        }
        tokio::select! {
            _ = changes.recv() => {}
            _ = hang_up.recv() => {}
            _ = terminate.recv() => pass_on(TERMINATE),
            _ = interrupt.recv() => pass_on(INTERRUPT),
        }
    }
}

/// How the host ended, with the code that a shell returns for that.
enum HostEnd {
    Exited(u8),
    Killed(u8),
}

/// Reaps all children that have ended; how the host did, if it is one of them.
fn reap(host: Pid) -> Option<HostEnd> {
    let mut end = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if u32::try_from(pid.as_raw_nonzero().get()) == Ok(host.0) {
            let code = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
            let killed = status.terminating_signal().map(|it| HostEnd::Killed(code(128 + it)));
            let exited = || HostEnd::Exited(code(status.exit_status().unwrap_or_default()));
            end = Some(killed.unwrap_or_else(exited));
        }
    }
    end
}

/// Kills all children, and those that become children by that, until there are none.
fn end_children() {
    let until = Instant::now() + END;
    loop {
        let tasks = procfs::process::Process::myself().and_then(|it| it.tasks());
        let tasks = tasks.into_iter().flatten().flatten();
        let children: Vec<u32> = tasks.flat_map(|it| it.children().unwrap_or_default()).collect();
        for child in &children {
            // It has ended if this fails, and is a zombie until it is reaped here.
            let _ended = PidFd::open(Pid(*child)).and_then(|it| it.signal(KILL));
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if children.is_empty() || Instant::now() >= until {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

//! `monitor job attach`: a tool beside the ranks of a running job, or ranks that are held for a
//! time.
//!
//! In: the ranks that the user names, and the command of the tool. Out: what the tool writes, and
//! its exit code. A child of the command does it, and sees the end of the command: then the tool is
//! ended and the ranks run on. No connection to the runtime is opened.

use super::args::JobAttachArgs;
use super::hold::{self, Held, hold_all};
use super::passed_signals::{run_passing_signals, start_and_wait};
use super::target::JobTarget;
use super::tool_daemon::{ToolDaemons, ended_text, is_readable_before};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_control::process_ref::ProcessRef;
use monitor_control::stop_all::StopAll;
use monitor_control::user_worker::SELF_EXE;
use monitor_model::{Identity, Pid};
use monitor_sys::pending_signals::PendingSignals;
use monitor_sys::pidfd::{PidFd, returned_code};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Attaches until the tool, the job or this command ends. Returns the exit code.
///
/// # Errors
/// If there is no such job or rank, if no rank could be held, or if the tool cannot be started.
pub fn attach(args: &JobAttachArgs) -> Result<u8, Failure> {
    if !args.hold && args.daemon.is_none() {
        return Err(Failure::usage("nothing to do: give --hold, --daemon COMMAND, or both"));
    }
    let Some(parent) = args.child_of.map(Pid) else {
        let command = child(args);
        let ended = run_passing_signals(move |started| start_and_wait(command, started))?;
        let failed = |error| Failure::failed(format!("job attach: {error}"));
        return ended.map(returned_code).map_err(failed);
    };
    let Some(attachment) = Attachment::begin(parent)? else { return Ok(Exit::Interrupted as u8) };
    // Dropped before the attachment, whose signals end this process then.
    let mut stopped = StopAll::new(hold::LIMIT);
    let mut target = JobTarget::find(&args.job)?;
    let held = args.hold.then(|| attachment.hold(&mut target, &mut stopped)).transpose()?;
    let start = |command| ToolDaemons::start(command, &args.per, &target);
    let daemons = args.daemon.as_deref().map(start).transpose()?;
    let code = match daemons {
        Some(daemons) => attachment.run(daemons)?,
        None => attachment.wait(&target)? as u8,
    };
    let is_partial = held.is_some_and(|held| !held.errors.is_empty());
    Ok(if code == 0 && is_partial { Exit::Partial as u8 } else { code })
}

/// This program, as the child that attaches.
fn child(args: &JobAttachArgs) -> Command {
    let mut command = Command::new(SELF_EXE);
    command.arg0("monitor").args(["job", "attach", &args.job, "--per", &args.per]);
    command.args(["--child-of", &std::process::id().to_string()]);
    if args.hold {
        command.arg("--hold");
    }
    if let Some(daemon) = &args.daemon {
        command.arg("--daemon").arg(daemon);
    }
    command
}

/// What ends it from outside.
struct Attachment {
    signals: PendingSignals,
    parent: PidFd,
}

impl Attachment {
    /// Keeps signals pending; none if the command has ended.
    fn begin(parent: Pid) -> Result<Option<Self>, Failure> {
        let signals = PendingSignals::keep().map_err(Failure::failed)?;
        let parent = PidFd::open_parent(parent).map_err(Failure::failed)?;
        Ok(parent.map(|parent| Self { signals, parent }))
    }

    /// Holds the ranks, and says so.
    fn hold(&self, target: &mut JobTarget, stopped: &mut StopAll) -> Result<Held, Failure> {
        let ends = || self.signals.has_come() || self.parent.has_ended();
        let held = hold_all(target, stopped, &ends)?;
        if held.processes == 0 {
            return Err(held.errors.failure().unwrap_or_else(|| target.has_ended()));
        }
        held.errors.notes.iter().for_each(|note| output::notice(note));
        let line = target.line(&held.ranks, "held", held.processes);
        output::notice(&format!("{}; the ranks run on when this command ends", line.trim_end()));
        Ok(held)
    }

    /// Waits until all daemons have ended; the code of the first that failed.
    fn run(&self, mut daemons: ToolDaemons) -> Result<u8, Failure> {
        let is_interrupted = daemons.wait(&self.ends())?;
        let mut code = 0;
        for (rank, status) in daemons.end() {
            let ended = status.map_or(Exit::Failed as u8, returned_code);
            if ended != 0 && !is_interrupted {
                output::notice(&ended_text(rank, status));
            }
            code = if code == 0 { ended } else { code };
        }
        Ok(if is_interrupted { Exit::Interrupted as u8 } else { code })
    }

    /// Waits until the ranks have ended.
    fn wait(&self, target: &JobTarget) -> Result<Exit, Failure> {
        let open = |(_, id): (u32, Identity)| Some(ProcessRef::open(id).ok()?.pidfd);
        let processes: Vec<PidFd> = target.processes().into_iter().filter_map(open).collect();
        loop {
            let running = processes.iter().filter(|it| !it.has_ended()).map(|it| it.as_fd());
            let running: Vec<BorrowedFd<'_>> = running.collect();
            if running.is_empty() {
                output::notice(&target.has_ended().message);
                return Ok(Exit::Ok);
            }
            if is_readable_before(&self.ends(), &running)? {
                return Ok(Exit::Interrupted);
            }
        }
    }

    /// Readable when it ends.
    fn ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.signals.as_fd(), self.parent.as_fd()]
    }
}

//! `monitor job attach`: a tool beside the ranks of a running job, or ranks that are held for a
//! time.
//!
//! In: the ranks that the user names, and the command of the tool. Out: what the tool writes, and
//! its exit code. A child of the command does it, and sees the end of the command: then the tool is
//! ended and the ranks run on. No connection to the runtime is opened.

use super::args::JobAttachArgs;
use super::hold::{self, Held, hold_all};
use super::passed_signals::{run_passing_signals, start_and_wait};
use super::rank_program::program_process;
use super::target::JobTarget;
use super::tool_daemon::{AttachedRank, ToolDaemon, end_all};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::cli::run_report::exit_code;
use monitor_control::stop_all::StopAll;
use monitor_control::user_worker::SELF_EXE;
use monitor_model::Pid;
use monitor_sys::pending_signals::PendingSignals;
use monitor_sys::pidfd::PidFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};

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
        return ended.map(exit_code).map_err(failed);
    };
    let Some(attachment) = Attachment::begin(parent)? else { return Ok(Exit::Interrupted as u8) };
    // Dropped before the attachment, whose signals end this process then.
    let mut stopped = StopAll::new(hold::LIMIT);
    let mut target = JobTarget::find(&args.job)?;
    let held = args.hold.then(|| attachment.hold(&mut target, &mut stopped)).transpose()?;
    let daemons = args.daemon.as_ref().map(|command| start(command, args, &target)).transpose()?;
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

fn start(
    command: &std::ffi::OsStr,
    args: &JobAttachArgs,
    target: &JobTarget,
) -> Result<Vec<ToolDaemon>, Failure> {
    let ranks = target.job.ranks.iter().filter(|it| target.ranks.contains(it.rank));
    let attached = ranks.map(|it| AttachedRank { rank: it.rank, process: program_process(it) });
    let attached: Vec<AttachedRank> = attached.collect();
    let indexes: Vec<Option<usize>> = match args.per.as_str() {
        "node" => vec![None],
        _ => (0..attached.len()).map(Some).collect(),
    };
    let start = |index| ToolDaemon::start(command, &target.job, &attached, index);
    let started: Result<Vec<_>, _> = indexes.into_iter().map(start).collect();
    started.map_err(|error| Failure::failed(format!("job attach: cannot run /bin/sh: {error}")))
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
        let opened = PidFd::open(parent).map_err(Failure::failed)?;
        // Another process may have its pid.
        let has_parent =
            rustix::process::getppid().is_some_and(|it| it.as_raw_pid() == parent.0.cast_signed());
        Ok(has_parent.then_some(Self { signals, parent: opened }))
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
    fn run(&self, mut daemons: Vec<ToolDaemon>) -> Result<u8, Failure> {
        let opened: Vec<PidFd> = daemons
            .iter()
            .map(|it| PidFd::open(Pid(it.pid())))
            .collect::<Result<_, _>>()
            .map_err(Failure::failed)?;
        let is_interrupted = loop {
            let running: Vec<&PidFd> = daemons
                .iter_mut()
                .zip(&opened)
                .filter_map(|(it, fd)| it.status().is_none().then_some(fd))
                .collect();
            if running.is_empty() {
                break false;
            }
            if self.ends_before_one_of(&running)? {
                break true;
            }
        };
        let mut code = 0;
        for (rank, status) in end_all(daemons) {
            let ended = status.map_or(Exit::Failed as u8, exit_code);
            if ended != 0 && !is_interrupted {
                output::notice(&ended_text(rank, status));
            }
            code = if code == 0 { ended } else { code };
        }
        Ok(if is_interrupted { Exit::Interrupted as u8 } else { code })
    }

    /// Waits until the ranks have ended.
    fn wait(&self, target: &JobTarget) -> Result<Exit, Failure> {
        let open = |(_, id): (u32, monitor_model::Identity)| PidFd::open(id.pid).ok();
        let processes: Vec<PidFd> = target.processes().into_iter().filter_map(open).collect();
        loop {
            let running: Vec<&PidFd> = processes.iter().filter(|it| !it.has_ended()).collect();
            if running.is_empty() {
                output::notice(&target.has_ended().message);
                return Ok(Exit::Ok);
            }
            if self.ends_before_one_of(&running)? {
                return Ok(Exit::Interrupted);
            }
        }
    }

    /// Waits for the first end of one of these processes; whether a signal or the end of the
    /// command comes before.
    fn ends_before_one_of(&self, processes: &[&PidFd]) -> Result<bool, Failure> {
        let mut fds = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.parent, PollFlags::IN),
        ];
        fds.extend(processes.iter().map(|it| PollFd::new(*it, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) => Ok(fds[..2].iter().any(|it| !it.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(Failure::failed(format!("poll: {error}"))),
        }
    }
}

fn ended_text(rank: Option<u32>, status: Option<ExitStatus>) -> String {
    let which = rank.map(|rank| format!(" of rank {rank}")).unwrap_or_default();
    let how = status.map_or_else(|| "in an unknown way".to_owned(), |it| format!("with {it}"));
    format!("the daemon{which} ended {how}")
}

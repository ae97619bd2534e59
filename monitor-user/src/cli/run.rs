//! `monitor run -- COMMAND`: what a command and all its descendants used, told as it ends.
//!
//! Everything is attached before the command starts, so nothing is missed. Its standard streams
//! are its own; the report goes to standard error, JSON to standard output. The exit code is the
//! command's, as a shell gives it.

use super::args::{Run, RunForm as Form};
use super::client::runtime;
use super::count::Count;
use super::exit::{Exit, Failure};
use super::log;
use super::output::{self, Output};
use super::recording::existing;
use super::report::{Outcome, Report};
use monitor_model::id::Pid;
use monitor_sys::{files, memory, readable, wait};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

/// How often a long command is looked at; what is short is told by the kernel.
const EVERY: Duration = Duration::from_secs(1);
/// Runs the command and reports. Returns its exit code.
pub fn run(args: &Run) -> Result<u8, Failure> {
    log::start(0);
    let runtime = runtime()?;
    let mut count = match &args.record {
        Some(path) => Count::recorded(&args.reader, (path, existing(args.force), EVERY))?,
        None => runtime.block_on(Count::open(&args.reader))?,
    };
    // Before the command: a path that cannot be written shall not cost the report of a long run.
    let file = args.output.as_deref().map(Output::whole).transpose()?;
    memory::forget_peak();
    let start = Instant::now();
    let child = match command(args).spawn() {
        Ok(child) => Pid(child.id()),
        Err(error) => return not_started(&args.command[0], &error),
    };
    // A copy of us until it was the command, so its peak cannot be told apart below ours.
    let ours = memory::peak_bytes().unwrap_or(0);
    count.begin(child)?;
    let pidfd = open(child)?;
    runtime.block_on(watch(&mut count, pidfd))?;
    let (status, mut usage) = wait::wait(child)
        .map_err(|error| Failure::failed(format!("cannot wait for the command: {error}")))?;
    usage.peak_rss_bytes = usage.peak_rss_bytes.filter(|peak| *peak > ours);
    let wall = start.elapsed();
    let counted = count.by();
    let totals = runtime.block_on(count.totals(child))?;
    let outcome = Outcome { command: &args.command, status, wall, usage, totals, counted };
    if let Err(failure) = put(&Report::of(&outcome), args.format, file) {
        // The command has ended: its code says more than that of its report.
        output::say(&failure.message);
    }
    Ok(code(status))
}

/// Text to standard error and JSON to standard output, or either to a file.
fn put(report: &Report<'_>, form: Form, file: Option<Output>) -> Result<(), Failure> {
    match (file, form) {
        (None, Form::Text) => output::report(&report.text()),
        (None, Form::Json) => drop(output::print(output::json(report)?.as_bytes())?),
        (Some(mut file), Form::Text) => drop(file.put(report.text().as_bytes())?),
        (Some(mut file), Form::Json) => drop(file.put(output::json(report)?.as_bytes())?),
    }
    Ok(())
}

fn command(args: &Run) -> Command {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    files::leave_limit(&mut command);
    command
}

/// 127 for what is not there, 126 for what cannot be executed, as a shell has it.
fn not_started(name: &std::ffi::OsStr, error: &std::io::Error) -> Result<u8, Failure> {
    output::say(&format!("cannot run {}: {error}", name.display()));
    Ok(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// The command's own code, or 128 and the signal that ended it.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failed as u8)
}

fn open(child: Pid) -> Result<OwnedFd, Failure> {
    let pid = i32::try_from(child.0).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::failed("the command has no process id"))?;
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| Failure::failed(format!("pidfd_open on the command: {error}")))
}

/// Looks at the family until the command has ended. Whoever asks us to end means the command.
async fn watch(count: &mut Count, pidfd: OwnedFd) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot wait for the command: {error}"));
    let ended = readable::readable(pidfd).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    // The terminal sends these to the whole foreground group: the command has its own copy.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut quit = signal(SignalKind::quit()).map_err(failed)?;
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = ended.readable() => return Ok(()),
            _ = tick.tick() => count.look()?,
            () = count.woken() => count.drain(),
            _ = terminate.recv() => pass_on(&ended, Signal::TERM),
            _ = hangup.recv() => pass_on(&ended, Signal::HUP),
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

fn pass_on(command: &AsyncFd<OwnedFd>, signal: Signal) {
    // It may have ended in between: then there is nobody to tell.
    let _ = pidfd_send_signal(command.get_ref().as_fd(), signal);
}

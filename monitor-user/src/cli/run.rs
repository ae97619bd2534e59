//! `monitor run -- COMMAND`: runs a command and reports what it and its descendants used.
//!
//! Everything is attached before the command starts, so nothing is missed. The command inherits
//! the standard streams; the report goes to standard error, JSON to standard output. The exit code
//! is that of the command, as in a shell.

use super::args::{RunArgs, RunForm as Form};
use super::client::runtime;
use super::exit::Failure;
use super::log;
use super::output::{self, Output};
use super::recording::existing;
use super::run_report::{RunOutcome, RunReport};
use super::usage_source::UsageSource;
use monitor_model::id::Pid;
use monitor_sys::pidfd::returned_code;
use monitor_sys::{fd_limit, memory, readable, spawn, wait};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

/// Interval between readings of a long command. Short processes leave a kernel record at exit.
const EVERY: Duration = Duration::from_secs(1);

/// Runs the command and reports. Returns its exit code.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    log::start(0);
    let runtime = runtime()?;
    let mut source = match &args.record {
        Some(path) => UsageSource::recorded(&args.reader, (path, existing(args.force), EVERY))?,
        None => runtime.block_on(UsageSource::open(&args.reader))?,
    };
    // Before the command starts: an unwritable path must not cost the report of a long run.
    let file = args.output.as_deref().map(Output::replacing).transpose()?;
    memory::reset_peak();
    let start = Instant::now();
    let child = match command(args).spawn() {
        Ok(child) => Pid(child.id()),
        Err(error) => return Ok(not_started(&args.command[0], &error)),
    };
    spawn::wait_for_exec(child.0);
    // Until exec the child was a copy of this process: a peak below ours may not be its own.
    let own_peak = memory::peak_bytes().unwrap_or(0);
    source.begin(child)?;
    let pidfd = open(child)?;
    runtime.block_on(watch(&mut source, pidfd))?;
    let (status, mut usage) = wait::wait(child)
        .map_err(|error| Failure::failed(format!("cannot wait for the command: {error}")))?;
    usage.peak_rss_bytes = usage.peak_rss_bytes.filter(|peak| *peak > own_peak);
    let wall = start.elapsed();
    let by_daemon = source.is_daemon();
    let totals = runtime.block_on(source.totals(child))?;
    let outcome = RunOutcome { command: &args.command, status, wall, usage, totals, by_daemon };
    if let Err(failure) = put(&RunReport::from_outcome(&outcome), args.format, file) {
        // The command has exited: its code matters more than that of the report.
        output::notice(&failure.message);
    }
    Ok(returned_code(status))
}

/// Prints text to standard error or JSON to standard output, or writes either to a file.
fn put(report: &RunReport<'_>, form: Form, file: Option<Output>) -> Result<(), Failure> {
    match (file, form) {
        (None, Form::Text) => output::print_to_stderr(&report.text()),
        (None, Form::Json) => drop(output::print(output::json(report)?.as_bytes())?),
        (Some(mut file), Form::Text) => drop(file.put(report.text().as_bytes())?),
        (Some(mut file), Form::Json) => drop(file.put(output::json(report)?.as_bytes())?),
    }
    Ok(())
}

fn command(args: &RunArgs) -> Command {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    fd_limit::restore_in(&mut command);
    command
}

/// Exit code of a command that did not start: 127 if it does not exist, else 126, as in a shell.
pub fn not_started(name: &std::ffi::OsStr, error: &std::io::Error) -> u8 {
    output::notice(&format!("cannot run {}: {error}", name.display()));
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

fn open(child: Pid) -> Result<OwnedFd, Failure> {
    let pid = i32::try_from(child.0).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::failed("the command has no process id"))?;
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| Failure::failed(format!("pidfd_open on the command: {error}")))
}

/// Reads the process tree until the command has exited. SIGTERM and SIGHUP go to the command.
async fn watch(source: &mut UsageSource, pidfd: OwnedFd) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot wait for the command: {error}"));
    let ended = readable::readable(pidfd).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    // The terminal sends these to the whole foreground group, so the command gets them anyway.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut quit = signal(SignalKind::quit()).map_err(failed)?;
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = ended.readable() => return Ok(()),
            _ = tick.tick() => source.sample()?,
            () = source.records_ready() => source.drain(),
            _ = terminate.recv() => pass_on(&ended, Signal::TERM),
            _ = hangup.recv() => pass_on(&ended, Signal::HUP),
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

fn pass_on(command: &AsyncFd<OwnedFd>, signal: Signal) {
    // Fails only if the command has exited in between.
    let _ = pidfd_send_signal(command.get_ref().as_fd(), signal);
}

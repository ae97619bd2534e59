//! `monitor run -- COMMAND`: what a command and all its descendants used, told as it ends.
//!
//! Everything is attached before the command starts, so nothing is missed. Its standard streams
//! are its own; the report goes to standard error, JSON to standard output. The exit code is the
//! command's, as a shell gives it.

use super::args::{Run, RunForm as Form};
use super::exit::{Exit, Failure};
use super::log;
use super::output::{self, Output};
use super::report::{Outcome, Report};
use crate::backend::{Backend, select};
use crate::meter::family::Family;
use crate::model::id::Pid;
use crate::model::sample::{Note, Source};
use crate::model::want::{Capability, Want};
use crate::sys::{files, memory, readable, wait};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

/// How often a long command is looked at; what is short is told by the kernel.
const EVERY: Duration = Duration::from_secs(1);
/// How long after the end of the command the final records of its descendants are waited for.
const SETTLE: Duration = Duration::from_secs(2);
/// How often, meanwhile, somebody looks.
const SETTLE_EVERY: Duration = Duration::from_millis(5);

/// What a run needs; each can be missing, and the report says so.
const CAPABILITIES: [Capability; 5] = [
    Capability::Snapshot,
    Capability::Lifetimes,
    Capability::Block,
    Capability::Tcp,
    Capability::Sockets,
];

/// Runs the command and reports. Returns its exit code.
pub fn run(args: &Run) -> Result<u8, Failure> {
    log::start(0);
    let (mut backend, mut notes) = select::open(args.backend, &CAPABILITIES, 0)?;
    // Before the command: a path that cannot be written shall not cost the report of a long run.
    let file = args.output.as_deref().map(Output::file).transpose()?;
    memory::forget_peak();
    let start = Instant::now();
    let child = match command(args).spawn() {
        Ok(child) => Pid(child.id()),
        Err(error) => return not_started(&args.command[0], &error),
    };
    // It is there until it is waited for, so whoever is not found has the host's id already.
    let on_host = backend.host_pids(&[child])?.first().copied().flatten();
    let mut family = Family::of(on_host.unwrap_or(child));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot wait: {error}")))?;
    let pidfd = open(child)?;
    runtime.block_on(watch(&mut *backend, &mut family, pidfd))?;
    let (status, usage) = wait::wait(child)
        .map_err(|error| Failure::failed(format!("cannot wait for the command: {error}")))?;
    let wall = start.elapsed();
    settle(&mut *backend, &mut family, &mut notes)?;
    let source = backend.source();
    let command = &args.command;
    let outcome = Outcome { command, status, wall, usage, family: &family, source, notes };
    if let Err(failure) = put(&Report::of(&outcome), args.format, file) {
        // The command has ended: its code says more than that of its report.
        output::say(&failure.message);
    }
    Ok(code(status))
}

/// Text to standard error and JSON to standard output, or either to a file.
fn put(report: &Report<'_>, form: Form, file: Option<Output>) -> Result<(), Failure> {
    let json = || {
        let text = serde_json::to_string(report).map_err(Failure::failed)?;
        Ok::<_, Failure>(text + "\n")
    };
    match (file, form) {
        (None, Form::Text) => output::report(&report.text()),
        (None, Form::Json) => drop(output::print(json()?.as_bytes())?),
        (Some(mut file), Form::Text) => drop(file.put(report.text().as_bytes())?),
        (Some(mut file), Form::Json) => drop(file.put(json()?.as_bytes())?),
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
async fn watch(
    backend: &mut dyn Backend,
    family: &mut Family,
    pidfd: OwnedFd,
) -> Result<(), Failure> {
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
            _ = tick.tick() => family.learn(&backend.read(&wanted())?),
            () = woken(backend) => backend.drain(),
            _ = terminate.recv() => pass_on(&ended, Signal::TERM),
            _ = hangup.recv() => pass_on(&ended, Signal::HUP),
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

fn wanted() -> Want {
    Want { processes: true, ..Want::default() }
}

/// Waits until records should be fetched; for ever, if there are none.
async fn woken(backend: &dyn Backend) {
    let fd = backend.wake().and_then(|fd| fd.try_clone_to_owned().ok());
    match fd.and_then(|fd| readable::readable(fd).ok()) {
        Some(fd) => drop(fd.readable().await),
        None => std::future::pending().await,
    }
}

fn pass_on(command: &AsyncFd<OwnedFd>, signal: Signal) {
    // It may have ended in between: then there is nobody to tell.
    let _ = pidfd_send_signal(command.get_ref().as_fd(), signal);
}

/// Waits for the final records of what has ended. What goes on is counted as it is now.
fn settle(
    backend: &mut dyn Backend,
    family: &mut Family,
    notes: &mut Vec<Note>,
) -> Result<(), Failure> {
    let deadline = Instant::now() + SETTLE;
    loop {
        let sample = backend.read(&wanted())?;
        family.learn(&sample);
        // Only the kernel's own records come late; a sample of /proc is all there will be.
        let sampled = backend.source() != Source::Ebpf;
        let settled = sampled || family.root_ended() && family.awaited() == 0;
        if settled || Instant::now() >= deadline {
            // What /proc cannot give is of every process, and says nothing of this command.
            notes.extend((!sampled).then_some(sample.notes).into_iter().flatten());
            return Ok(());
        }
        std::thread::sleep(SETTLE_EVERY);
    }
}

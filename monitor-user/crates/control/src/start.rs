//! Starts a program for a tool.
//!
//! In: a `LaunchSpec`. Out: the new process, stopped before its first instruction if requested. It
//! is a child of the user worker, in a process group of its own, and outlives the user worker.

use super::process_ref::{ProcessRef, raw_pid};
use super::{ControlError, LaunchSpec, deadline::DeadlineWait};
use monitor_model::Pid;
use monitor_sys::{fd_limit, ptrace, spawn};
use rustix::process::Signal;
use std::fs::{File, OpenOptions};
use std::process::{Command, Stdio};
use std::{
    ffi::OsStr, os::unix::ffi::OsStrExt as _, os::unix::process::CommandExt as _, path::Path,
};

/// This program, even if its file was replaced since it started.
pub const SELF_EXE: &str = "/proc/self/exe";

/// Starts the program.
pub fn start(
    spec: &LaunchSpec,
    deadline: &mut DeadlineWait<'_>,
) -> Result<ProcessRef, ControlError> {
    let mut command = command(spec)?;
    spawn::default_signals(command.process_group(0));
    if spec.stopped {
        // Its pid is not known before: no log of the service can resume it.
        spawn::resume_with_parent(&mut command);
        spawn::trace_me(&mut command);
    }
    let child = command.spawn().map_err(|error| start_error(spec, &error))?;
    let pid = Pid(child.id());
    if spec.stopped {
        stop_at_exec(raw_pid(pid), deadline)?;
    }
    ProcessRef::open_current(pid)
}

/// The command, with its environment, folder and streams.
pub fn command(spec: &LaunchSpec) -> Result<Command, ControlError> {
    let mut command = Command::new(&spec.path);
    let words = |bytes: &Vec<u8>| OsStr::from_bytes(bytes).to_owned();
    let _command = command
        .args(spec.arguments.iter().map(words))
        .current_dir(spec.folder.as_deref().unwrap_or(Path::new("/")));
    if let Some(environment) = &spec.environment {
        let pairs = environment.iter().map(|(name, value)| (words(name), words(value)));
        let _command = command.env_clear().envs(pairs);
    }
    let [input, output, error] = &spec.streams;
    let _command = command.stdin(stream(input.as_deref(), OpenOptions::new().read(true))?);
    let mut write = OpenOptions::new();
    let write = write.append(true).create(true);
    let _command = command.stdout(stream(output.as_deref(), write)?);
    let _command = command.stderr(stream(error.as_deref(), write)?);
    fd_limit::restore_in(&mut command);
    Ok(command)
}

fn stream(path: Option<&Path>, options: &OpenOptions) -> Result<Stdio, ControlError> {
    let Some(path) = path else { return Ok(Stdio::null()) };
    let opened: Result<File, _> = options.open(path);
    let call = || format!("opening {}", path.display());
    opened
        .map(Stdio::from)
        .map_err(|error| ControlError::Failed { call: call(), why: error.to_string() })
}

/// Why the program was not started.
pub fn start_error(spec: &LaunchSpec, error: &std::io::Error) -> ControlError {
    let call = format!("starting {}", spec.path.display());
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => ControlError::denied(
            &call,
            "execute permission for it, and access to its working directory",
        ),
        _ => ControlError::Failed { call, why: error.to_string() },
    }
}

/// Waits for the trap after exec, then replaces it by a `SIGSTOP` and detaches.
pub fn stop_at_exec(pid: i32, deadline: &mut DeadlineWait<'_>) -> Result<(), ControlError> {
    loop {
        match ptrace::wait_status(pid) {
            Ok(Some(status)) if status & 0xff == 0x7f => break,
            Ok(None) => deadline.wait("stopping the new program")?,
            _ => return Err(ControlError::Gone),
        }
    }
    let left = ptrace::detach(pid, Signal::STOP.as_raw());
    left.map_err(|error| ControlError::from_io("stopping the new program", &error))
}

//! Starting a program for a tool.
//!
//! In: the program, what it is given. Out: the new process, stopped before its first instruction
//! if that is wanted. It is a child of the hand, in a process group of its own, and outlives it.

use super::act::Program;
use super::patience::Patience;
use super::subject::{Subject, raw};
use super::trouble::Trouble;
use monitor_model::id::Pid;
use monitor_sys::{files, spawn, trace};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts it.
pub fn start(program: &Program, patience: &mut Patience<'_>) -> Result<Subject, Trouble> {
    let mut command = command(program)?;
    let child = command.spawn().map_err(|error| not_started(program, &error))?;
    let pid = Pid(child.id());
    if program.stopped {
        hold(raw(pid), patience)?;
    }
    Subject::now(pid)
}

fn command(program: &Program) -> Result<Command, Trouble> {
    let mut command = Command::new(&program.path);
    let words = |bytes: &Vec<u8>| OsStr::from_bytes(bytes).to_owned();
    let _command = command
        .args(program.arguments.iter().map(words))
        .current_dir(program.folder.as_deref().unwrap_or(Path::new("/")))
        .process_group(0);
    if let Some(environment) = &program.environment {
        let pairs = environment.iter().map(|(name, value)| (words(name), words(value)));
        let _command = command.env_clear().envs(pairs);
    }
    let [input, output, error] = &program.streams;
    let _command = command.stdin(stream(input.as_deref(), OpenOptions::new().read(true))?);
    let mut write = OpenOptions::new();
    let write = write.append(true).create(true);
    let _command = command.stdout(stream(output.as_deref(), write)?);
    let _command = command.stderr(stream(error.as_deref(), write)?);
    files::leave_limit(&mut command);
    spawn::unblocked(&mut command);
    if program.stopped {
        spawn::traced(&mut command);
    }
    Ok(command)
}

fn stream(path: Option<&Path>, options: &OpenOptions) -> Result<Stdio, Trouble> {
    let Some(path) = path else { return Ok(Stdio::null()) };
    let opened: Result<File, _> = options.open(path);
    let call = || format!("opening {}", path.display());
    opened
        .map(Stdio::from)
        .map_err(|error| Trouble::Failed { call: call(), why: error.to_string() })
}

fn not_started(program: &Program, error: &std::io::Error) -> Trouble {
    let call = format!("starting {}", program.path.display());
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Trouble::denied(&call, "the right to execute it, and to be in its folder")
        }
        _ => Trouble::Failed { call, why: error.to_string() },
    }
}

/// It stops by itself once it has its program; from there it is stopped by a signal, and traced no
/// more.
fn hold(pid: i32, patience: &mut Patience<'_>) -> Result<(), Trouble> {
    loop {
        match trace::status(pid) {
            Ok(Some(status)) if status & 0xff == 0x7f => break,
            Ok(None) => patience.wait("stopping the new program")?,
            _ => return Err(Trouble::Gone),
        }
    }
    let left = trace::detach(pid, Signal::STOP.as_raw());
    left.map_err(|error| Trouble::of("stopping the new program", &error))
}

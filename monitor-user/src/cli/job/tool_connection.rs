//! A connection to the PMIx server of a job, as a tool: only for a command that asks it to act.
//!
//! In: a job. Out: what the server answers; or why it is not connected to. A server that does not
//! answer in time is given up. A process of its own connects: `mpirun` of Open MPI 5.0.11 ends by a
//! signal, and the job with it, when a tool ends in the moment in which it connects.

use super::target::JobTarget;
use super::tool_turn::{JobProcesses, ToolTurn};
use crate::cli::exit::{Exit, Failure};
use monitor_control::user_worker::SELF_EXE;
use monitor_jobs::Runtime;
use monitor_model::{Identity, Pid};
use monitor_pmix::rendezvous::{self, FOLDER, Rendezvous};
use monitor_pmix::{PmixError, Tool};
use monitor_sys::fd_limit;
use monitor_sys::pidfd::returned_code;
use procfs::process::Process;
use std::io::ErrorKind::TimedOut;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How long the server may take for one command.
const LIMIT: Duration = Duration::from_secs(10);
/// The variable of a rank with the name of its node, as its server has it.
const HOST: &str = "PMIX_HOSTNAME";

/// Which process connects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Connects {
    /// This one.
    Here,
    /// A child of it.
    InChild,
}

impl Connects {
    /// As the hidden option says.
    pub const fn from_option(is_set: bool) -> Self {
        if is_set { Self::Here } else { Self::InChild }
    }
}

/// The exit codes of commands that connect.
const EXITS: [Exit; 6] =
    [Exit::Ok, Exit::Usage, Exit::Partial, Exit::Denied, Exit::NoTarget, Exit::TimedOut];

/// Runs this command again, in a process that neither the end of this one nor the terminal ends;
/// its exit code. `None` in that process.
///
/// # Errors
/// If it cannot be started.
pub fn run_apart(connects: Connects) -> Result<Option<Exit>, Failure> {
    if connects == Connects::Here {
        // It fails where the process leads a group already, which no terminal signals then.
        let _own = rustix::process::setsid();
        return Ok(None);
    }
    let mut command = Command::new(SELF_EXE);
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    // What follows `--` is no option.
    let (options, rest) =
        words.split_at(words.iter().position(|it| it == "--").unwrap_or(words.len()));
    command.arg0("monitor").args(options).arg("--connects").args(rest);
    fd_limit::restore_in(&mut command);
    let status = command.status().map_err(|error| {
        Failure::failed(format!("cannot start the process that connects: {error}"))
    })?;
    let code = returned_code(status);
    Ok(Some(EXITS.into_iter().find(|it| *it as u8 == code).unwrap_or(Exit::Failed)))
}

/// Connects to the server of the job, and asks it. Call it before there is another thread.
///
/// # Errors
/// If the job has no server that survives tools on this node; if the server refuses, or does not
/// answer.
pub fn ask<T: Send + 'static>(
    target: &JobTarget,
    ask: impl FnOnce(&Tool) -> Result<T, PmixError> + Send + 'static,
) -> Result<T, Failure> {
    let Rendezvous { uri, folder, .. } = job_server(target)?;
    let id = &target.job.id;
    let mut processes = JobProcesses::open(target.job.ranks.iter().flat_map(|it| &it.all));
    let turn = ToolTurn::take(&folder).map_err(|error| Failure {
        message: format!("job {id}: the turn at its server ({}): {error}", folder.display()),
        exit: if error.kind() == TimedOut { Exit::TimedOut } else { Exit::Failed },
    })?;
    let (sender, answer) = channel();
    // This thread waits, and reads no environment.
    let _detached = std::thread::spawn(move || {
        processes.pause();
        let answer = Tool::connect(&uri).and_then(|tool| {
            let answer = ask(&tool);
            processes.pause();
            answer
        });
        drop(turn);
        // It is not received if it is late.
        let _sent = sender.send(answer);
    });
    match answer.recv_timeout(LIMIT) {
        Ok(answer) => answer.map_err(|error| Failure::failed(format!("job {id}: {error}"))),
        Err(RecvTimeoutError::Timeout) => Err(Failure {
            message: format!("job {id}: its server did not answer within {LIMIT:?}"),
            exit: Exit::TimedOut,
        }),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Failure::failed(format!("job {id}: the connection to its server was lost")))
        }
    }
}

/// The server of a job, by the rendezvous file that its ranks name.
///
/// # Errors
/// If the job has none that survives tools on this node, or the file is not to be believed.
pub fn job_server(target: &JobTarget) -> Result<Rendezvous, Failure> {
    let job = &target.job;
    let refused = |why: &str| Failure::usage(format!("job {}: {why}", job.id));
    match job.runtime {
        Runtime::Prrte | Runtime::Native => {}
        Runtime::OpenMpi4 => {
            let why = "mpirun of Open MPI 4 crashes when a PMIx tool connects, and the job with it";
            return Err(refused(why));
        }
        Runtime::Hydra | Runtime::Slurm | Runtime::Session | Runtime::Unknown => {
            let title = job.runtime.title();
            return Err(refused(&format!("its runtime ({title}) has no PMIx server for tools")));
        }
    }
    let launcher = job.launcher.map(|it| it.pid).or_else(|| persistent_server(&job.id));
    let launcher = launcher.ok_or_else(|| refused("its launcher is not on this node"))?;
    if executes_open_mpi_4(launcher) {
        return Err(refused("its launcher is orterun, which crashes when a PMIx tool connects"));
    }
    let first = job.ranks.first().ok_or_else(|| target.has_ended())?;
    let [folder, host] = [FOLDER, HOST].map(|name| variable(first.process, name));
    let (Some(folder), Some(host)) = (folder, host) else {
        return Err(refused(&format!("its ranks have no variables {FOLDER} and {HOST}")));
    };
    let own = rustix::process::geteuid().as_raw();
    let owner = job.uid.unwrap_or(own);
    if owner != own {
        // The library would read what a process of that user sends.
        return Err(refused(&format!("it belongs to user {owner}: connect as that user")));
    }
    rendezvous::read(Path::new(&folder), &host, launcher, owner)
        .map_err(|error| Failure::failed(format!("job {}: {error}", job.id)))
}

/// The process of `prte` with this job, which is no ancestor that starts and ends with it: its jobs
/// are `prte-HOST-PID@NUMBER`.
fn persistent_server(namespace: &str) -> Option<Pid> {
    let (server, _number) = namespace.strip_prefix("prte-")?.rsplit_once('@')?;
    server.rsplit_once('-')?.1.parse().ok().map(Pid)
}

/// Whether a process executes the launcher of Open MPI 4, whatever its ranks say.
pub fn executes_open_mpi_4(pid: Pid) -> bool {
    let executable = Process::new(pid.0.cast_signed()).and_then(|it| it.exe());
    executable.is_ok_and(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Runtime::of_program(&name).is_some_and(|(runtime, _)| runtime == Runtime::OpenMpi4)
    })
}

fn variable(process: Identity, name: &str) -> Option<String> {
    let environ = Process::new(process.pid.0.cast_signed()).and_then(|it| it.environ()).ok()?;
    environ.get(std::ffi::OsStr::new(name))?.to_str().map(str::to_owned)
}

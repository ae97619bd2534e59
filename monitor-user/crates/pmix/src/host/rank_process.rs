//! The process of a rank.
//!
//! In: a program, an environment, what the library adds to it. Out: a process in a group of its
//! own; what it writes, as it comes; its end. The kernel kills it when the host ends. The first
//! rank has the standard input of the host, the others have none.

use crate::attribute::ProcName;
use monitor_control::forwarded_output::forward;
use monitor_model::Pid;
use monitor_sys::pidfd::{self, PidFd};
use monitor_sys::readable::readable;
use monitor_sys::{fd_limit, spawn};
use rustix::process::{Pid as RawPid, Signal, kill_process_group};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// How long descendants of a rank that has ended may take to close its output.
const OUTPUT_CLOSES: Duration = Duration::from_secs(5);

/// Open MPI 4 takes its rank from PMIx if a launcher of another kind has started it: that of a
/// batch system, which it knows by a variable (its `schizo` components). Without one, each rank is
/// a job of its own. Nothing else reads this variable: other components would read a whole set.
const DIRECT_LAUNCH: (&str, &str) = ("JSM_JSRUN_PORT", "0");

/// What a rank executes.
#[derive(Clone, Debug)]
pub struct RankProgram {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its working directory, if it is not that of the host.
    pub folder: Option<PathBuf>,
    /// Its environment, without what the library adds.
    pub environment: Vec<(OsString, OsString)>,
}

/// Where the rank is in its job.
#[derive(Clone, Debug)]
pub struct RankPlace {
    /// Its name.
    pub name: ProcName,
    /// Number of ranks of its job.
    pub size: u32,
    /// What is before each line that it writes.
    pub prefix: Option<String>,
    /// Whether it has the standard input of the host.
    pub has_input: bool,
}

/// The process of a rank has ended.
#[derive(Debug)]
pub struct RankEnd {
    /// The rank.
    pub name: ProcName,
}

/// A process.
#[derive(Debug)]
pub struct RankProcess {
    child: Child,
    status: Option<ExitStatus>,
    /// Closed when all of its output is written.
    written: Receiver<()>,
}

impl RankProcess {
    /// Starts it. The thread that starts it must live as long as the host.
    ///
    /// # Errors
    /// If the program cannot be executed, or a pipe cannot be had.
    pub fn start(
        program: &RankProgram,
        place: &RankPlace,
        added: &[CString],
        ended: UnboundedSender<RankEnd>,
    ) -> io::Result<Self> {
        let words = program.command.split_first();
        let (path, arguments) = words.ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(path);
        command.args(arguments).env_clear().envs(program.environment.iter().cloned());
        let sizes = place.size.to_string();
        command.env("MONITOR_JOB_SIZE", &sizes).env("MONITOR_JOB_LOCAL_SIZE", &sizes);
        let (name, value) = DIRECT_LAUNCH;
        command.env(name, value);
        for variable in added.iter().map(|it| it.as_bytes()) {
            let at = variable.iter().position(|it| *it == b'=').unwrap_or(variable.len());
            let (name, value) = variable.split_at(at);
            let value = value.get(1..).unwrap_or_default();
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if place.has_input { Stdio::piped() } else { Stdio::null() });
        fd_limit::restore_in(&mut command);
        spawn::default_signals(&mut command);
        spawn::end_with_parent(&mut command);
        let mut child = command.spawn()?;
        let pidfd = readable(PidFd::open(Pid(child.id()))?.into())?;
        let (writing, written) = channel();
        let prefix = place.prefix.as_deref();
        forward(child.stdout.take(), prefix, io::stdout, writing.clone());
        forward(child.stderr.take(), prefix, io::stderr, writing);
        if let Some(mut input) = child.stdin.take() {
            // It ends with the input, or at the first write after the rank has closed it.
            let _detached = std::thread::spawn(move || io::copy(&mut io::stdin(), &mut input));
        }
        let name = place.name.clone();
        tokio::spawn(async move {
            // A pidfd is readable when the process has ended.
            let _readable = pidfd.readable().await;
            // The host has ended, if it is not received.
            let _sent = ended.send(RankEnd { name });
        });
        Ok(Self { child, status: None, written })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Whether it has not ended, as far as was seen.
    pub const fn runs(&self) -> bool {
        self.status.is_none()
    }

    /// How it ended, if that was not seen before.
    pub fn take_end(&mut self) -> Option<ExitStatus> {
        if self.status.is_some() {
            return None;
        }
        // It is a child that nothing else waits for.
        self.status = self.child.try_wait().ok().flatten();
        self.status
    }

    /// How it ended.
    pub const fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Sends a signal to it and its descendants, if it has not ended: its group is then there.
    pub fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(RawPid::from_raw);
        if self.runs() {
            // All of them have ended, if this fails.
            let _sent = group.map(|group| kill_process_group(group, signal));
        }
    }

    /// Waits until its output is written.
    pub fn finish_output(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let _closed = self.written.recv_timeout(left);
    }
}

/// When output is no longer waited for.
pub fn output_closes() -> Instant {
    Instant::now() + OUTPUT_CLOSES
}

/// The exit code of a process, or 128 plus the signal that ended it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = pidfd::exit_code(status.into_raw().cast_unsigned());
    u8::try_from(code).unwrap_or(u8::MAX)
}

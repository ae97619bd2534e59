//! The processes of a tool that run beside the ranks of a job.
//!
//! In: a command of the shell, and the ranks. Out: one process for all ranks, or one for each, with
//! the ranks in its environment; what it writes, line by line, with the rank before it. Each is in
//! a process group of its own, and is killed when this process ends.

use monitor_jobs::{ParallelJob, RankSet};
use monitor_model::Identity;
use monitor_sys::spawn;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const SHELL: &str = "/bin/sh";
/// How long a daemon may take to end after SIGTERM, and its descendants to close its output.
const END: Duration = Duration::from_secs(5);
/// Longest part of a line that is kept until it is written.
const LONGEST_LINE: u64 = 64 << 10;

/// A rank that a daemon is beside.
#[derive(Clone, Copy, Debug)]
pub struct AttachedRank {
    /// Its number.
    pub rank: u32,
    /// The process that has its program.
    pub process: Identity,
}

/// A process of the tool.
#[derive(Debug)]
pub struct ToolDaemon {
    /// The rank that it is beside, if it is not beside all.
    pub rank: Option<u32>,
    child: Child,
    status: Option<ExitStatus>,
    /// Closed when all of its output is written.
    written: Receiver<()>,
}

impl ToolDaemon {
    /// Starts one beside all ranks, or beside the one of this index.
    ///
    /// # Errors
    /// If the shell cannot be executed.
    pub fn start(
        command: &OsStr,
        job: &ParallelJob,
        ranks: &[AttachedRank],
        index: Option<usize>,
    ) -> io::Result<Self> {
        let set: RankSet = ranks.iter().map(|it| it.rank).collect();
        let pids: Vec<String> = ranks.iter().map(|it| it.process.pid.0.to_string()).collect();
        let mut shell = Command::new(SHELL);
        shell.arg("-c").arg(command).process_group(0).stdin(Stdio::null());
        shell.env("MONITOR_JOB_ID", &*job.id).env("MONITOR_JOB_RUNTIME", job.runtime.name());
        shell.env("MONITOR_JOB_RANKS", set.to_string()).env("MONITOR_JOB_PIDS", pids.join(" "));
        let beside = index.and_then(|index| Some((index, ranks.get(index)?)));
        if let Some((index, it)) = beside {
            shell.env("MONITOR_JOB_RANK", it.rank.to_string());
            shell.env("MONITOR_JOB_PID", it.process.pid.0.to_string());
            shell.env("MONITOR_JOB_LOCAL_RANK", index.to_string());
        }
        spawn::default_signals(&mut shell);
        spawn::end_with_parent(&mut shell);
        let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let rank = beside.map(|(_, it)| it.rank);
        let (writing, written) = channel();
        forward(child.stdout.take(), rank, io::stdout, writing.clone());
        forward(child.stderr.take(), rank, io::stderr, writing);
        Ok(Self { rank, child, status: None, written })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        // It is a child that nothing else waits for.
        self.status = self.status.or_else(|| self.child.try_wait().ok().flatten());
        self.status
    }

    /// Sends a signal to it and its descendants.
    pub fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // All of them have ended, if this fails.
        let _sent = group.map(|group| kill_process_group(group, signal));
    }

    /// Waits until its output is written.
    fn finish(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        // A descendant may keep it open for longer.
        let _closed = self.written.recv_timeout(left);
    }
}

/// Ends those that run, SIGKILL after SIGTERM, and writes what all have written; how each ended.
pub fn end_all(mut daemons: Vec<ToolDaemon>) -> Vec<(Option<u32>, Option<ExitStatus>)> {
    let until = Instant::now() + END;
    for daemon in &mut daemons {
        if daemon.status().is_none() {
            daemon.signal(Signal::TERM);
        }
    }
    for daemon in &mut daemons {
        if daemon.status().is_none() {
            // Its output is closed at its end, unless a descendant has it.
            daemon.finish(until);
        }
        if daemon.status().is_none() {
            daemon.signal(Signal::KILL);
            daemon.status = daemon.child.wait().ok();
        }
        daemon.finish(until);
    }
    daemons.into_iter().map(|it| (it.rank, it.status)).collect()
}

/// Writes lines as they come, with the rank before each, on a thread.
fn forward<W: Write + 'static>(
    from: Option<impl Read + Send + 'static>,
    rank: Option<u32>,
    to: fn() -> W,
    writing: Sender<()>,
) {
    let Some(from) = from else { return };
    let _detached = std::thread::spawn(move || {
        let prefix = rank.map(|rank| format!("[{rank}] ")).unwrap_or_default();
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            line.extend_from_slice(prefix.as_bytes());
            match from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            // A reader that has gone: the daemon gets SIGPIPE at its next line.
            if to().write_all(&line).and_then(|()| to().flush()).is_err() {
                break;
            }
        }
        drop(writing);
    });
}

//! `monitor job output-keeper`: reads and keeps what a launcher in the background writes.
//!
//! In: the pipes of the launcher, from the process that has started it; how it ended. Out: its
//! output, to commands at a socket in the folder of the launch, also for a while after its end.
//! Where an earlier keeper was killed, this one goes on: what that one kept is lost and counted.

use super::background::leave_terminal;
use super::launch_args::JobOutputKeeperArgs;
use super::launched_ranks::{LaunchedRanks, reaped};
use super::launcher_host::NAMES;
use crate::cli::exit::Failure;
use monitor_control::host_protocol::{
    EndedRank, HostAnswer, HostRequest, OutputSpan, SpanOf, log_line, socket_path,
};
use monitor_control::host_socket::{HostAnswers, listen};
use monitor_control::launcher_output::{KeptPosition, KeptStream};
use monitor_control::output_log::{
    KEPT_OUTPUT, LOOK_AGAIN, OutputLog, OutputSource, READERS_LEAVE,
};
use monitor_jobs::rank_label::RankLabel;
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The command name of this process.
const PROGRAM: &CStr = c"monitor-output";
/// The line of this process when commands can connect.
const READY: &str = "ready";
/// The file with the number of bytes that the launcher has written.
const POSITION: &str = "position";
/// How long descendants of a launcher that has ended may keep its output open, and write nothing.
const OUTPUT_CLOSES: Duration = Duration::from_secs(5);
/// How long parents of processes that have ended may take until they have reaped them: before, the
/// kernel does not say how they ended.
pub const REAPED: Duration = Duration::from_millis(500);

/// Keeps the output, until it is kept no longer.
///
/// # Errors
/// If the pipes, the folder or its socket are not there.
pub fn output_keeper(args: &JobOutputKeeperArgs) -> Result<u8, Failure> {
    keep(args).map_err(|error| Failure::failed(format!("job launch: keeping output: {error}")))?;
    Ok(0)
}

fn keep(args: &JobOutputKeeperArgs) -> io::Result<()> {
    let _named = rustix::thread::set_name(PROGRAM);
    let label = args.label.as_deref().and_then(RankLabel::from_name);
    let (position, at) = KeptPosition::open(&args.folder.join(POSITION))?;
    let log = OutputLog::continued(KEPT_OUTPUT, at);
    let keeper = Arc::new(Keeper {
        id: args.id.clone(),
        label,
        log: Arc::clone(&log),
        ends: Mutex::default(),
    });
    let folder = File::open(&args.folder)?;
    // That of an earlier keeper.
    let _old = fs::remove_file(socket_path(&folder));
    listen(&args.folder, Arc::clone(&log), Arc::clone(&keeper))?;
    let stream = KeptStream {
        log: Arc::clone(&log),
        source: keeper.source(false),
        label,
        position: Arc::new(position),
    };
    let written = read_streams(args, &stream)?;
    let host = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let launcher = PidFd::open(Pid(args.launcher));
    // It ends with the launcher where the parent has gone.
    let _unread = leave_terminal(READY);
    let ranks = look_for_ranks(args.folder.clone());
    let status = wait(host, launcher.ok());
    finish(&log, &written);
    let mut ends = vec![keeper.launcher_end(status)];
    ends.extend(lock(&ranks).ends(&args.id, Instant::now() + REAPED));
    *lock(&keeper.ends) = ends;
    log.close();
    wait_for_readers(&log, Instant::now() + args.keep);
    // The process that has started the launcher does it as well, unless it was killed.
    let _removed = fs::remove_dir_all(&args.folder);
    Ok(())
}

/// Reads the streams on threads; the receiver is disconnected at their ends.
fn read_streams(args: &JobOutputKeeperArgs, stream: &KeptStream) -> io::Result<Receiver<()>> {
    let (writing, written) = channel();
    for (fd, is_error) in args.streams.iter().zip([false, true]) {
        let from = File::open(format!("/proc/self/fd/{fd}"))?;
        let source = OutputSource { is_error, ..stream.source.clone() };
        let stream = KeptStream { source, ..stream.clone() };
        read_stream(from, stream, writing.clone());
    }
    Ok(written)
}

fn read_stream(from: File, stream: KeptStream, writing: Sender<()>) {
    let _detached = std::thread::spawn(move || {
        // An error of a pipe is its end.
        let _ended = stream.keep(from);
        drop(writing);
    });
}

/// Looks for the ranks of the launcher on a thread, and notes the id of their job.
pub fn look_for_ranks(folder: PathBuf) -> Arc<Mutex<LaunchedRanks>> {
    let ranks = Arc::new(Mutex::new(LaunchedRanks::default()));
    let found = Arc::clone(&ranks);
    let _detached = std::thread::spawn(move || {
        let mut is_noted = false;
        for pause in LaunchedRanks::pauses() {
            std::thread::sleep(pause);
            let Some((job, is_complete)) = lock(&found).find(&folder) else { continue };
            // Without it, the job is found by the id of the launch.
            is_noted = is_noted || note_name(&folder, &job.id).is_ok();
            if is_complete {
                return;
            }
        }
    });
    ranks
}

fn note_name(folder: &Path, id: &str) -> io::Result<()> {
    let mut names = File::options().append(true).open(folder.join(NAMES))?;
    writeln!(names, "{id}")
}

/// Waits for the end of the launcher: its status, from the process that has started it; if that was
/// killed, from the kernel, or not at all.
fn wait(host: File, launcher: Option<PidFd>) -> Option<ExitStatus> {
    let mut line = String::new();
    let read = BufReader::new(host).read_line(&mut line);
    let status = read.ok().and_then(|_| line.trim_end().parse().ok());
    let from_kernel = || {
        let launcher = launcher?;
        let mut ends = [PollFd::new(&launcher, PollFlags::IN)];
        let _readable = poll(&mut ends, None);
        reaped(&launcher, Instant::now() + REAPED)
    };
    status.map(ExitStatus::from_raw).or_else(from_kernel)
}

/// Waits until all output is in the log: until the pipes are closed, or nothing has come from a
/// descendant that keeps them open for a while.
fn finish(log: &OutputLog, written: &Receiver<()>) {
    let mut seen = (log.added(), Instant::now());
    while matches!(written.recv_timeout(LOOK_AGAIN), Err(RecvTimeoutError::Timeout)) {
        let (added, waiting) = log.added();
        if waiting > 0 || added != seen.0.0 {
            seen = ((added, waiting), Instant::now());
        }
        if seen.1.elapsed() >= OUTPUT_CLOSES {
            return;
        }
    }
}

/// Waits until this time, and then for commands that have not read all: one that reads nothing for
/// a while is not waited for.
pub fn wait_for_readers(log: &OutputLog, until: Instant) {
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    let mut seen = (log.readers().1, Instant::now());
    loop {
        let (readers, taken) = log.readers();
        if taken != seen.0 {
            seen = (taken, Instant::now());
        }
        if readers == 0 || seen.1.elapsed() >= READERS_LEAVE {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

struct Keeper {
    id: String,
    label: Option<RankLabel>,
    log: Arc<OutputLog>,
    /// How the launcher and its ranks ended, when all of their output is kept.
    ends: Mutex<Vec<EndedRank>>,
}

impl Keeper {
    /// The source of what has no label.
    fn source(&self, is_error: bool) -> OutputSource {
        OutputSource { group: self.id.as_str().into(), rank: None, is_error }
    }

    fn launcher_end(&self, status: Option<ExitStatus>) -> EndedRank {
        EndedRank {
            namespace: self.id.clone(),
            rank: None,
            code: status.and_then(|it| it.code()),
            signal: status.and_then(|it| it.signal()),
        }
    }
}

impl HostAnswers for Keeper {
    fn answer(&self, request: HostRequest) -> io::Result<HostAnswer> {
        Ok(match request {
            HostRequest::Output(_) => HostAnswer::Ended(lock(&self.ends).clone()),
            HostRequest::Log { text, is_error } => {
                let line = log_line(&text);
                // What is not kept is counted.
                let _kept = self.log.append_at_once(&self.source(is_error), line.as_bytes());
                HostAnswer::Done
            }
            HostRequest::Query { .. } | HostRequest::Notify { .. } => HostAnswer::Refused(
                "this process keeps output; name the job, whose runtime is asked".to_owned(),
            ),
        })
    }

    fn refusal(&self, span: OutputSpan) -> Option<String> {
        (span.of == SpanOf::Ranks && self.label.is_none()).then(|| {
            "the launcher does not label what its ranks write: start it with `launch --tag`, or \
             leave out the ranks"
                .to_owned()
        })
    }
}

/// Locks it, whichever thread has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

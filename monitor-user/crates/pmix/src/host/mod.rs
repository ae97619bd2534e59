//! The host: ranks of one job, and of those that it starts, on this node.
//!
//! In: a plan, upcalls of the library, ends of processes, signals. Out: how the job ended. When one
//! rank fails, the others get SIGTERM, and SIGKILL later. Ranks are killed when this process ends,
//! however it ends.

mod answers;
mod debugged;
mod heartbeats;
mod hosted_job;
mod job_control;
mod job_data;
mod logged;
mod published;
mod query;
mod rank_process;
mod request_socket;
mod spawn_request;
mod spawned;
mod tool_output;
mod tools;
mod usage;

pub use job_data::{SERVER, server as server_attributes};
pub use usage::{UsageSink, UsageSource};

use crate::attribute::ProcName;
use crate::libpmix::{PmixError, Server, set_queue};
use crate::registration::{RegisteredJob, register};
use crate::rendezvous;
use crate::status;
use crate::upcall::Upcall;
use hosted_job::{HostedJob, job_of};
use monitor_control::host_protocol::log_line;
use monitor_control::job_folder::JobFolder;
use monitor_control::output_log::{
    KEPT_OUTPUT, LOOK_AGAIN, OutputLog, OutputSource, READERS_LEAVE,
};
use monitor_jobs::hold_table::HoldPoint;
use monitor_model::Pid;
use monitor_sys::pidfd::returned_code;
use published::Published;
use rank_process::RankEnd;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::ffi::{CString, OsString, c_int};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tool_output::ToolOutput;
use usage::Monitors;

/// Time between SIGTERM and SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// Exit code of a job whose command has gone before it could say that the job runs.
const INTERRUPTED: u8 = 130;
/// How long what a job has written is waited for, before its end is reported: a descendant may keep
/// its output open.
const OUTPUT_FOLLOWS: Duration = Duration::from_millis(100);
/// Exit code of a job that ended because a rank ended without `PMIx_Finalize`.
const NOT_FINALIZED: u8 = 1;

/// What a job is.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Its namespace, which is its id.
    pub nspace: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Number of ranks.
    pub ranks: u32,
    /// The environment of the ranks, without what the host adds.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether the rank is before each line that it writes.
    pub tags: bool,
    /// The folder for sockets and files, which has a folder of its own in it.
    pub folder: PathBuf,
    /// Name of this node.
    pub host: String,
    /// Shows a line to the user.
    pub notice: fn(&str),
    /// Whether ranks wait where their program says so, until an event releases them.
    pub stops_in_app: bool,
    /// Whether it runs without a terminal: what ranks write is only kept, for commands, and for
    /// this long after their end.
    pub keeps: Option<Duration>,
    /// Is called when the ranks were started; the job ends if it returns `false`.
    pub started: fn() -> bool,
    /// Is called when all ranks of a job wait at a place, and when they are released.
    pub held: fn(&str, Option<HoldPoint>),
}

/// Why a job has not begun.
#[derive(Debug, Error)]
pub enum HostError {
    /// The program cannot be executed.
    #[error("cannot execute {program}: {error}")]
    NotStarted {
        /// The program.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// A folder, a pipe or an event loop cannot be had.
    #[error("{what}: {error}")]
    Failed {
        /// What.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The library refuses it.
    #[error(transparent)]
    Pmix(#[from] PmixError),
}

/// A host.
struct Host {
    plan: HostPlan,
    jobs: Vec<HostedJob>,
    published: Published,
    monitors: Monitors,
    /// Number of tools that have connected.
    tools: u32,
    /// Users whose connections were refused, each of which is a notice.
    refused: BTreeSet<Option<u32>>,
    /// What the ranks have written.
    log: Arc<OutputLog>,
    /// What of it tools get.
    output: ToolOutput,
    ended: UnboundedSender<RankEnd>,
    /// The code of the first failure: all jobs are ending, if there is one.
    code: Option<u8>,
    /// When what still runs is killed.
    kill_at: Option<Instant>,
    /// After all that may reply to it.
    server: Server,
    /// After the server, whose files are in it.
    folder: JobFolder,
}

/// Starts a job, serves it until all of its processes have ended, and returns its exit code: that
/// of the first rank that failed, or 128 plus the signal that ended it. Call it before there is
/// another thread.
///
/// # Errors
/// If the job cannot begin.
pub fn run(plan: HostPlan, usage: Box<dyn UsageSource>) -> Result<u8, HostError> {
    let folder = JobFolder::create(&plan.folder, &plan.nspace)
        .map_err(|error| HostError::Failed { what: "the folder of the job", error })?;
    let (queue, upcalls) = unbounded_channel();
    set_queue(queue.clone());
    let server = Server::start(&job_data::server(folder.path()))?;
    // The library lets all users enter it (`pmix_os_dirpath_create`, 4.2.2).
    let closed = folder.close_to_others();
    closed
        .map_err(|error| HostError::Failed { what: "the mode of the folder of the job", error })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| HostError::Failed { what: "the event loop", error })?;
    let (ended, ends) = unbounded_channel();
    let (published, monitors) = (Published::default(), Monitors::new(usage, queue));
    let mut host = Host {
        plan,
        jobs: Vec::new(),
        published,
        monitors,
        tools: 0,
        refused: BTreeSet::new(),
        log: OutputLog::new(KEPT_OUTPUT),
        output: ToolOutput::new(server.output_sender()),
        ended,
        code: None,
        kill_at: None,
        server,
        folder,
    };
    let failed = |error| HostError::Failed { what: "the socket for commands", error };
    let found = rendezvous::read(
        host.folder.path(),
        &host.plan.host,
        Pid(std::process::id()),
        rustix::process::geteuid().as_raw(),
    );
    if let Ok(found) = found {
        let command = host.plan.command.first().map(|it| it.to_string_lossy().into_owned());
        let namespace = host.plan.nspace.clone();
        let command = command.unwrap_or_default();
        // The server of the node does not know it then.
        let _unknown =
            register(RegisteredJob { uid: 0, namespace, uri: found.uri, command, pid: 0 });
    }
    request_socket::listen(host.folder.path(), Arc::clone(&host.log)).map_err(failed)?;
    runtime.block_on(host.serve(upcalls, ends))
}

impl Host {
    async fn serve(
        &mut self,
        mut upcalls: UnboundedReceiver<Upcall>,
        mut ends: UnboundedReceiver<RankEnd>,
    ) -> Result<u8, HostError> {
        let failed = |error| HostError::Failed { what: "signals", error };
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
        self.start_first()?;
        if !(self.plan.started)() {
            self.keep_nothing();
            self.end(INTERRUPTED);
        }
        while self.jobs.iter().any(HostedJob::runs) {
            let kills = self.jobs.iter().filter_map(|it| it.kill_at).chain(self.kill_at);
            let next = kills.chain(self.monitors.next_due()).min();
            tokio::select! {
                biased;
                _ = terminate.recv() => self.signalled(SignalKind::terminate()),
                _ = interrupt.recv() => self.signalled(SignalKind::interrupt()),
                _ = hang_up.recv() => {
                    self.keep_nothing();
                    self.signalled(SignalKind::hangup());
                }
                // What a process has called before it ended is known at its end.
                Some(upcall) = upcalls.recv() => self.upcall(upcall),
                Some(end) = ends.recv() => self.rank_ended(&end),
                () = sleep_until(next) => self.tick(),
            }
        }
        self.jobs.iter().for_each(HostedJob::finish_output);
        self.log.close();
        let until = Instant::now() + self.plan.keeps.unwrap_or_default();
        let mut readers = (self.log.readers().1, Instant::now());
        // For commands that have not read all.
        while Instant::now() < until || self.has_readers(&mut readers) {
            let soon = Instant::now() + LOOK_AGAIN;
            let next = if until > soon { until } else { soon };
            tokio::select! {
                biased;
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => {}
                Some(upcall) = upcalls.recv() => self.upcall(upcall),
                () = sleep_until(Some(next)) => {}
            }
        }
        Ok(self.code.unwrap_or(0))
    }

    /// Whether commands read the output; `seen` has the parts that they have had, and since when.
    /// One that reads nothing for a while is not waited for.
    fn has_readers(&self, seen: &mut (u64, Instant)) -> bool {
        let (readers, taken) = self.log.readers();
        if taken != seen.0 {
            *seen = (taken, Instant::now());
        }
        readers > 0 && seen.1.elapsed() < READERS_LEAVE
    }

    /// Does what is due.
    fn tick(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill();
        }
        for job in self.jobs.iter_mut().filter(|it| it.kill_at.is_some_and(|at| at <= now)) {
            job.kill_at = None;
            job.signal(Signal::KILL);
        }
        self.monitors.run_due(now, &self.server, &self.jobs);
        self.show_usage_notice();
    }

    fn show_usage_notice(&mut self) {
        if let Some(text) = self.monitors.take_notice() {
            self.notice(&text);
        }
    }

    /// No command knows the job: its output is not kept after its end.
    fn keep_nothing(&mut self) {
        if let Some(keeps) = &mut self.plan.keeps {
            *keeps = Duration::ZERO;
        }
    }

    /// A signal for the whole job; the second one does not wait any longer.
    fn signalled(&mut self, kind: SignalKind) {
        if self.code.is_some() {
            self.kill();
        } else {
            self.end(128 + u8::try_from(kind.as_raw_value()).unwrap_or(0));
        }
    }

    fn kill(&mut self) {
        self.kill_at = None;
        self.jobs.iter().for_each(|job| job.signal(Signal::KILL));
    }

    /// Ends all jobs; the first failure decides the code.
    fn end(&mut self, code: u8) {
        if self.code.is_none() {
            self.code = Some(code);
            self.kill_at = Some(Instant::now() + KILL_AFTER);
            self.jobs.iter().for_each(|job| job.signal(Signal::TERM));
            // A stopped process gets SIGTERM when it runs.
            self.jobs.iter().for_each(|job| job.signal(Signal::CONT));
        }
    }

    fn rank_ended(&mut self, end: &RankEnd) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.nspace == end.name.nspace) else {
            return;
        };
        let Some((Pid(pid), status, has_left)) = job.ended(end.name.rank) else { return };
        self.monitors.rank_ended(&end.name);
        self.published.process_ended(&end.name);
        if self.code.is_none() && !job.is_abandoned && job.target.is_none() {
            let which = job.title(end.name.rank);
            if !status.success() {
                self.notice(&format!("{which}, process {pid}, ended with {status}"));
                self.end(returned_code(status));
            } else if !has_left {
                self.notice(&format!(
                    "{which}, process {pid}, ended without MPI_Finalize; the job ends"
                ));
                self.end(NOT_FINALIZED);
            }
        }
        if let Some(job) = job_of(&self.jobs, &end.name.nspace)
            && !job.runs()
        {
            job.finish_output_until(Instant::now() + OUTPUT_FOLLOWS);
            self.server.deregister_nspace(&job.nspace);
            let nspace = job.nspace.clone();
            if !self.output.end(&self.log, &nspace) {
                self.say_ended(job);
            }
            self.end_daemons(|it| it.target.as_ref() == Some(&nspace));
        }
    }

    fn upcall(&mut self, upcall: Upcall) {
        match upcall {
            Upcall::Connected(name, reply) => {
                self.with_job(&name, |job| job.connected(name.rank));
                reply.status(status::SUCCESS);
            }
            Upcall::Finalized(name, reply) => {
                self.with_job(&name, |job| job.finalized(name.rank));
                reply.status(status::SUCCESS);
            }
            Upcall::Abort(name, code, message, reply) => {
                self.aborted(&name, code, message);
                reply.status(status::SUCCESS);
            }
            // All of its processes are here: what they contributed is all there is.
            Upcall::Fence(blob, reply) => reply.modex(blob),
            Upcall::Publish(name, attributes, reply) => {
                reply.status(self.published.publish(&name, attributes));
            }
            Upcall::Lookup(keys, attributes, reply) => {
                self.published.look_up(keys, &attributes, reply);
            }
            Upcall::Unpublish(name, keys, reply) => {
                reply.status(self.published.remove(&name, keys.as_deref()));
            }
            Upcall::Spawn(parent, attributes, apps, reply) => {
                self.spawn(&parent, &attributes, &apps, reply);
            }
            Upcall::Event(code, name, attributes) => self.raised(code, &name, &attributes),
            Upcall::Request(request, answer) => {
                // The command has gone, if this fails.
                let _gone = answer.send(self.answer(request));
            }
            Upcall::Query(queries, reply) => {
                query::answer((&self.jobs, &self.plan.host), &queries, reply);
            }
            Upcall::Refused(owner) => self.refused(owner),
            Upcall::ToolConnected(attributes, reply) => self.tool_connected(&attributes, reply),
            Upcall::Log(name, attributes, reply) => {
                let write = |text: &str, is_error| self.write_line(text, is_error);
                reply.status(logged::write(&name, &attributes, write));
            }
            Upcall::JobControl(name, targets, attributes, reply) => {
                reply.status(job_control::act(&self.jobs, &name, &targets, &attributes));
            }
            Upcall::HeartbeatsMissing(lost) => self.heartbeats_missing(&lost),
            Upcall::OutputSent(nspace) => {
                if let Some(job) = job_of(&self.jobs, &nspace) {
                    self.say_ended(job);
                }
                self.output.remove(&nspace);
            }
            Upcall::Left(name) => self.left(&name),
            Upcall::Pull(names, streams) => self.pull(&names, streams),
            Upcall::ServiceUsage(number, usage) => {
                self.monitors.service_usage(number, usage, &self.server);
            }
            Upcall::Monitor(name, what, code, attributes, reply) => {
                self.monitors.request(&self.jobs, (&name, &what, code), &attributes, reply);
                self.show_usage_notice();
            }
        }
    }

    /// Shows a line to the user, and keeps it with the output.
    fn notice(&self, text: &str) {
        (self.plan.notice)(text);
        let line = format!("monitor: {text}\n");
        // What is not kept is counted.
        let _kept = self.log.append_at_once(&self.own_output(true), line.as_bytes());
    }

    /// Writes a line on the standard output or error; whether it was written.
    fn write_line(&self, text: &str, is_error: bool) -> bool {
        let line = log_line(text);
        let _kept = self.log.append_at_once(&self.own_output(is_error), line.as_bytes());
        let written = match is_error {
            _ if self.plan.keeps.is_some() => Ok(()),
            true => io::stderr().write_all(line.as_bytes()),
            false => io::stdout().write_all(line.as_bytes()),
        };
        written.is_ok()
    }

    fn own_output(&self, is_error: bool) -> OutputSource {
        OutputSource { group: self.plan.nspace.as_str().into(), rank: None, is_error }
    }

    /// A tool wants the output of these.
    fn pull(&mut self, names: &[ProcName], streams: [bool; 2]) {
        for name in names {
            if job_of(&self.jobs, &name.nspace).is_some() {
                // It gets nothing then.
                let _refused = self.output.add(&self.log, &name.nspace, streams);
            }
        }
    }

    fn with_job(&mut self, name: &ProcName, act: impl FnOnce(&mut HostedJob)) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.nspace == name.nspace) {
            act(job);
        }
    }

    fn aborted(&mut self, name: &ProcName, code: c_int, message: Option<CString>) {
        let job = job_of(&self.jobs, &name.nspace);
        let which = job.map_or_else(|| name.nspace.clone(), |job| job.title(name.rank));
        let text = message.filter(|it| !it.is_empty());
        let text = text.map(|it| format!(": {}", it.to_string_lossy())).unwrap_or_default();
        self.notice(&format!("{which} ended the job with status {code}{text}"));
        // The status of an abort that is 0 is a failure, too.
        let code = u8::try_from(code & 0xff).unwrap_or(1).max(1);
        self.end(code);
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

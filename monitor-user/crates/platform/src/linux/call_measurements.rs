//! Measurements of calls of MPI that tools have asked for, each on a thread of its own.
//!
//! In: ranks that a tool may control, and for how long. Out: the measured calls, later. The thread
//! loads BPF programs with the rights of the service; what it must know of the files and the memory
//! of the ranks is read by a process with the rights of the tool's user alone.

use super::opening::OpeningWaker;
use crate::PlatformEvent;
use crate::call_measurement::{CallError, CallOptions, CallSession, CallSpec, values};
use crate::poller::backend_refusal;
use monitor_backend::Opener;
use monitor_backend::call_profile::ProbeLinks;
use monitor_control::call_questions::{CallAnswer, CallAnswers, CallQuestion};
use monitor_control::user_worker::{User, WorkerProxy};
use monitor_control::{ControlError, ToolId, UserWorker as _, WorkerReply, WorkerRequest};
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::Identity;
use monitor_omis::{Status, Value};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Most measurements at a time, and most of one user.
const MAX_RUNNING: usize = 8;
const MAX_OF_USER: usize = 2;
/// Longest time until it is seen that the tool has gone, or that the ranks have ended.
const PAUSE: Duration = Duration::from_millis(50);

/// All measurements.
pub struct CallMeasurements {
    opener: Opener,
    /// The program that reads for users.
    program: PathBuf,
    running: HashMap<Ticket, RunningMeasurement>,
    waker: OpeningWaker,
}

type Measured = Result<Vec<Value>, Refusal>;

struct RunningMeasurement {
    session: SessionId,
    user: u32,
    is_ended: Arc<AtomicBool>,
    result: Receiver<Measured>,
}

impl CallMeasurements {
    /// None yet.
    pub fn new(opener: Opener, program: PathBuf) -> Self {
        Self { opener, program, running: HashMap::new(), waker: OpeningWaker::new() }
    }

    /// Begins one; its result comes with [`CallMeasurements::poll`].
    ///
    /// # Errors
    /// If there are too many, or eBPF is not to be used.
    pub fn start(&mut self, ticket: Ticket, tool: &Tool, spec: CallSpec) -> Result<(), Refusal> {
        if !self.opener.choice.permits_ebpf() {
            let text = "calls are measured by eBPF only: see monitor doctor";
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        }
        let of_user = self.running.values().filter(|it| it.user == tool.uid).count();
        if self.running.len() >= MAX_RUNNING || of_user >= MAX_OF_USER {
            let text = format!(
                "{of_user} measurements of this user are running, and {} in all: at most \
                 {MAX_OF_USER} and {MAX_RUNNING} are possible; retry when one is over",
                self.running.len()
            );
            return Err(Refusal::new(Status::BUSY, text));
        }
        let (sender, result) = channel();
        let is_ended = Arc::new(AtomicBool::new(false));
        let (waker, end) = (self.waker.clone(), Arc::clone(&is_ended));
        let (open, program) = (self.opener.open_call_profiler, self.program.clone());
        let user = (tool.uid, tool.gid);
        let run = move || {
            let reader = UserReader::start(&program, user);
            let measured = reader.and_then(|reader| {
                let options = options(&spec, user.0);
                let reader = Box::new(reader);
                let session = CallSession::begin(open, options, &spec.ranks, reader);
                session.and_then(|it| measure(it, spec.span, &end)).map_err(refusal)
            });
            // Fails only if the platform was dropped meanwhile.
            let _ = sender.send(measured);
            waker.wake();
        };
        let started = thread::Builder::new().name("job_calls".into()).spawn(run);
        started.map_err(|error| {
            Refusal::new(Status::RESOURCE, format!("a thread that measures calls: {error}"))
        })?;
        let running =
            RunningMeasurement { session: tool.session, user: tool.uid, is_ended, result };
        let _none = self.running.insert(ticket, running);
        Ok(())
    }

    /// Readable when one is over.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.waker.fd()
    }

    /// Those that are over.
    pub fn poll(&mut self) -> Vec<PlatformEvent> {
        let _woken = self.waker.take();
        let mut done = Vec::new();
        for (ticket, it) in &self.running {
            let measured = match it.result.try_recv() {
                Ok(measured) => measured,
                Err(TryRecvError::Empty) => continue,
                Err(TryRecvError::Disconnected) => {
                    let text = "the measurement failed: internal error";
                    Err(Refusal::new(Status::INTERNAL, text))
                }
            };
            done.push((*ticket, measured));
        }
        let event = |(ticket, measured)| {
            PlatformEvent::ActionDone(ticket, vec![(Identity::default(), measured)])
        };
        self.running.retain(|ticket, _| !done.iter().any(|(it, _)| it == ticket));
        done.into_iter().map(event).collect()
    }

    /// A tool has gone: its measurements end, and their probes with them.
    pub fn session_ended(&mut self, tool: &Tool) {
        for it in self.running.values().filter(|it| it.session == tool.session) {
            it.is_ended.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for CallMeasurements {
    fn drop(&mut self) {
        self.running.values().for_each(|it| it.is_ended.store(true, Ordering::Relaxed));
    }
}

const fn options(spec: &CallSpec, user: u32) -> CallOptions {
    let (ends, max_overhead) = (spec.ends, Some(spec.max_overhead));
    CallOptions { ends, links: ProbeLinks::Best, max_overhead, user }
}

/// Measures until the time is over, the tool has gone or all ranks have ended.
fn measure(
    mut session: CallSession,
    span: Duration,
    is_ended: &AtomicBool,
) -> Result<Vec<Value>, CallError> {
    session.add_calls_of_before();
    let start = Instant::now();
    while start.elapsed() < span && !is_ended.load(Ordering::Relaxed) && session.has_ranks() {
        thread::sleep(PAUSE.min(span.saturating_sub(start.elapsed())));
        session.read_sums()?;
    }
    session.finish().map(|measured| values::values(&measured))
}

fn refusal(error: CallError) -> Refusal {
    match error {
        CallError::Backend(error) => backend_refusal(error),
        CallError::NothingToProbe(_) => Refusal::new(Status::UNSUPPORTED, error.to_string()),
        CallError::OfOtherUser { .. } => Refusal::new(Status::PERMISSION, error.to_string()),
    }
}

/// A process that reads with the rights of a user.
struct UserReader(WorkerProxy);

impl UserReader {
    fn start(program: &Path, (uid, gid): (u32, u32)) -> Result<Self, Refusal> {
        let own = rustix::process::geteuid().as_raw();
        let groups = || monitor_sys::users::groups(uid, gid);
        let user = (uid != own).then(|| User { uid, gid, groups: groups() });
        WorkerProxy::start(program, user, None).map(Self).map_err(|why| {
            let text = format!("no user worker of user {uid} can be started: {why}");
            Refusal::new(Status::PERMISSION, text)
        })
    }
}

impl CallAnswers for UserReader {
    fn answer(&mut self, question: CallQuestion) -> Result<CallAnswer, ControlError> {
        match self.0.request(ToolId(0), WorkerRequest::ReadRankCalls(question))? {
            WorkerReply::RankCalls(answer) => Ok(answer),
            _ => Err(ControlError::WorkerLost),
        }
    }
}

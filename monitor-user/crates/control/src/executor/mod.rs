//! Executes requests with the rights of this process, on one thread.
//!
//! In: requests. Out: replies, and later events. Everything that it holds, sets and traces is
//! undone by `undo`, which a user worker calls when the daemon is gone. Always used by the same
//! thread, because ptrace requires that.

mod checkpoint;
mod commands;
mod daemons;
mod registers;
mod threads;

use super::checkpoint::{CheckpointJobs, CriuCheck};
use super::stop::{self, Guards, StopTable};
use super::trace::{BreakpointOwner, BreakpointSite, PlanRequest, Tracer, TracerFate, WatchOf};
use super::{
    CodePos, ControlError, LaunchSpec, NumberedRequest, ProbeLocation, ProbeUse, RequestTag,
    StopMethod, StoppedBatch, ToolId, WorkerEvent, WorkerReply, WorkerRequest,
    deadline::{DeadlineWait, has_closed},
    event_pos::EventPositions,
    file_query, memory,
    process_ref::ProcessRef,
    rank_calls::RankCallReader,
    signal,
    stack_looks::StackLooks,
    start,
    stop_reason::StopReason,
    uprobe_patches,
};
use commands::CommandTable;
use daemons::DaemonTable;
use monitor_event::Target;
use monitor_model::Identity;
use monitor_sys::{pidfd::PidFd, ptrace::wait_status};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most time of one request: a thread in the kernel stops only when it leaves it.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(2);
/// The tag of the calls of a batch, which no tool uses.
const BATCH_TAG: RequestTag = RequestTag(u64::MAX);

/// Executes requests.
#[derive(Default)]
pub struct Executor {
    stops: StopTable,
    guards: Guards,
    tracer: Tracer,
    event_positions: EventPositions,
    checkpoint_jobs: CheckpointJobs,
    criu: CriuCheck,
    probes: Vec<ProbeLocation>,
    /// Pids of started programs, to be reaped.
    children: Vec<i32>,
    daemons: DaemonTable,
    stack_looks: StackLooks,
    commands: CommandTable,
    /// Replies to requests that took their time, by number.
    late_replies: Vec<(u64, Answer)>,
    /// What was read for a profile of calls, for the next question.
    rank_calls: Option<RankCallReader>,
    events: Vec<WorkerEvent>,
    peer: Option<OwnedFd>,
    /// The daemon, whose rule programs end with it.
    daemon: Option<PidFd>,
}

type Answer = Result<WorkerReply, ControlError>;

impl Executor {
    /// An executor that aborts any wait when this socket to the daemon closes.
    pub fn with_peer(peer: OwnedFd, daemon: Option<PidFd>) -> Self {
        let mut executor = Self::default();
        (executor.peer, executor.daemon) = (Some(peer), daemon);
        executor
    }

    /// Carries out one request; without a reply if that comes later, by `drain_replies`.
    pub fn execute(&mut self, numbered: &NumberedRequest) -> Option<Answer> {
        match &numbered.request {
            WorkerRequest::RunJobCommand(command) => {
                self.commands.start(numbered, command).err().map(Err)
            }
            _ => Some(self.execute_at_once(numbered)),
        }
    }

    fn execute_at_once(&mut self, numbered: &NumberedRequest) -> Answer {
        let tool = numbered.tool;
        match &numbered.request {
            WorkerRequest::Stop(target) => self.stop(tool, target),
            WorkerRequest::Continue(target) => self.continue_target(tool, target),
            WorkerRequest::Signal(target, number) => {
                done(signal::kill(&open(target)?, target, *number))
            }
            WorkerRequest::SetNice(target, value) => {
                done(signal::nice(&open(target)?, target, *value))
            }
            WorkerRequest::ReadMemory(target, address, bytes) => {
                self.read(target, *address, *bytes)
            }
            WorkerRequest::WriteMemory(target, address, bytes) => {
                self.write(target, *address, bytes)
            }
            WorkerRequest::ReadIntegers(target, first, count) => {
                self.integers(target, *first, *count)
            }
            WorkerRequest::WriteIntegers(target, first, values) => {
                self.set_integers(target, *first, values)
            }
            WorkerRequest::ReadFloats(target, first, count) => self.floats(target, *first, *count),
            WorkerRequest::WriteFloats(target, first, values) => {
                self.set_floats(target, *first, values)
            }
            WorkerRequest::ReadImage(target, set, most) => self.image(target, *set, *most),
            WorkerRequest::WriteImage(target, set, bytes) => self.set_image(target, *set, bytes),
            WorkerRequest::Goto(target, address) => self.goto(target, *address),
            WorkerRequest::Backtrace(target, most, names) => self.backtrace(target, *most, *names),
            WorkerRequest::Start(program) => self.start(tool, program),
            WorkerRequest::CheckCriu => self.check_criu(),
            WorkerRequest::CheckLossless(target) => self.check_lossless(target),
            WorkerRequest::CheckMovable(target, folder) => self.check_movable(target, folder),
            WorkerRequest::Dump(target, tag, dump) => self.dump((tool, *tag), target, dump),
            WorkerRequest::Restore(tag, dump) => {
                done(self.checkpoint_jobs.restore((tool, *tag), dump))
            }
            WorkerRequest::RecoverDump(id, dump) => done(self.checkpoint_jobs.recover(*id, dump)),
            WorkerRequest::RunBatch(target, work) => self.run_batch(tool, target, work),
            WorkerRequest::Recover(id, patches) => {
                let (tracer, mut deadline) =
                    (&mut self.tracer, request_deadline(self.peer.as_ref()));
                done(tracer.recover(ProcessRef::open(*id)?, patches, &mut deadline))
            }
            WorkerRequest::ReadFiles(pid, query) => {
                Ok(WorkerReply::Files(file_query::answer(*pid, query)))
            }
            WorkerRequest::Resume(id, cgroup) => done(stop::resume_left(*id, cgroup.as_deref())),
            WorkerRequest::SetProbes(probes) => {
                self.probes.clone_from(probes);
                Ok(WorkerReply::Done)
            }
            WorkerRequest::HoldForEvent(target, tag, pos) => {
                self.hold_for_event((tool, *tag), target, *pos)
            }
            WorkerRequest::ReleaseEvent(target, tag)
                if self.stops.is_held_by(
                    (tool, StopReason::ProcessEvent(*tag, *target)),
                    target.process,
                ) =>
            {
                self.clear_event_pos((tool, *tag), target);
                done(
                    self.stops
                        .release((tool, StopReason::ProcessEvent(*tag, *target)), target.process),
                )
            }
            WorkerRequest::ForgetTool => {
                self.forget_tool(tool);
                Ok(WorkerReply::Done)
            }
            _ => self.execute_on_threads(tool, &numbered.request),
        }
    }

    fn forget_tool(&mut self, tool: ToolId) {
        self.tracer.forget_tool(tool);
        self.stops.forget_tool(tool);
        self.guards.forget_tool(tool);
        self.event_positions.forget_tool(tool);
        self.daemons.forget_tool(tool);
        self.stack_looks.forget_tool(tool);
        self.commands.forget_tool(tool);
    }

    /// Requests that need the tracer or cause later events.
    fn execute_traced(&mut self, tool: ToolId, request: &WorkerRequest) -> Answer {
        let (target, tag) = match request {
            WorkerRequest::SetBreakpoint(target, _, tag, ..)
            | WorkerRequest::SetBack(target, tag, _)
            | WorkerRequest::Step(target, tag)
            | WorkerRequest::Next(target, tag)
            | WorkerRequest::Finish(target, tag)
            | WorkerRequest::Call(target, tag, ..)
            | WorkerRequest::WatchRules(target, tag)
            | WorkerRequest::WatchData(target, tag)
            | WorkerRequest::Unset(target, tag)
            | WorkerRequest::SetEventPos(target, tag, _)
            | WorkerRequest::ReleaseEvent(target, tag)
            | WorkerRequest::ReleaseWithSignal(target, tag) => (target, *tag),
            _ => {
                return Err(ControlError::wrong_state(
                    "this request does not concern a traced thread",
                ));
            }
        };
        let process = open(target)?;
        let plan = PlanRequest { tool, tag, tid: process.thread(target)? };
        let requester = (tool, tag);
        let mut deadline = request_deadline(self.peer.as_ref());
        if starts_plan(request) {
            self.stops.check_plan_allowed(tool, process.id)?;
            self.event_positions.remove_thread(plan.tid);
        }
        let (tracer, id) = (&mut self.tracer, process.id);
        if let WorkerRequest::SetBack(_, _, before) = request {
            return tracer.set_back(&plan, id, before).map(WorkerReply::ConditionHolds);
        }
        let sent = match request {
            WorkerRequest::SetEventPos(_, _, pos) => {
                self.event_positions.insert(plan.tid, requester, *pos);
                Ok(())
            }
            WorkerRequest::SetBreakpoint(_, address, _, probe_use, conditions) => {
                let site = BreakpointSite::new(*address, &self.probes, *probe_use);
                let owner = BreakpointOwner { requester, conditions: conditions.clone() };
                let means = tracer.set_breakpoint(process, site, owner, &mut deadline);
                return means.map(WorkerReply::BreakpointSet);
            }
            WorkerRequest::Step(..) => tracer.step(&plan, process, &mut deadline),
            WorkerRequest::Next(..) => tracer.next(&plan, process, &mut deadline),
            WorkerRequest::Finish(..) => tracer.finish(&plan, process, &self.probes, &mut deadline),
            WorkerRequest::Call(.., procedure, arguments) => {
                let site = BreakpointSite::new(*procedure, &self.probes, ProbeUse::Refused);
                tracer.check_code(&process, &site)?;
                tracer.call(&plan, process, (*procedure, arguments), &mut deadline)
            }
            WorkerRequest::WatchRules(..) | WorkerRequest::WatchData(..) => {
                self.guards.add(open(target)?, requester);
                let is_data = matches!(request, WorkerRequest::WatchData(..));
                let watched = if is_data { WatchOf::Data } else { WatchOf::Rules };
                tracer.watch(process, requester, watched)
            }
            WorkerRequest::Unset(..) => {
                let was_guarded = self.guards.remove(requester, id);
                tracer
                    .unset(requester, id)
                    .or_else(|why| if was_guarded { Ok(()) } else { Err(why) })
            }
            _ => {
                self.event_positions.remove(plan.tid, requester);
                let released = tracer.release_event(
                    &plan,
                    id,
                    matches!(request, WorkerRequest::ReleaseWithSignal(..)),
                );
                if released.is_err() && self.guards.contains(id) && !self.stops.contains(id) {
                    // The tool that held it is gone, and no tool holds it now.
                    open(target)?.resume();
                }
                released
            }
        };
        done(sent)
    }

    /// Holds a process that a rule program has stopped, or one thread if it is traced by now.
    fn hold_for_event(
        &mut self,
        requester: (ToolId, RequestTag),
        target: &Target,
        pos: CodePos,
    ) -> Answer {
        let process = open(target)?;
        let (id, tid) = (process.id, process.thread(target)?);
        let (tracer, events) = (&mut self.tracer, &mut self.events);
        let mut is_held_alone = || {
            tracer.poll(events);
            tracer.is_held_for_rule(id, tid)
        };
        let holder = (requester.0, StopReason::ProcessEvent(requester.1, *target));
        let caught = self.stops.hold_for_event(holder, process, &mut is_held_alone)?;
        if caught.is_some() {
            self.event_positions.insert(tid, requester, pos);
        }
        Ok(caught.map_or(WorkerReply::Done, WorkerReply::Stopped))
    }

    fn clear_event_pos(&mut self, requester: (ToolId, RequestTag), target: &Target) {
        let thread = target.thread.unwrap_or(target.process);
        self.event_positions.remove(super::process_ref::raw_pid(thread.pid), requester);
    }

    /// Processes what has happened; call it when a child or traced thread changes state, and at
    /// `next_deadline`.
    pub fn poll(&mut self) {
        self.tracer.poll(&mut self.events);
        let tracer = &self.tracer;
        self.stops.poll(&|id| tracer.has_plan(id), &mut self.events);
        self.stops.expire(Instant::now(), &mut self.events);
        // The wait statuses of a traced child belong to the tracer, its exit included.
        self.children.retain(|pid| tracer.traces(*pid) || matches!(wait_status(*pid), Ok(None)));
        self.daemons.poll(&|pid| tracer.traces(pid));
        self.commands.poll(&|pid| tracer.traces(pid), &mut self.late_replies);
        self.poll_checkpoints();
        self.stack_looks.poll(&mut self.events);
    }

    /// When `poll` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        let look = self.stops.needs_polling().then(|| Instant::now() + stop::POLL_INTERVAL);
        let deadlines = [
            self.tracer.next_deadline(),
            self.stops.next_deadline(),
            self.daemons.next_deadline(),
            self.commands.next_deadline(),
        ];
        let series = [self.checkpoint_jobs.next_poll(), self.stack_looks.next_deadline()];
        deadlines.into_iter().chain([look]).chain(series).flatten().min()
    }

    /// Whether `poll` is due; a series of long requests must not delay it.
    pub fn is_due(&self) -> bool {
        self.next_deadline().is_some_and(|at| at <= Instant::now())
    }

    /// Takes the events collected so far.
    pub fn drain_events(&mut self) -> Vec<WorkerEvent> {
        std::mem::take(&mut self.events)
    }

    /// Takes the replies that `execute` did not return, each with the number of its request.
    pub fn drain_replies(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.late_replies)
    }

    /// Restores every process; for when this process exits.
    pub fn undo(&mut self) {
        self.undo_with(TracerFate::Exits);
    }

    fn undo_with(&mut self, tracer: TracerFate) {
        // First, because the rest waits.
        self.stops.release_all();
        let (guards, daemon, peer) = (&self.guards, self.daemon.as_ref(), self.peer.as_ref());
        let until = Instant::now() + stop::UNREAD_GRACE;
        // A daemon that has closed the socket ends, which takes long on a busy machine.
        let lives = || peer.is_none_or(|it| !has_closed(it.as_fd()));
        let mut rules_run = || {
            // What they stopped before they ended is found after that.
            let is_over = daemon.is_none_or(PidFd::has_ended) || Instant::now() >= until && lives();
            guards.resume_stopped();
            !guards.is_empty() && !is_over
        };
        self.tracer.undo_all(tracer, &mut rules_run);
        self.checkpoint_jobs.undo();
        self.commands.end_all();
        self.daemons.end_all();
        self.guards = Guards::default();
    }

    fn stop(&mut self, tool: ToolId, target: &Target) -> Answer {
        let process = open(target)?;
        self.check_not_moving(&process)?;
        let mut deadline = request_deadline(self.peer.as_ref());
        if target.thread.is_some() {
            let tid = process.thread(target)?;
            self.tracer.stop_thread(tool, process, tid, &mut deadline)?;
            return Ok(WorkerReply::Stopped(StopMethod::Ptrace));
        }
        let (tracer, events) = (&mut self.tracer, &mut self.events);
        let mut poll = || tracer.poll(events);
        self.stops.stop(tool, process, &mut deadline, &mut poll).map(WorkerReply::Stopped)
    }

    fn continue_target(&mut self, tool: ToolId, target: &Target) -> Answer {
        let process = open(target)?;
        match target.thread {
            Some(_) => {
                let tid = process.thread(target)?;
                done(self.tracer.release_stop(tool, process.id, tid))
            }
            None => done(self.stops.release_stop(tool, process.id)),
        }
    }

    fn read(&mut self, target: &Target, address: u64, bytes: u64) -> Answer {
        let process = open(target)?;
        let (mut read, fault) = match memory::read(&process, address, bytes) {
            Err(ControlError::Fault { address, done }) => (done, Some(address)),
            other => (other?, None),
        };
        let range = address..address + read.len() as u64;
        let patches = self.tracer.patches(process.id);
        memory::unpatch(address, &mut read, &patches);
        memory::unpatch(
            address,
            &mut read,
            &uprobe_patches::patches(&process, &self.probes, &range)?,
        );
        match fault {
            Some(address) => Err(ControlError::Fault { address, done: read }),
            None => Ok(WorkerReply::Bytes(read)),
        }
    }

    /// Breakpoint bytes stay in place; what is written there takes effect when they are removed.
    fn write(&mut self, target: &Target, address: u64, bytes: &[u8]) -> Answer {
        let process = open(target)?;
        let end = address.checked_add(bytes.len() as u64);
        let range = address..end.ok_or_else(|| {
            ControlError::InvalidArgument("the range exceeds the address space".into())
        })?;
        if !uprobe_patches::patches(&process, &self.probes, &range)?.is_empty() {
            let why = "a kernel probe is set there; disable the request that set it first";
            return Err(ControlError::Unsafe(why.into()));
        }
        let interference = self.tracer.patches(process.id);
        let mut over = bytes.to_vec();
        for patch in interference.iter().filter(|it| range.contains(&it.address)) {
            let place = usize::try_from(patch.address - address).unwrap_or(0);
            over[place] = super::trace::INT3;
        }
        memory::write(&process, address, &over)?;
        self.tracer.overwrite(process.id, address, bytes);
        Ok(WorkerReply::Done)
    }

    fn run_batch(&mut self, tool: ToolId, target: &Target, work: &StoppedBatch) -> Answer {
        let process = open(target)?;
        self.stops.check_plan_allowed(tool, process.id)?;
        let plan = PlanRequest { tool, tag: BATCH_TAG, tid: process.pid() };
        let mut deadline = request_deadline(self.peer.as_ref());
        done(self.tracer.run_batch(&plan, process, work, &mut deadline))
    }

    fn start(&mut self, tool: ToolId, program: &LaunchSpec) -> Answer {
        let mut deadline = request_deadline(self.peer.as_ref());
        let process = start::start(program, &mut deadline)?;
        let id: Identity = process.id;
        self.children.push(process.pid());
        if program.stopped {
            self.stops.adopt(tool, process);
        }
        Ok(WorkerReply::Started(id))
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.undo_with(TracerFate::Continues);
    }
}

/// Whether a thread executes something for the request.
const fn starts_plan(request: &WorkerRequest) -> bool {
    matches!(
        request,
        WorkerRequest::Step(..)
            | WorkerRequest::Next(..)
            | WorkerRequest::Finish(..)
            | WorkerRequest::Call(..)
    )
}

fn open(target: &Target) -> Result<ProcessRef, ControlError> {
    ProcessRef::open(target.process)
}

fn done(acted: Result<(), ControlError>) -> Answer {
    acted.map(|()| WorkerReply::Done)
}

fn request_deadline(peer: Option<&OwnedFd>) -> DeadlineWait<'_> {
    let peer: Option<BorrowedFd<'_>> = peer.map(|it| it.as_fd());
    DeadlineWait::new(MAX_REQUEST_TIME, peer)
}

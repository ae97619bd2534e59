//! Starts a launcher of parallel jobs, and holds its ranks before their first instruction, or where
//! they first call one of some functions.
//!
//! ```text
//!  launcher -> proxies -> exec with a rank in the environment: held by the tracer
//!                         or awaited at a call: call_trap.rs, then held by the tracer
//!  srun (process_table.rs): tasks that slurmstepd leaves stopped are taken over (table_tasks.rs),
//!                         and then held or awaited like the others
//!  when all ranks of the node are held: SIGSTOP to each, and nothing is traced any longer
//! ```
//!
//! In: a command, what makes a process a rank, and where it is held. Out: the ranks, stopped by a
//! signal. Until then the calling thread traces the launcher and its descendants, and the tasks
//! that it has taken over; if it is killed, the kernel detaches all of them, and the job runs.
//! Needs no right but that to trace own children, and with srun processes of the same user.

mod begun_rank;
mod call_trap;
mod hold_error;
mod process_table;
mod stop_events;
mod table_tasks;

pub use begun_rank::{BegunRank, Executed, RankRules, TableRow};
pub use hold_error::HoldError;
pub use stop_events::{StopEvent, StopEvents};

use crate::ControlError;
use crate::deadline::DeadlineWait;
use crate::process_ref::{ProcessRef, process_of, raw_pid};
use crate::start::stop_at_exec;
use begun_rank::executed;
use call_trap::{CallTraps, is_trap};
use monitor_model::{Identity, Pid};
use monitor_sys::{pidfd, ptrace, spawn};
use process_table::{TableLaunchers, TableStop};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use table_tasks::TableTasks;

/// How long the launcher may take to execute its program.
const START: Duration = Duration::from_secs(10);
/// How long a thread may take to stop that is then detached.
const STOP: Duration = Duration::from_secs(1);

/// Where ranks are held.
#[derive(Clone, Copy, Debug)]
pub enum HoldAt {
    /// At their exec.
    Exec,
    /// Where they first call one of these functions.
    Call {
        /// Symbols; at most as many as a thread has breakpoints, without aliases.
        functions: &'static [&'static str],
        /// How long after the first rank has begun all of them may take.
        within: Duration,
    },
}

/// How a launch ended.
#[derive(Debug)]
pub enum LaunchEnd {
    /// The ranks of the node are stopped, and the launcher runs.
    Held {
        /// They, by number.
        ranks: BTreeMap<u32, Identity>,
        /// Ranks of other nodes that the launcher names, by node: they run.
        elsewhere: BTreeMap<String, BTreeSet<u32>>,
    },
    /// Not all ranks called a function in time; all of them run, and the launcher does.
    NotCalled {
        /// Ranks that did.
        called: usize,
        /// Processes that had begun a rank and did not.
        others: usize,
    },
    /// None is held; all run.
    Refused(HoldError),
    /// The parent has ended; all run.
    Orphaned,
    /// The launcher ended before; those of its descendants that were held run.
    Ended(ExitStatus),
}

/// Starts the launcher, and returns when its ranks are stopped or it has ended. Call it on a thread
/// of its own, and end the thread afterwards: what it traces is detached then. `started` gets the
/// process of the launcher.
///
/// # Errors
/// If the program cannot be executed, or not be traced.
pub fn launch_held(
    command: &mut Command,
    hold_at: HoldAt,
    events: &StopEvents,
    rules: &dyn RankRules,
    started: &mut dyn FnMut(Pid),
) -> Result<(Child, LaunchEnd), LaunchError> {
    events.restore_in(command);
    spawn::trace_me(command);
    let calls = AwaitedCalls::new(hold_at);
    let mut child = command.spawn().map_err(LaunchError::NotStarted)?;
    let pid = Pid(child.id());
    started(pid);
    if let Err(why) = begin(pid) {
        // It has executed nothing, and would stay stopped.
        let _ended = child.kill().and_then(|()| child.wait());
        return Err(why.into());
    }
    let end = Launch::new(raw_pid(pid), calls, rules).run(events)?;
    Ok((child, end))
}

/// Replaces the trace that began before the exec: the kernel reports the children of a thread to
/// one that has seized it.
fn begin(launcher: Pid) -> Result<(), ControlError> {
    stop_at_exec(raw_pid(launcher), &mut DeadlineWait::new(START, None))?;
    let traced = ptrace::seize(raw_pid(launcher));
    traced.map_err(|error| ControlError::from_io("PTRACE_SEIZE", &error))?;
    ProcessRef::open_current(launcher)?.continue_stopped()
}

/// Why there is no launch.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program cannot be executed.
    #[error(transparent)]
    NotStarted(std::io::Error),
    /// It cannot be traced.
    #[error(transparent)]
    Control(#[from] ControlError),
}

struct Launch<'r> {
    launcher: i32,
    /// Threads of ranks that wait in a stop, by number of the rank.
    held: BTreeMap<u32, i32>,
    /// Where ranks are held that are not held at exec.
    calls: Option<AwaitedCalls>,
    tables: TableLaunchers,
    tasks: TableTasks,
    /// Threads that leave the signal of a trap, with their processes, for a stop in which a tracer
    /// that is killed leaves them running.
    trapped: BTreeMap<i32, i32>,
    expected: Option<usize>,
    rules: &'r dyn RankRules,
}

/// Ranks that are held at a call.
struct AwaitedCalls {
    traps: CallTraps,
    within: Duration,
    /// From the first rank on.
    until: Option<Instant>,
}

impl AwaitedCalls {
    /// None where ranks are held at exec.
    fn new(hold_at: HoldAt) -> Option<Self> {
        match hold_at {
            HoldAt::Exec => None,
            HoldAt::Call { functions, within } => {
                Some(Self { traps: CallTraps::new(functions), within, until: None })
            }
        }
    }
}

impl<'r> Launch<'r> {
    fn new(launcher: i32, calls: Option<AwaitedCalls>, rules: &'r dyn RankRules) -> Self {
        Self {
            launcher,
            held: BTreeMap::new(),
            calls,
            tables: TableLaunchers::default(),
            tasks: TableTasks::default(),
            trapped: BTreeMap::new(),
            expected: None,
            rules,
        }
    }

    fn run(&mut self, events: &StopEvents) -> Result<LaunchEnd, ControlError> {
        // Its exec was before; it is in a stop.
        let begins = match executed(self.launcher) {
            Some(process) => self.begins_table(self.launcher, &process),
            None => Ok(false),
        };
        let end = match begins {
            Ok(_) => self.handle_events(events),
            Err(why) => Ok(LaunchEnd::Refused(why)),
        };
        self.release();
        end
    }

    fn handle_events(&mut self, events: &StopEvents) -> Result<LaunchEnd, ControlError> {
        loop {
            let until = self.calls.as_ref().and_then(|it| it.until);
            let event = events.next(until).map_err(|it| ControlError::from_io("wait", &it))?;
            let (tid, status) = match event {
                StopEvent::Status(tid, status) => (tid, status),
                StopEvent::TimedOut => {
                    let others = self.calls.as_ref().map_or(0, |it| it.traps.len());
                    return Ok(LaunchEnd::NotCalled { called: self.held.len(), others });
                }
                StopEvent::Orphaned => return Ok(LaunchEnd::Orphaned),
            };
            if status & 0xff != 0x7f {
                self.forget(tid);
                if tid == self.launcher {
                    return Ok(LaunchEnd::Ended(exit_status(status)));
                }
                continue;
            }
            if let Err(why) = self.handle_stop(tid, status) {
                let _killed = ptrace::detach(tid, 0);
                return Ok(LaunchEnd::Refused(why));
            }
            if self.is_complete() {
                let elsewhere = self.tasks.take_elsewhere(&self.held);
                return Ok(LaunchEnd::Held { ranks: self.stop_held(), elsewhere });
            }
        }
    }

    /// Whether all ranks are held, and no launcher is about to wake them.
    fn is_complete(&self) -> bool {
        self.expected.is_some_and(|it| self.held.len() >= it) && !self.tables.is_reporting()
    }

    fn forget(&mut self, tid: i32) {
        self.held.retain(|_, it| *it != tid);
        let _ended = self.trapped.remove(&tid);
        self.tables.forget(tid);
        self.tasks.forget(tid);
        if let Some(calls) = &mut self.calls {
            calls.traps.forget(tid);
        }
    }

    /// Handles a stop; that of a rank that is held lasts.
    fn handle_stop(&mut self, tid: i32, status: i32) -> Result<(), HoldError> {
        let signal = status >> 8 & 0xff;
        let is_stop = status >> 16 == ptrace::EVENT_STOP;
        if is_stop && self.leaves_trap(tid)? {
            return Ok(());
        }
        let (mode, signal) = match status >> 16 {
            ptrace::EVENT_EXEC if self.begins_rank(tid)? => return Ok(()),
            0 if self.enters_trap(tid, status) => (ptrace::ResumeMode::Continue, 0),
            // A delivery of a signal.
            0 => (ptrace::ResumeMode::Continue, signal),
            // A stop by a signal, which lasts until SIGCONT.
            _ if is_stop && signal != Signal::TRAP.as_raw() => (ptrace::ResumeMode::Listen, 0),
            // A thread that begins, perhaps.
            ptrace::EVENT_STOP => {
                self.tables.add_thread(tid)?;
                self.calls.as_mut().map_or(Ok(()), |calls| calls.traps.add_thread(tid))?;
                (ptrace::ResumeMode::Continue, 0)
            }
            _ => (ptrace::ResumeMode::Continue, 0),
        };
        // One that was killed meanwhile reports its end next.
        let _killed = ptrace::resume(tid, mode, signal);
        Ok(())
    }

    /// Whether a thread is at a trap: then it stops once more, without the signal of the trap.
    fn enters_trap(&mut self, tid: i32, status: i32) -> bool {
        if !is_trap(tid, status) {
            return false;
        }
        let awaited = self.calls.as_ref().and_then(|it| it.traps.process_of(tid));
        // The trap may have been removed meanwhile.
        if let Some(pid) = awaited.or_else(|| self.tables.process_of(tid))
            && ptrace::interrupt(tid).is_ok()
        {
            let _other = self.trapped.insert(tid, pid);
        }
        true
    }

    /// Whether a thread that has entered a trap is a rank that is held there.
    fn leaves_trap(&mut self, tid: i32) -> Result<bool, HoldError> {
        let Some(pid) = self.trapped.remove(&tid) else { return Ok(false) };
        if self.tables.process_of(tid).is_some() {
            if let TableStop::Called(rows) = self.tables.hit(pid, tid)? {
                self.take_tasks(rows)?;
            }
            return Ok(false);
        }
        let Some(calls) = &mut self.calls else { return Ok(false) };
        let called = calls.traps.hit(pid, tid)?;
        Ok(called.is_some_and(|begun| self.hold(tid, begun)))
    }

    /// Takes over the tasks of this node that a table names, and holds or awaits those that are
    /// ranks.
    fn take_tasks(&mut self, rows: Vec<TableRow>) -> Result<(), HoldError> {
        let mut taken = 0;
        for (row, process) in self.tasks.new_rows(rows, self.rules)? {
            if !self.tasks.take_over(&row)? {
                continue;
            }
            taken += 1;
            let begun = self.rules.begun_rank(&process, Some(row.rank));
            if !begun.map_or(Ok(false), |begun| self.begin(row.pid, begun))? {
                let _killed = ptrace::resume(row.pid, ptrace::ResumeMode::Continue, 0);
            }
        }
        if taken > 0 {
            self.expected = Some(taken);
        }
        Ok(())
    }

    /// Whether the process that executes a program is a rank that is held there.
    fn begins_rank(&mut self, pid: i32) -> Result<bool, HoldError> {
        if let Some(calls) = &mut self.calls {
            calls.traps.forget(pid);
        }
        self.tables.forget(pid);
        let Some(process) = executed(pid) else { return Ok(false) };
        if self.begins_table(pid, &process)? {
            return Ok(false);
        }
        match self.rules.begun_rank(&process, self.tasks.rank_of(pid)) {
            Some(begun) => Ok(self.begin(pid, begun)?),
            None => Ok(false),
        }
    }

    /// Whether the process that executes a program is a launcher with a process table, which is
    /// then awaited.
    fn begins_table(&mut self, pid: i32, process: &Executed) -> Result<bool, HoldError> {
        match self.rules.table_reports(process) {
            Some(reports) => self.tables.add(pid, reports).map(|()| true),
            None => Ok(false),
        }
    }

    /// Holds a rank that begins, or awaits its call; whether it is held.
    fn begin(&mut self, pid: i32, begun: BegunRank) -> io::Result<bool> {
        let Some(calls) = &mut self.calls else { return Ok(self.hold(pid, begun)) };
        let _begins = calls.until.get_or_insert(Instant::now() + calls.within);
        calls.traps.add(pid, begun)?;
        Ok(false)
    }

    /// Keeps a thread of a rank in its stop, unless the rank is held already; whether it does.
    fn hold(&mut self, tid: i32, begun: BegunRank) -> bool {
        if self.held.contains_key(&begun.rank) {
            return false;
        }
        self.held.insert(begun.rank, tid);
        // A runtime that does not name it: this rank is held, and those that follow are not.
        self.expected = begun.local_size.or(self.expected).or(Some(1));
        true
    }

    /// Removes all traps, and detaches the threads that had them: one that is at a trap would end
    /// from its signal without a tracer.
    fn release(&mut self) {
        let mut threads: BTreeSet<i32> = std::mem::take(&mut self.trapped).into_keys().collect();
        threads.extend(self.tables.remove_all());
        threads.extend(self.calls.iter_mut().flat_map(|it| it.traps.remove_all()));
        for tid in threads {
            // It may be in a stop already, or have ended.
            let _stopped = ptrace::interrupt(tid);
            let mut wait = DeadlineWait::new(STOP, None);
            let status = loop {
                match ptrace::wait_status(tid) {
                    Ok(None) if wait.wait("a stop").is_ok() => {}
                    Ok(status) => break status.unwrap_or(0),
                    Err(_) => break 0,
                }
            };
            let signal = if status >> 16 == 0 && !is_trap(tid, status) { status >> 8 } else { 0 };
            let _ended = ptrace::detach(tid, signal);
        }
    }

    /// Replaces the stops of the tracer by stops by a signal, which outlast it.
    fn stop_held(&mut self) -> BTreeMap<u32, Identity> {
        let mut ranks = BTreeMap::new();
        for (rank, tid) in std::mem::take(&mut self.held) {
            let pid = process_of(tid).unwrap_or(tid);
            let id = u32::try_from(pid).ok().map(|pid| ProcessRef::open_current(Pid(pid)));
            // It is pending when the thread is detached, and stops it before its program runs.
            let sent = pidfd::tgkill(pid, tid, Signal::STOP.as_raw());
            if ptrace::detach(tid, 0).is_ok()
                && sent.is_ok()
                && let Some(Ok(process)) = id
            {
                ranks.insert(rank, process.id);
            }
        }
        ranks
    }
}

fn exit_status(status: i32) -> ExitStatus {
    std::os::unix::process::ExitStatusExt::from_raw(status)
}

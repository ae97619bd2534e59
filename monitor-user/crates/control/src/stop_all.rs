//! Processes that are stopped, continued or signalled at one moment.
//!
//! In: processes by identity. Out: what became of each. All are opened first, so that the signals
//! follow each other without anything between them. Needs nothing of the service: the kernel
//! decides. A process that another one traces is left alone: its tracer gets the signals of it.

use crate::deadline::DeadlineWait;
use crate::process_ref::{ProcessRef, tracing_process};
use crate::stop::was_stopped;
use crate::{ControlError, signal};
use monitor_event::Target;
use monitor_model::Identity;
use rustix::process::Signal;
use std::time::{Duration, Instant};

const STOP: u32 = Signal::STOP.as_raw().cast_unsigned();

/// What became of a process that was to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOutcome {
    /// All its threads are stopped.
    Stopped,
    /// They were before.
    WasStopped,
    /// A thread has not left the kernel in time; it stops before its program goes on.
    Pending,
}

/// What became of a process that was to be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinueOutcome {
    /// It runs again.
    Continued,
    /// No signal had stopped it.
    WasRunning,
}

/// The outcome for each process, in the order of the request.
pub type Outcomes<T> = Vec<(Identity, Result<T, ControlError>)>;

/// Processes that were stopped; they are continued at drop, unless they are kept.
#[derive(Debug)]
pub struct StopAll {
    stopped: Vec<ProcessRef>,
    first: Option<Instant>,
    took: Duration,
    limit: Duration,
}

/// The request was interrupted; everything that it had stopped runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl StopAll {
    /// Stops nothing yet. `limit` is how long threads may take to leave the kernel.
    pub const fn new(limit: Duration) -> Self {
        Self { stopped: Vec::new(), first: None, took: Duration::ZERO, limit }
    }

    /// Stops processes, and waits until all their threads are stopped.
    ///
    /// # Errors
    /// [`Interrupted`], as soon as `is_interrupted` returns true.
    pub fn stop(
        &mut self,
        processes: &[Identity],
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Outcomes<StopOutcome>, Interrupted> {
        let mut opened: Vec<_> = processes.iter().map(|id| open_untraced(*id)).collect();
        let was_stopped: Vec<bool> =
            opened.iter().map(|it| it.as_ref().is_ok_and(was_stopped)).collect();
        let first = *self.first.get_or_insert_with(Instant::now);
        for process in &mut opened {
            let sent = process.as_ref().map(|it| it.pidfd.signal(STOP));
            if let Ok(Err(error)) = sent {
                *process = Err(ControlError::from_io("stopping the process", &error));
            }
        }
        let mut outcomes = Vec::new();
        let begin = self.stopped.len();
        for ((id, process), was_stopped) in processes.iter().zip(opened).zip(was_stopped) {
            let outcome = match process {
                Ok(_) if was_stopped => Ok(StopOutcome::WasStopped),
                Ok(process) => {
                    self.stopped.push(process);
                    Ok(StopOutcome::Pending)
                }
                Err(why) => Err(why),
            };
            outcomes.push((*id, outcome));
        }
        self.wait(begin, is_interrupted)?;
        self.took = first.elapsed();
        for (id, outcome) in &mut outcomes {
            if let Some(process) = self.stopped[begin..].iter().find(|it| it.id == *id) {
                *outcome = state_of(process);
            }
        }
        Ok(outcomes)
    }

    /// Waits until those from an index on are stopped, or the limit is over.
    fn wait(&self, begin: usize, is_interrupted: &dyn Fn() -> bool) -> Result<(), Interrupted> {
        let mut deadline = DeadlineWait::new(self.limit, None);
        while self.stopped[begin..].iter().any(|it| state_of(it) == Ok(StopOutcome::Pending)) {
            if is_interrupted() {
                return Err(Interrupted);
            }
            if deadline.wait("stopping all threads").is_err() {
                break;
            }
        }
        Ok(())
    }

    /// When the first signal was sent.
    pub const fn first(&self) -> Option<Instant> {
        self.first
    }

    /// The time from the first signal until all threads were seen stopped, at the last stop.
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// Leaves the processes stopped.
    pub fn keep(mut self) {
        self.stopped.clear();
    }
}

impl Drop for StopAll {
    fn drop(&mut self) {
        for process in &self.stopped {
            let _ended = process.continue_stopped();
        }
    }
}

/// Continues processes that a signal has stopped, or is about to.
pub fn continue_all(processes: &[Identity]) -> Outcomes<ContinueOutcome> {
    let opened: Vec<_> = processes.iter().map(|id| open_untraced(*id)).collect();
    let is_stopped: Vec<bool> =
        opened.iter().map(|it| it.as_ref().is_ok_and(ProcessRef::is_stopped)).collect();
    let send = |((id, process), is_stopped): ((&Identity, _), bool)| {
        let process: Result<ProcessRef, ControlError> = process;
        let outcome = process.and_then(|process| match is_stopped {
            true => process.continue_stopped().map(|()| ContinueOutcome::Continued),
            false => Ok(ContinueOutcome::WasRunning),
        });
        (*id, outcome)
    };
    processes.iter().zip(opened).zip(is_stopped).map(send).collect()
}

/// Sends a signal to processes, also to traced ones.
pub fn signal_all(processes: &[Identity], number: u32) -> Outcomes<()> {
    let opened: Vec<_> = processes.iter().map(|id| ProcessRef::open(*id)).collect();
    let send = |(id, process): (&Identity, Result<ProcessRef, ControlError>)| {
        let number = number.cast_signed();
        let sent = process.and_then(|it| signal::kill(&it, &Target::from(*id), number));
        (*id, sent)
    };
    processes.iter().zip(opened).map(send).collect()
}

fn open_untraced(id: Identity) -> Result<ProcessRef, ControlError> {
    let process = ProcessRef::open(id)?;
    match process.tracer() {
        Some(tracer) => Err(ControlError::AlreadyTraced { tracer: tracing_process(tracer) }),
        None => Ok(process),
    }
}

fn state_of(process: &ProcessRef) -> Result<StopOutcome, ControlError> {
    if process.pidfd.has_ended() {
        return Err(ControlError::Gone);
    }
    Ok(if was_stopped(process) { StopOutcome::Stopped } else { StopOutcome::Pending })
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::Pid;
    use std::process::{Child, Command, Stdio};

    const LIMIT: Duration = Duration::from_secs(60);

    fn children() -> (Vec<Child>, Vec<Identity>) {
        let cat = |_| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let children: Vec<Child> = (0..2).map(cat).collect();
        let id = |it: &Child| ProcessRef::open_current(Pid(it.id())).unwrap().id;
        let ids = children.iter().map(id).collect();
        (children, ids)
    }

    fn end(children: Vec<Child>) {
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn is_stopped(id: Identity) -> bool {
        ProcessRef::open(id).unwrap().is_stopped()
    }

    fn outcomes<T>(all: Outcomes<T>) -> Vec<Result<T, ControlError>> {
        all.into_iter().map(|(_, outcome)| outcome).collect()
    }

    #[test]
    fn processes_stay_stopped_until_they_are_continued() {
        let (children, ids) = children();
        let mut all = StopAll::new(LIMIT);
        let got = outcomes(all.stop(&ids[..1], &|| false).unwrap());
        assert_eq!(got, [Ok(StopOutcome::Stopped)]);
        let got = outcomes(all.stop(&ids, &|| false).unwrap());
        assert_eq!(got, [Ok(StopOutcome::WasStopped), Ok(StopOutcome::Stopped)]);
        all.keep();
        assert!(ids.iter().all(|id| is_stopped(*id)));
        let got = outcomes(continue_all(&ids));
        assert_eq!(got, [Ok(ContinueOutcome::Continued), Ok(ContinueOutcome::Continued)]);
        let got = outcomes(continue_all(&ids));
        assert_eq!(got, [Ok(ContinueOutcome::WasRunning), Ok(ContinueOutcome::WasRunning)]);
        end(children);
    }

    #[test]
    fn an_interrupted_stop_leaves_nothing_stopped_that_ran_before() {
        let (children, ids) = children();
        let mut before = StopAll::new(LIMIT);
        before.stop(&ids[..1], &|| false).unwrap();
        let mut all = StopAll::new(LIMIT);
        // A stop that is there at once is no longer interrupted.
        let _either = all.stop(&ids, &|| true);
        drop(all);
        assert_eq!(ids.iter().map(|id| is_stopped(*id)).collect::<Vec<_>>(), [true, false]);
        drop(before);
        assert!(!is_stopped(ids[0]));
        end(children);
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let (children, mut ids) = children();
        ids[1].start.0 += 1_000_000_000_000;
        let got = outcomes(StopAll::new(LIMIT).stop(&ids, &|| false).unwrap());
        assert_eq!(got, [Ok(StopOutcome::Stopped), Err(ControlError::Gone)]);
        let got = outcomes(signal_all(&ids, 9));
        assert_eq!(got, [Ok(()), Err(ControlError::Gone)]);
        end(children);
    }
}

//! `monitor job hold`: all processes of ranks stopped at one moment.
//!
//! In: the ranks that the user names. Out: a line about them; notes about processes that could not
//! be stopped. A hold is a `SIGSTOP`: it lasts until `release`, whatever becomes of this command.

use super::rank_errors::RankErrors;
use super::target::JobTarget;
use crate::cli::exit::{Exit, Failure};
use monitor_control::ControlError;
use monitor_control::stop_all::{Interrupted, Outcomes, StopAll, StopOutcome};
use monitor_format::human;
use monitor_model::Identity;
use monitor_sys::pending_signals::PendingSignals;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long threads may take to leave the kernel.
pub const LIMIT: Duration = Duration::from_secs(5);

/// What became of the processes.
#[derive(Default)]
pub struct Held {
    /// Ranks with a process that is stopped.
    pub ranks: BTreeSet<u32>,
    /// Processes that are stopped.
    pub processes: usize,
    were_stopped: usize,
    /// Processes that could not be stopped.
    pub errors: RankErrors,
}

/// Stops all processes of the ranks.
///
/// # Errors
/// If there is no such job or rank, if none of it could be stopped, or if interrupted: then nothing
/// stays stopped that ran before.
pub fn hold(written: &str) -> Result<Exit, Failure> {
    let mut target = JobTarget::find(written)?;
    let kept = PendingSignals::keep().map_err(Failure::failed)?;
    let mut all = StopAll::new(LIMIT);
    let held = hold_all(&mut target, &mut all, &|| kept.has_come())?;
    if held.processes == 0 {
        return Err(held.errors.failure().unwrap_or_else(|| target.has_ended()));
    }
    let took = all.took();
    all.keep();
    drop(kept);
    held.errors.finish(&text(&held, &target, written, took))
}

/// Stops the processes of the ranks, and those that they have started meanwhile.
///
/// # Errors
/// If interrupted, or if the processes cannot be read.
pub fn hold_all(
    target: &mut JobTarget,
    all: &mut StopAll,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Held, Failure> {
    let mut held = Held::default();
    let mut known = BTreeSet::new();
    let mut next = target.processes();
    while !next.is_empty() {
        let ids: Vec<Identity> = next.iter().map(|(_, id)| *id).collect();
        match all.stop(&ids, is_interrupted) {
            Ok(outcomes) => held.add(&next, outcomes),
            Err(Interrupted) => {
                let message = format!("interrupted: job {} runs as before", target.job.id);
                return Err(Failure { message, exit: Exit::Interrupted });
            }
        }
        known.extend(ids);
        // A process may have started another one before it stopped.
        next = target.processes_now()?;
        next.retain(|(_, id)| !known.contains(id));
    }
    Ok(held)
}

impl Held {
    fn add(&mut self, processes: &[(u32, Identity)], outcomes: Outcomes<StopOutcome>) {
        for ((rank, id), (_, outcome)) in processes.iter().zip(outcomes) {
            match outcome {
                Ok(outcome) => {
                    self.ranks.insert(*rank);
                    self.processes += 1;
                    self.were_stopped += usize::from(outcome == StopOutcome::WasStopped);
                    if outcome == StopOutcome::Pending {
                        self.errors.add((*rank, *id), late());
                    }
                }
                Err(ControlError::Gone) => {}
                Err(why) => self.errors.add((*rank, *id), why),
            }
        }
    }
}

fn late() -> ControlError {
    ControlError::TimedOut(format!(
        "a thread has been in the kernel for {LIMIT:?}; it stops before it leaves the kernel"
    ))
}

fn text(held: &Held, target: &JobTarget, written: &str, took: Duration) -> String {
    let mut text = target.line(&held.ranks, "held", held.processes);
    if held.were_stopped > 0 {
        text += &format!("{} of them were stopped before\n", held.were_stopped);
    }
    if held.were_stopped < held.processes && held.errors.is_empty() {
        let took = human::duration_text(took.as_nanos() as f64);
        text += &format!("all were stopped within {took}\n");
    }
    text + &format!("to continue: monitor job release {}\n", human::escaped_text(written))
}

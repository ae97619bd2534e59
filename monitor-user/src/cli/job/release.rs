//! `monitor job release`: processes of ranks that a signal has stopped run again.
//!
//! In: the ranks that the user names. Out: a line about them; notes about processes that could not
//! be continued.

use super::rank_errors::RankErrors;
use super::target::JobTarget;
use crate::cli::exit::{Exit, Failure};
use monitor_control::ControlError;
use monitor_control::stop_all::{ContinueOutcome, continue_all};
use monitor_format::human;
use monitor_model::Identity;
use std::collections::BTreeSet;

/// Continues all processes of the ranks that a signal has stopped, or is about to stop.
///
/// # Errors
/// If there is no such job or rank, or if none of it could be continued.
pub fn release(written: &str) -> Result<Exit, Failure> {
    let target = JobTarget::find(written)?;
    let processes = target.processes();
    let ids: Vec<Identity> = processes.iter().map(|(_, id)| *id).collect();
    let (mut ranks, mut continued) = (BTreeSet::new(), 0);
    let mut errors = RankErrors::default();
    for ((rank, id), (_, outcome)) in processes.iter().zip(continue_all(&ids)) {
        match outcome {
            Ok(ContinueOutcome::Continued) => {
                ranks.insert(*rank);
                continued += 1;
            }
            Ok(ContinueOutcome::WasRunning) | Err(ControlError::Gone) => {}
            Err(why) => errors.add((*rank, *id), why),
        }
    }
    if continued > 0 {
        return errors.finish(&target.line(&ranks, "released", continued));
    }
    match errors.failure() {
        Some(failure) => Err(failure),
        None => {
            let id = human::escaped_text(&target.job.id);
            errors.finish(&format!("job {id}: no process of the ranks was stopped\n"))
        }
    }
}

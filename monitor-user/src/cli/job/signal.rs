//! `monitor job signal`: a signal to the processes of ranks.
//!
//! In: the ranks that the user names, and a signal. Out: a line about them; notes about processes
//! that did not get it.

use super::args::JobSignalArgs;
use super::rank_errors::RankErrors;
use super::target::JobTarget;
use crate::cli::exit::{Exit, Failure};
use monitor_control::ControlError;
use monitor_control::stop_all::signal_all;
use monitor_format::events::signal_name;
use monitor_model::Identity;
use monitor_model::event::Signal;
use std::collections::BTreeSet;

/// Sends the signal to all processes of the ranks, or to the first of each.
///
/// # Errors
/// If there is no such job or rank, or if no process may be sent the signal.
pub fn signal(args: &JobSignalArgs) -> Result<Exit, Failure> {
    let target = JobTarget::find(&args.job)?;
    let mut processes = target.processes();
    if args.first {
        let first: BTreeSet<Identity> = target.job.ranks.iter().map(|it| it.process).collect();
        processes.retain(|(_, id)| first.contains(id));
    }
    let ids: Vec<Identity> = processes.iter().map(|(_, id)| *id).collect();
    let (mut ranks, mut count) = (BTreeSet::new(), 0);
    let mut errors = RankErrors::default();
    for ((rank, id), (_, outcome)) in processes.iter().zip(signal_all(&ids, args.signal)) {
        match outcome {
            Ok(()) => {
                ranks.insert(*rank);
                count += 1;
            }
            Err(ControlError::Gone) => {}
            Err(why) => errors.add((*rank, *id), why),
        }
    }
    if count == 0 {
        return Err(errors.failure().unwrap_or_else(|| target.has_ended()));
    }
    let name = signal_name(&Signal { number: args.signal, code: 0, thread: None });
    errors.finish(&target.line(&ranks, &format!("sent {name} to"), count))
}

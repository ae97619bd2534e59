//! `monitor job end`: a whole job is ended as its user would end it.
//!
//! In: a job. Out: a line when its launcher and its ranks have ended. The launcher gets `SIGTERM`
//! and ends the ranks, also those on other nodes; where none is here, the ranks get it. A job that
//! is held is continued: a stopped process takes no signal but `SIGKILL`.

use super::args::JobEndArgs;
use super::rank_errors::RankErrors;
use super::target::JobTarget;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_backends::procfs;
use monitor_control::ControlError;
use monitor_control::process_ref::ProcessRef;
use monitor_control::stop_all::{Outcomes, continue_all, signal_all};
use monitor_format::human;
use monitor_jobs::{RankSet, Runtime};
use monitor_model::Identity;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two readings of what is left.
const EVERY: Duration = Duration::from_millis(20);
/// How long processes may take to end after `SIGKILL`.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// Ends a job, and waits until it has ended.
///
/// # Errors
/// If there is no such job, if only some ranks are named, if it may not be signalled, or if it has
/// not ended in time.
pub fn end(args: &JobEndArgs) -> Result<Exit, Failure> {
    let mut target = JobTarget::find(&args.job)?;
    check(&target, &args.job)?;
    let launcher = launcher(&target);
    let processes = target.processes();
    let first: Vec<(u32, Identity)> = match launcher {
        Some(launcher) => vec![(0, launcher)],
        None => processes.clone(),
    };
    send(&first, Signal::TERM, launcher.is_some())?;
    let ids: Vec<Identity> = processes.iter().map(|(_, id)| *id).collect();
    let _running = continue_all(&ids);
    let begun = Instant::now();
    let launcher = launcher.filter(|it| target.job.runtime != Runtime::Native || !stays(*it));
    let mut left = wait(&mut target, launcher, args.span)?;
    if !left.is_empty() && args.kill {
        let ranks: Vec<(u32, Identity)> = target.processes_now()?;
        send(&ranks, Signal::KILL, false)?;
        left = wait(&mut target, launcher, KILLED_WITHIN)?;
        if let Some(launcher) = launcher.filter(|it| lives(*it)) {
            send(&[(0, launcher)], Signal::KILL, true)?;
            left = wait(&mut target, Some(launcher), KILLED_WITHIN)?;
        }
    }
    if left.is_empty() {
        let id = human::escaped_text(&target.job.id);
        let took = human::duration_text(begun.elapsed().as_nanos() as f64);
        return output::print(format!("job {id} has ended, after {took}\n").as_bytes());
    }
    Err(not_ended(&target, &left, args))
}

/// Whether the whole job, and nothing but it, would end.
fn check(target: &JobTarget, written: &str) -> Result<(), Failure> {
    let id = &target.job.id;
    if target.ranks.len() != target.job.ranks.len() as u64 {
        return Err(Failure::usage(format!(
            "job end ends whole jobs: for some ranks use monitor job signal {written} TERM"
        )));
    }
    if let Some(sibling) = target.siblings.first() {
        return Err(Failure::usage(format!(
            "the launcher of job {id} has started job {sibling}, too, and would end both: end the \
             ranks with monitor job signal {id} TERM"
        )));
    }
    Ok(())
}

/// The launcher, if it ends its ranks at `SIGTERM`. The daemon of a step of Slurm does not, and a
/// daemon may serve other jobs.
fn launcher(target: &JobTarget) -> Option<Identity> {
    target.job.launcher.filter(|_| target.job.runtime != Runtime::Slurm)
}

/// Whether a host stays with what its ranks have written, as that of `launch --background` does.
fn stays(host: Identity) -> bool {
    let words = procfs::arguments(host.pid).unwrap_or_default();
    words.iter().take_while(|word| *word != b"--").any(|word| word == b"--keep")
}

fn send(processes: &[(u32, Identity)], signal: Signal, is_launcher: bool) -> Result<(), Failure> {
    let ids: Vec<Identity> = processes.iter().map(|(_, id)| *id).collect();
    let sent: Outcomes<()> = signal_all(&ids, signal.as_raw().cast_unsigned());
    let mut errors = RankErrors::default();
    for ((rank, id), (_, outcome)) in processes.iter().zip(sent) {
        match outcome {
            Ok(()) | Err(ControlError::Gone) => {}
            Err(why) if is_launcher => errors.add_launcher(*id, why),
            Err(why) => errors.add((*rank, *id), why),
        }
    }
    errors.failure().map_or(Ok(()), Err)
}

/// Waits until launcher and ranks have ended; returns what is left at the end of the time.
fn wait(
    target: &mut JobTarget,
    launcher: Option<Identity>,
    span: Duration,
) -> Result<Vec<String>, Failure> {
    let until = Instant::now() + span;
    let mut known = target.processes();
    loop {
        known.retain(|(_, id)| lives(*id));
        if known.is_empty() {
            // Some may have started since.
            known = target.processes_now()?;
            known.retain(|(_, id)| lives(*id));
        }
        let launcher = launcher.filter(|it| lives(*it));
        if known.is_empty() && launcher.is_none() {
            return Ok(Vec::new());
        }
        if Instant::now() >= until {
            return Ok(names(&known, launcher));
        }
        sleep(EVERY);
    }
}

/// Whether a process has not ended; a zombie has.
fn lives(id: Identity) -> bool {
    ProcessRef::open(id).is_ok_and(|it| !it.pidfd.has_ended())
}

fn names(processes: &[(u32, Identity)], launcher: Option<Identity>) -> Vec<String> {
    let ranks: BTreeSet<u32> = processes.iter().map(|(rank, _)| *rank).collect();
    let plural = if ranks.len() == 1 { "rank" } else { "ranks" };
    let set: RankSet = ranks.iter().copied().collect();
    let launcher = launcher.map(|it| format!("launcher {}", it.pid.0));
    let ranks = (!ranks.is_empty()).then(|| format!("{plural} {set}"));
    ranks.into_iter().chain(launcher).collect()
}

fn not_ended(target: &JobTarget, left: &[String], args: &JobEndArgs) -> Failure {
    let (id, left) = (&target.job.id, left.join(" and "));
    let message = match args.kill {
        true => format!("job {id}: {left} cannot be ended: a thread is in the kernel"),
        false => {
            let span = human::duration_text(args.span.as_nanos() as f64);
            format!("job {id}: {left} did not end within {span} after SIGTERM: --kill ends them")
        }
    };
    Failure { message, exit: Exit::TimedOut }
}

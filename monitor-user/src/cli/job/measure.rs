//! A job measured over an interval.
//!
//! In: two readings, one at each end of it. Out: the job, and the table of its ranks with rates.
//! Ranks that end meanwhile are left out, and noted.

use super::args::JobShowArgs;
use super::reader::{JobReader, executable, jobs_of, named};
use crate::cli::exit::{Exit, Failure};
use monitor_jobs::{ParallelJob, RankTable, rank_table};
use monitor_model::rates::{Rates, rates};
use monitor_model::sample::Instant;
use monitor_model::{Ns, Sample};
use std::thread::sleep;

/// A job that was measured.
pub struct MeasuredJob {
    /// The job, at the end of the interval.
    pub job: ParallelJob,
    /// Its ranks.
    pub table: RankTable,
    /// When it was read last.
    pub at: Instant,
    /// The name of the node.
    pub node: String,
    /// The time between the readings; absent for a backend without a clock.
    pub interval: Option<Ns>,
    /// What is missing or inexact.
    pub notes: Vec<String>,
}

/// Reads twice, and makes the table of the second reading.
///
/// # Errors
/// If there is no such job, or it ends meanwhile; if processes cannot be read.
pub fn measure(args: &JobShowArgs) -> Result<MeasuredJob, Failure> {
    let mut reader = JobReader::open_for_rates(args.source.backend)?;
    let before = reader.read()?;
    let begun = named(&jobs_of(&before), &args.job, &before)?.clone();
    sleep(args.span);
    let after = reader.read()?;
    // Those of a reading are about all processes; those of the rates are about this interval.
    let n_of_reading = after.notes.len();
    let Rates { interval, sample, .. } = rates(&before, after);
    let is_same = |it: &ParallelJob| it.id == begun.id && it.uid == begun.uid;
    let found = jobs_of(&sample).into_iter().find(is_same);
    let Some(job) = found else {
        let message = format!("job {} ended while it was measured", begun.id);
        return Err(Failure { message, exit: Exit::NoTarget });
    };
    let table = table_of(&job, &sample);
    let of_rates = sample.notes.iter().skip(n_of_reading);
    let notes = reader.opening.iter().chain(of_rates);
    let mut notes: Vec<String> = notes.map(|note| note.text.clone()).collect();
    notes.extend(ended_note(&begun, &table));
    let node = sample.node.to_string();
    Ok(MeasuredJob { job, table, at: sample.at, node, interval, notes })
}

/// The table of a job of a sample.
pub fn table_of(job: &ParallelJob, sample: &Sample) -> RankTable {
    let processes = (&sample.node, sample.processes.as_slice());
    rank_table(job, processes, &|process| executable(sample, process))
}

/// The note about ranks that ended between the readings.
fn ended_note(begun: &ParallelJob, table: &RankTable) -> Option<String> {
    let is_there = |rank: u32| table.rows.iter().any(|row| row.rank == rank);
    let ended = begun.ranks.iter().map(|it| it.rank).filter(|rank| !is_there(*rank));
    let ended: Vec<String> = ended.map(|rank| rank.to_string()).collect();
    let ranks = if ended.len() == 1 { "rank" } else { "ranks" };
    let text = format!("{ranks} {} ended while the job was measured", ended.join(", "));
    (!ended.is_empty()).then_some(text)
}

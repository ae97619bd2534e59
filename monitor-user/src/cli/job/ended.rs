//! `monitor job list --ended TIME`: the jobs that have ended in this time.
//!
//! In: the transitions that the service of the node has kept. Out: a table, JSON or CSV.

use super::args::JobListArgs;
use super::history::{self, JobHistory, status_text, transition_json};
use super::list::{csv_text, job_table};
use super::reader::user;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, notice};
use monitor_format::grid::Side;
use monitor_format::human;
use monitor_jobs::job_log::{JobChange, JobTransition};
use monitor_model::Ns;
use monitor_sys::clock;
use serde_json::{Value as Json, json};
use std::time::Duration;

/// Prints the jobs that have ended in the last time.
///
/// # Errors
/// If no service answers, or it refuses the call.
pub fn list_ended(args: &JobListArgs, last: Duration) -> Result<Exit, Failure> {
    let tool = history::connect(args.daemon.socket.as_deref())?;
    let line = tool.request_block(&format!("1 [0] {}", history::call("", last)))?;
    let history = JobHistory::from_results(&history::last_results(&line)?)?;
    let notes: Vec<String> = history.gap(last).into_iter().collect();
    let is_end = |it: &JobTransition| it.change == JobChange::Ended;
    let jobs: Vec<JobTransition> = history.transitions.into_iter().filter(is_end).collect();
    let text = match args.format.as_str() {
        "json" => {
            let jobs: Vec<Json> = jobs.iter().map(transition_json).collect();
            output::json(&json!({ "schema_version": 1, "jobs": jobs, "notes": notes }))?
        }
        form => {
            notes.iter().for_each(|note| notice(note));
            if jobs.is_empty() {
                notice("no parallel job is known to have ended in this time");
            }
            if form == "csv" { csv(&jobs) } else { table(&jobs, clock::now().unix) }
        }
    };
    output::print(text.as_bytes())
}

const COLUMNS: [(&str, Side); 8] = [
    ("JOB", Side::Left),
    ("RUNTIME", Side::Left),
    ("LAUNCHER", Side::Right),
    ("USER", Side::Left),
    ("RANKS", Side::Right),
    ("STATUS", Side::Right),
    ("RAN", Side::Right),
    ("AGO", Side::Right),
];

fn table(jobs: &[JobTransition], now: Ns) -> String {
    let time = |time: Ns| human::duration_text(time.0 as f64);
    let row = |job: &JobTransition| {
        [
            job.id.to_string(),
            job.runtime.name().to_owned(),
            job.launcher.map_or_else(|| "-".to_owned(), |pid| pid.0.to_string()),
            job.uid.map_or_else(|| "-".to_owned(), user),
            job.ranks.to_string(),
            status_text(job.end),
            time(job.age),
            time(now.since(job.at)),
        ]
    };
    job_table(&COLUMNS, jobs.iter().map(row))
}

const CSV_HEADER: &str =
    "id,runtime,launcher_pid,uid,user,local_ranks,code,signal,ran_ns,ended_unix_ns\n";

fn csv(jobs: &[JobTransition]) -> String {
    let number = |number: Option<u32>| number.map(|it| it.to_string()).unwrap_or_default();
    let mut out = CSV_HEADER.to_owned();
    for job in jobs {
        let cells = [
            csv_text(&job.id),
            job.runtime.name().to_owned(),
            number(job.launcher.map(|pid| pid.0)),
            number(job.uid),
            csv_text(&job.uid.map(user).unwrap_or_default()),
            job.ranks.to_string(),
            number(job.end.code),
            number(job.end.signal),
            job.age.0.to_string(),
            job.at.0.to_string(),
        ];
        out += &cells.join(",");
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::job::history::transition;
    use monitor_omis::Value;

    fn ended(code: i32, signal: i32) -> JobTransition {
        let text = Value::from;
        let values = [text("77"), text("openmpi4"), text("ended"), 6.into(), 4_000_000.into()];
        let more: [Value; 5] =
            [code.into(), signal.into(), 2.into(), 1.5.into(), 5_000_000_000_u64.into()];
        let last = [Value::from(-1), Value::from(-1), text("")];
        transition(&[&values[..], &more[..], &last[..]].concat()).expect("thirteen values")
    }

    #[test]
    fn a_row_has_the_status_and_the_times() {
        let got = table(&[ended(137, 9), ended(3, 0), ended(-1, -1)], Ns(125_000_000_000));
        let want = "\
JOB RUNTIME  LAUNCHER USER    RANKS  STATUS  RAN   AGO
77  openmpi4        6 4000000     2 SIGKILL 1.5s 2m00s
77  openmpi4        6 4000000     2       3 1.5s 2m00s
77  openmpi4        6 4000000     2       - 1.5s 2m00s
";
        assert_eq!(got, want);
    }

    #[test]
    fn csv_leaves_out_what_is_unknown() {
        let got = csv(&[ended(137, 9), ended(-1, -1)]);
        let rows: Vec<_> = got.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "77,openmpi4,6,4000000,4000000,2,137,9,1500000000,5000000000",
                "77,openmpi4,6,4000000,4000000,2,,,1500000000,5000000000"
            ]
        );
    }
}

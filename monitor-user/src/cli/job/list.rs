//! `monitor job list`: the parallel jobs with a rank on this node.

use super::args::JobListArgs;
use super::reader::{self, JobReader, age, job_json, jobs_of, launcher_notes, since_unix};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, notice};
use monitor_format::grid::{Column, Grid, Side};
use monitor_format::{human, wrap};
use monitor_jobs::ParallelJob;
use monitor_model::sample::Instant;
use serde_json::{Value as Json, json};

/// Prints the jobs.
///
/// # Errors
/// If processes cannot be read, or the output cannot be written.
pub fn list(args: &JobListArgs) -> Result<Exit, Failure> {
    let sample = JobReader::open_once(args.source.backend)?.read()?;
    let jobs = jobs_of(&sample);
    let notes = launcher_notes(&sample, &jobs);
    let text = match args.format.as_str() {
        "json" => {
            let jobs: Vec<Json> = jobs.iter().map(|job| job_json(job, sample.at)).collect();
            output::json(&json!({ "schema_version": 1, "jobs": jobs, "notes": notes }))?
        }
        form => {
            notes.iter().for_each(|note| notice(note));
            if jobs.is_empty() {
                notice("no parallel job is visible on this node");
            }
            if form == "csv" { csv(&jobs, sample.at) } else { table(&jobs, sample.at) }
        }
    };
    output::print(text.as_bytes())
}

const COLUMNS: [(&str, Side); 8] = [
    ("JOB", Side::Left),
    ("RUNTIME", Side::Left),
    ("LAUNCHER", Side::Right),
    ("USER", Side::Left),
    ("HERE", Side::Right),
    ("ALL", Side::Right),
    ("STATE", Side::Left),
    ("AGE", Side::Right),
];

fn table(jobs: &[ParallelJob], at: Instant) -> String {
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let row = |job: &ParallelJob| {
        [
            job.id.to_string(),
            job.runtime.name().to_owned(),
            number(job.launcher.map(|it| it.pid.0)),
            job.uid.map_or_else(|| "-".to_owned(), reader::user),
            job.ranks.len().to_string(),
            number(job.size),
            job.state.name().to_owned(),
            age(job, at),
        ]
    };
    job_table(&COLUMNS, jobs.iter().map(row))
}

/// A table of jobs, one in each row.
pub fn job_table<const N: usize>(
    columns: &[(&'static str, Side); N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut grid = Grid::default();
    grid.begin(columns.iter().map(|&(title, side)| Column { title, min_width: 0, side }));
    rows.flatten().for_each(|text| grid.cell(|out| human::escaped(&text, out)));
    let mut out = String::new();
    grid.lines(wrap::COLUMNS, &mut out);
    out
}

const CSV_HEADER: &str =
    "id,runtime,launcher_pid,uid,user,local_ranks,local_size,size,state,since_unix_ns\n";

fn csv(jobs: &[ParallelJob], at: Instant) -> String {
    let number = |number: Option<u32>| number.map(|it| it.to_string()).unwrap_or_default();
    let mut out = CSV_HEADER.to_owned();
    for job in jobs {
        let cells = [
            csv_text(&job.id),
            job.runtime.name().to_owned(),
            number(job.launcher.map(|it| it.pid.0)),
            number(job.uid),
            csv_text(&job.uid.map(reader::user).unwrap_or_default()),
            job.ranks.len().to_string(),
            number(job.local_size),
            number(job.size),
            job.state.name().to_owned(),
            since_unix(job, at).0.to_string(),
        ];
        out += &cells.join(",");
        out.push('\n');
    }
    out
}

/// A text as RFC 4180 writes it: a process chooses the name of its namespace.
pub fn csv_text(text: &str) -> String {
    let text = human::escaped_text(text);
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::csv_text;

    #[test]
    fn a_name_of_a_process_cannot_add_cells_or_control_a_terminal() {
        assert_eq!(csv_text("prterun-vm-7@1"), "prterun-vm-7@1");
        assert_eq!(csv_text("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_text("a\u{1b}[2J"), "a\\u{1b}[2J");
    }
}

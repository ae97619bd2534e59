//! `monitor job show`: the ranks of a job, what each uses, and how far it is from the median.
//!
//! In: a measured job. Out: the table as text or JSON, or the table of MPIR.

use super::args::JobShowArgs;
use super::measure::{MeasuredJob, measure, table_of};
use super::reader::{JobReader, job_json, jobs_of, named};
use super::show_text;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_format::human;
use monitor_jobs::RankRow;
use monitor_jobs::rank_table::Quantity;
use monitor_jobs::straggler::{Deviation, median};
use monitor_model::field::{Category, ValueKind};
use serde_json::{Map, Value as Json, json};

/// Prints the ranks of a job.
///
/// # Errors
/// If there is no such job, or it ends meanwhile; if processes cannot be read.
pub fn show(args: &JobShowArgs) -> Result<Exit, Failure> {
    if args.mpir {
        return output::print(mpir(args)?.as_bytes());
    }
    let measured = measure(args)?;
    let text = match args.format.as_str() {
        "json" => output::json(&to_json(&measured))?,
        _ => show_text::text(&measured),
    };
    output::print(text.as_bytes())
}

/// Host, executable and pid of each rank: what MPIR_PROCDESC has.
fn mpir(args: &JobShowArgs) -> Result<String, Failure> {
    let sample = JobReader::open_once(args.source.backend)?.read()?;
    let jobs = jobs_of(&sample);
    let table = table_of(named(&jobs, &args.job, &sample)?, &sample);
    let line = |row: &RankRow| {
        let [host, file] = [&row.host, &row.executable].map(|text| human::escaped_text(text));
        format!("{host}\t{file}\t{}\n", row.process.pid.0)
    };
    Ok(table.rows.iter().map(line).collect())
}

fn to_json(measured: &MeasuredJob) -> Json {
    let MeasuredJob { job, table, at, interval, notes, .. } = measured;
    let mut of_job = job_json(job, *at);
    let cpu: Option<f64> = table.rows.iter().map(|row| row.cpu_ns).sum();
    of_job["cpu_ns"] = json!(cpu.map(|it| it as u64));
    of_job["ranks"] = table.rows.iter().map(rank_json).collect();
    json!({
        "schema_version": 1,
        "node": measured.node,
        "interval_ns": interval.map(|it| it.0),
        "job": of_job,
        "medians": medians_json(&table.rows),
        "notes": notes,
    })
}

/// The median of each quantity.
pub fn medians_json(rows: &[RankRow]) -> Map<String, Json> {
    by_quantity(|quantity| {
        let median = median(rows.iter().filter_map(|row| row.value(quantity)))?;
        human::rounded(median).map(Json::from)
    })
}

/// A rank as an object.
pub fn rank_json(row: &RankRow) -> Json {
    let mut out = by_quantity(|quantity| {
        let value = row.value(quantity)?;
        Some(match quantity.field().field().kind {
            // A sum of whole bytes.
            ValueKind::Number => Json::from(value as u64),
            _ => human::rounded(value).map_or(Json::Null, Json::from),
        })
    });
    let deviations = by_quantity(|quantity| row.deviation(quantity).map(deviation_json));
    let straggler = row.straggles_by().map(|(quantity, _)| quantity.field().field().name);
    let rest = [
        ("rank", json!(row.rank)),
        ("host", json!(&*row.host)),
        ("pid", json!(row.process.pid.0)),
        ("executable", json!(&*row.executable)),
        ("state", json!(row.state)),
        ("processes", json!(row.processes)),
        ("cpu_ns", json!(row.cpu_ns.map(|it| it as u64))),
        ("from_median", Json::Object(deviations)),
        ("straggler", json!(straggler)),
    ];
    out.extend(rest.map(|(name, value)| (name.to_owned(), value)));
    Json::Object(out)
}

fn deviation_json(deviation: Deviation) -> Json {
    json!({
        "difference": human::rounded(deviation.difference),
        "score": human::rounded(deviation.score),
        "outlier": deviation.is_outlier,
    })
}

/// A value for each quantity, by the name of its field; those that are absent are left out.
fn by_quantity(value: impl Fn(Quantity) -> Option<Json>) -> Map<String, Json> {
    let all = Quantity::ALL.iter();
    all.filter_map(|it| Some((it.field().field().name.to_owned(), value(*it)?))).collect()
}

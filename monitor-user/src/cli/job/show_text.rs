//! The ranks of a measured job as text.
//!
//! In: the job and its table. Out: a head, a line for each rank, the stragglers, notes.

use super::measure::MeasuredJob;
use super::reader::{age, user};
use monitor_format::grid::{Column, Grid, Side};
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_jobs::RankRow;
use monitor_jobs::rank_table::Quantity;
use monitor_jobs::straggler::{Deviation, MIN_RANKS, median};
use monitor_model::field::{Category, Unit};
use std::fmt::Write;

/// The smallest score that is printed: below, a rank is where most of the ranks are.
const PRINTED_SCORE: f64 = 1.0;
/// Before the difference of a straggler.
const MARK: &str = "! ";

/// The text. Writing to a `String` cannot fail.
pub fn text(measured: &MeasuredJob) -> String {
    let mut out = String::new();
    head(measured, &mut out);
    rank_lines((&measured.table.rows, &measured.notes), HostColumn::Hidden, &mut out);
    out
}

/// Whether ranks have the name of their node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostColumn {
    /// They are all on one.
    Hidden,
    /// They are on several.
    Shown,
}

/// A line for each rank, the stragglers, and notes.
pub fn rank_lines((rows, notes): (&[RankRow], &[String]), hosts: HostColumn, out: &mut String) {
    ranks(rows, hosts, out);
    for row in rows {
        straggler(row, rows, out);
    }
    if (1..MIN_RANKS).contains(&rows.len()) {
        let _ = writeln!(out, "fewer than {MIN_RANKS} ranks are not compared");
    }
    for note in notes {
        out.push_str("note: ");
        wrap(&human::escaped_text(note), 6, COLUMNS, out);
    }
}

fn head(measured: &MeasuredJob, out: &mut String) {
    let MeasuredJob { job, table, at, node, interval, .. } = measured;
    let id = human::escaped_text(&job.id);
    let (runtime, state, age) = (job.runtime.title(), job.state.name(), age(job, *at));
    let _ = writeln!(out, "job {id}: {runtime}, {state}, started {age} ago");
    let launcher = match (job.launcher, job.daemon) {
        (Some(launcher), _) => format!("launcher {}", launcher.pid.0),
        (None, Some(daemon)) => format!("launcher elsewhere, daemon {}", daemon.pid.0),
        (None, None) => "no launcher".to_owned(),
    };
    let owner = job.uid.map(|uid| format!("user {}, ", user(uid))).unwrap_or_default();
    let all = job.size.map(|size| format!(" of {size}")).unwrap_or_default();
    let time = interval.map(|it| human::duration_text(it.0 as f64)).unwrap_or_default();
    let (here, node) = (table.rows.len(), human::escaped_text(node));
    let _ = writeln!(out, "{launcher}, {owner}{here}{all} ranks on {node}, measured over {time}");
}

fn ranks(rows: &[RankRow], hosts: HostColumn, out: &mut String) {
    let right = |title| Column { title, min_width: 0, side: Side::Right };
    let left = |title| Column { title, min_width: 0, side: Side::Left };
    let mut grid = Grid::default();
    let quantities = Quantity::ALL.iter().map(|it| it.field().field().title);
    let host = (hosts == HostColumn::Shown).then(|| left("NODE"));
    let first = [right("RANK")].into_iter().chain(host).chain([right("PID"), left("S")]);
    let last = [left("FROM MEDIAN"), left("PROGRAM")];
    grid.begin(first.chain(quantities.map(right)).chain(last));
    for row in rows {
        // Writing to a `String` cannot fail.
        grid.cell(|out| _ = write!(out, "{}", row.rank));
        if hosts == HostColumn::Shown {
            grid.cell(|out| human::escaped(&row.host, out));
        }
        grid.cell(|out| _ = write!(out, "{}", row.process.pid.0));
        grid.cell(|out| out.push(row.state));
        for quantity in Quantity::ALL {
            grid.cell(|out| match row.value(*quantity) {
                Some(value) => number(*quantity, value, out),
                None => out.push('-'),
            });
        }
        grid.cell(|out| from_median(row, out));
        let file = row.executable.rsplit('/').next().unwrap_or_default();
        grid.cell(|out| human::escaped(file, out));
    }
    grid.lines(COLUMNS, out);
}

/// The quantity in which a rank is farthest from the others, and by how much.
fn from_median(row: &RankRow, out: &mut String) {
    let marked = row.straggles_by();
    let found = marked.or_else(|| farthest(row));
    let Some((quantity, deviation)) = found else { return out.push('-') };
    out.push_str(if marked.is_some() { MARK } else { "" });
    let sign = if deviation.difference < 0.0 { '-' } else { '+' };
    let _ = write!(out, "{} {sign}", quantity.name());
    number(quantity, deviation.difference.abs(), out);
}

fn farthest(row: &RankRow) -> Option<(Quantity, Deviation)> {
    let all = Quantity::ALL.iter().filter_map(|it| Some((*it, row.deviation(*it)?)));
    let far = all.filter(|(_, it)| it.score.abs() >= PRINTED_SCORE);
    far.max_by(|(_, one), (_, other)| one.score.abs().total_cmp(&other.score.abs()))
}

/// A line about a straggler: its value and that of the job.
fn straggler(row: &RankRow, rows: &[RankRow], out: &mut String) {
    let Some((quantity, deviation)) = row.straggles_by() else { return };
    let center = median(rows.iter().filter_map(|row| row.value(quantity))).unwrap_or_default();
    let percent = |value: f64, out: &mut String| {
        number(quantity, value, out);
        out.push_str(if quantity.field().field().unit == Unit::Percent { " %" } else { "" });
    };
    let _ = write!(out, "straggler: rank {}, process {}: ", row.rank, row.process.pid.0);
    let _ = write!(out, "{} ", quantity.name());
    percent(center + deviation.difference, out);
    out.push_str(", the median of the job is ");
    percent(center, out);
    out.push('\n');
}

fn number(quantity: Quantity, value: f64, out: &mut String) {
    let _ = match quantity.field().field().unit {
        Unit::Percent => write!(out, "{value:.1}"),
        _ => {
            human::scaled(value, 1024.0, out);
            Ok(())
        }
    };
}

//! The calls of MPI of a job as text: the ranks, the functions, the places, notes.

use super::measured_calls::JobCalls;
use monitor_backend::call_profile::CallEnds;
use monitor_format::grid::{Column, Grid, Side};
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_jobs::call_profile::{CallTotals, CalledRow, RankShare};
use monitor_platform::call_measurement::MeasuredCalls;
use std::fmt::Write;

/// Before a time of which a part is estimated.
const ESTIMATED: &str = "~";

/// The text; at most `top` functions and places. Writing to a `String` cannot fail.
pub fn text(calls: &JobCalls, top: usize) -> String {
    let mut out = String::new();
    head(calls, &mut out);
    let (measured, profile) = (&calls.measured, &calls.measured.profile);
    ranks(measured, &mut out);
    for (rows, title) in [(&profile.functions, None), (&profile.places, Some("PLACE"))] {
        out.push('\n');
        table(rows, (title, is_timed(measured)), top, &mut out);
    }
    for note in &measured.notes {
        out.push_str("note: ");
        wrap(&human::escaped_text(note), 6, COLUMNS, &mut out);
    }
    out
}

fn is_timed(measured: &MeasuredCalls) -> bool {
    measured.ends != CallEnds::Unseen
}

fn head(calls: &JobCalls, out: &mut String) {
    let JobCalls { job, node, measured } = calls;
    let MeasuredCalls { profile, error_ns, overhead, .. } = measured;
    let (id, node) = (human::escaped_text(&job.id), human::escaped_text(node));
    let all = job.size.map(|size| format!(" of {size}")).unwrap_or_default();
    let (ranks, runtime) = (profile.ranks.len(), job.runtime.title());
    let span = human::duration_text(measured.span.as_nanos() as f64);
    let _ =
        writeln!(out, "job {id}: {runtime}, {ranks}{all} ranks on {node}, measured over {span}");
    let _ = write!(out, "the probes cost a rank at most {overhead:.1} % of its time");
    if is_timed(measured) {
        let error = human::duration_text(*error_ns as f64);
        let _ = write!(out, "; a time of a call is exact to {error}");
    }
    out.push('\n');
}

fn ranks(measured: &MeasuredCalls, out: &mut String) {
    let mut grid = Grid::default();
    let titles = ["RANK", "PID", "MPI%", "CALLS", "TIME", "SENT"];
    grid.begin(titles.into_iter().map(right));
    for RankShare { rank, sums, percent } in &measured.profile.ranks {
        grid.cell(|out| _ = write!(out, "{rank}"));
        let process = measured.processes.get(rank);
        grid.cell(|out| optional(process.map(|it| it.pid.0.to_string()), out));
        let time = is_timed(measured).then(|| share(sums, *percent));
        grid.cell(|out| optional(time, out));
        grid.cell(|out| _ = write!(out, "{}", sums.calls));
        grid.cell(|out| duration(is_timed(measured).then_some(sums.time_ns), out));
        grid.cell(|out| bytes((sums.sized > 0).then_some(sums.bytes), out));
    }
    grid.lines(COLUMNS, out);
}

/// Functions, or places with the title of their column.
pub fn table(
    rows: &[CalledRow],
    (place, is_timed): (Option<&'static str>, bool),
    top: usize,
    out: &mut String,
) {
    let mut grid = Grid::default();
    let numbers = ["TIME%", "IMBAL%", "CALLS", "MEAN", "MAX", "SENT", "SIZE"].map(right);
    let names = ["FUNCTION"].into_iter().chain(place).map(left);
    grid.begin(names.chain(numbers));
    for row in rows.iter().take(top) {
        let sums = &row.sums;
        grid.cell(|out| human::escaped(&row.function, out));
        if let Some(place) = &row.place {
            grid.cell(|out| human::escaped(place, out));
        }
        let has_time = is_timed && sums.timed + sums.open > 0;
        grid.cell(|out| optional(has_time.then(|| share(sums, row.percent)), out));
        let imbalance = row.imbalance.filter(|_| has_time);
        grid.cell(|out| optional(imbalance.map(|it| format!("{it:.0}")), out));
        grid.cell(|out| _ = write!(out, "{}", sums.calls));
        grid.cell(|out| duration(sums.mean_ns().filter(|_| has_time), out));
        grid.cell(|out| duration(has_time.then_some(sums.max_ns), out));
        grid.cell(|out| bytes((sums.sized > 0).then_some(sums.bytes), out));
        grid.cell(|out| bytes(sums.mean_bytes(), out));
    }
    grid.lines(COLUMNS, out);
    match rows.len().saturating_sub(top) {
        0 => {}
        more => _ = writeln!(out, "and {more} more (--top)"),
    }
}

/// A share of time; with a mark if some of it is estimated.
fn share(sums: &CallTotals, percent: f64) -> String {
    let mark = if sums.estimated > 0 { ESTIMATED } else { "" };
    format!("{mark}{percent:.1}")
}

/// A column of numbers.
pub const fn right(title: &'static str) -> Column {
    Column { title, min_width: 0, side: Side::Right }
}

/// A column of text.
pub const fn left(title: &'static str) -> Column {
    Column { title, min_width: 0, side: Side::Left }
}

/// A text, or a dash.
pub fn optional(text: Option<String>, out: &mut String) {
    out.push_str(text.as_deref().unwrap_or("-"));
}

/// A time, or a dash.
pub fn duration(ns: Option<u64>, out: &mut String) {
    optional(ns.map(|ns| human::duration_text(ns as f64)), out);
}

/// A number of bytes, or a dash.
pub fn bytes(number: Option<u64>, out: &mut String) {
    optional(number.map(|it| human::scaled_text(it as f64, 1024.0)), out);
}

//! A measurement as the results of a service.
//!
//! In: measured calls. Out: the values, with a limited number of rows.

use super::measured::MeasuredCalls;
use monitor_backend::call_profile::CallEnds;
use monitor_jobs::call_profile::{CallTotals, CalledRow, RankShare};
use monitor_omis::Value;

/// Most functions, and most places, in a reply; those with the most time.
const MAX_ROWS: usize = 256;
/// Most notes in a reply.
const MAX_NOTES: usize = 64;
/// A number that is not known.
const UNKNOWN: f64 = -1.0;

/// The values: whether something is missing, and the results of `job_calls`.
pub fn values(measured: &MeasuredCalls) -> Vec<Value> {
    let is_timed = measured.ends != CallEnds::Unseen;
    let profile = &measured.profile;
    let rank = |it: &RankShare| {
        let pid = measured.processes.get(&it.rank).map_or(Value::from(-1), |id| id.pid.0.into());
        let share = if is_timed { it.percent } else { UNKNOWN };
        let [calls, time, _, _, bytes] = totals(&it.sums, is_timed);
        [Value::from(it.rank), pid, Value::from(share), calls, time, bytes]
    };
    let rows = |all: &[CalledRow]| {
        let rows = all.iter().take(MAX_ROWS).flat_map(|it| row(it, is_timed));
        Value::List(rows.collect())
    };
    let left_out = |what: &str, all: &[CalledRow]| {
        let more = all.len().checked_sub(MAX_ROWS).filter(|more| *more > 0)?;
        Some(format!("{more} more {what} are left out"))
    };
    let left_out = [left_out("functions", &profile.functions), left_out("places", &profile.places)];
    let notes =
        measured.notes.iter().take(MAX_NOTES).cloned().chain(left_out.into_iter().flatten());
    vec![
        Value::from(i32::from(measured.is_partial)),
        Value::List(profile.ranks.iter().flat_map(rank).collect()),
        rows(&profile.functions),
        rows(&profile.places),
        Value::from(measured.span.as_secs_f64()),
        Value::from(measured.overhead),
        Value::List(notes.map(|it| Value::from(it.as_str())).collect()),
    ]
}

/// Calls, their time, its mean and the longest, and bytes.
fn totals(sums: &CallTotals, is_timed: bool) -> [Value; 5] {
    let has_time = is_timed && sums.timed + sums.open > 0;
    let seconds = |ns: Option<u64>| {
        Value::from(ns.filter(|_| has_time).map_or(UNKNOWN, |ns| ns as f64 / 1e9))
    };
    let bytes = i64::try_from(sums.bytes).ok().filter(|_| sums.sized > 0);
    [
        Value::from(sums.calls),
        seconds(Some(sums.time_ns)),
        seconds(sums.mean_ns()),
        seconds(Some(sums.max_ns)),
        Value::from(bytes.unwrap_or(-1)),
    ]
}

fn row(row: &CalledRow, is_timed: bool) -> Vec<Value> {
    let name = Value::from(&*row.function);
    let place = row.place.as_deref().map(Value::from);
    let imbalance = row.imbalance.filter(|_| is_timed).unwrap_or(UNKNOWN);
    let share = if is_timed { row.percent } else { UNKNOWN };
    let shares = [Value::from(share), Value::from(imbalance)];
    [name].into_iter().chain(place).chain(totals(&row.sums, is_timed)).chain(shares).collect()
}

//! The calls of MPI of a job as JSON: all rows, times in nanoseconds.

use super::measured_calls::JobCalls;
use monitor_backend::call_profile::CallEnds;
use monitor_format::human;
use monitor_jobs::call_profile::{CallTotals, CalledRow, RankShare};
use monitor_platform::call_measurement::MeasuredCalls;
use serde_json::{Value as Json, json};

/// The profile.
pub fn json(calls: &JobCalls) -> Json {
    let JobCalls { job, node, measured } = calls;
    let profile = &measured.profile;
    json!({
        "schema_version": 1,
        "node": &**node,
        "job": &*job.id,
        "runtime": job.runtime.name(),
        "size": job.size,
        "measured_ns": u64::try_from(measured.span.as_nanos()).unwrap_or(u64::MAX),
        "timed": measured.ends != CallEnds::Unseen,
        "error_per_call_ns": measured.error_ns,
        "price_per_call_ns": measured.price_ns,
        "overhead_percent": human::rounded(measured.overhead),
        "ranks": profile.ranks.iter().map(|it| rank(measured, it)).collect::<Vec<_>>(),
        "functions": profile.functions.iter().map(row).collect::<Vec<_>>(),
        "places": profile.places.iter().map(row).collect::<Vec<_>>(),
        "notes": measured.notes,
    })
}

fn rank(measured: &MeasuredCalls, share: &RankShare) -> Json {
    let mut out = totals(&share.sums);
    out["rank"] = share.rank.into();
    out["pid"] = measured.processes.get(&share.rank).map(|it| it.pid.0).into();
    out["mpi_percent"] = human::rounded(share.percent).into();
    out
}

fn row(row: &CalledRow) -> Json {
    let mut out = totals(&row.sums);
    out["function"] = (*row.function).into();
    if let Some(place) = &row.place {
        out["place"] = (**place).into();
    }
    out["ranks"] = row.ranks.into();
    out["percent"] = human::rounded(row.percent).into();
    out["imbalance_percent"] = row.imbalance.and_then(human::rounded).into();
    out
}

fn totals(sums: &CallTotals) -> Json {
    json!({
        "calls": sums.calls,
        "timed": sums.timed,
        "time_ns": sums.time_ns,
        "mean_ns": sums.mean_ns(),
        "max_ns": sums.max_ns,
        "open": sums.open,
        "left": sums.left,
        "estimated": sums.estimated,
        "sized": sums.sized,
        "bytes": sums.bytes,
    })
}

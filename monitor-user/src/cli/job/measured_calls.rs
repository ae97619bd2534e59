//! The calls of MPI of the ranks of a job, counted and timed for a while.
//!
//! In: the ranks that the user names, and for how long. Out: their profile, and what it lacks. The
//! probes are in these processes alone, and gone when this ends, however it ends.

use super::args::JobCallsArgs;
use super::call_notes;
use super::call_session::CallSession;
use super::target::JobTarget;
use crate::cli::exit::Failure;
use crate::cli::output;
use monitor_jobs::ParallelJob;
use monitor_jobs::call_profile::{CallProfile, CallTotals, RankCalls, call_profile};
use monitor_loader::call_profile::{CallSite, CallSums, OpenCall};
use monitor_model::Identity;
use monitor_sys::{clock, pending_signals::PendingSignals};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest time until a signal, or the end of the ranks, is seen.
const PAUSE: Duration = Duration::from_millis(50);

/// A measured job.
pub struct MeasuredCalls {
    /// The job.
    pub job: ParallelJob,
    /// The name of the node.
    pub node: Arc<str>,
    /// How long it was measured.
    pub span: Duration,
    /// The profile.
    pub profile: CallProfile,
    /// The process of each rank.
    pub processes: BTreeMap<u32, Identity>,
    /// Whether calls were timed.
    pub is_timed: bool,
    /// By how much the probes make a call longer, at most, ns.
    pub price_ns: u64,
    /// The error of the time of a call, ns.
    pub error_ns: u64,
    /// The largest share of the time of a rank that the probes cost, percent.
    pub overhead: f64,
    /// What is missing or inexact.
    pub notes: Vec<String>,
    /// Whether a rank or a function that was asked for is missing.
    pub is_partial: bool,
}

/// Measures the calls of the ranks.
///
/// # Errors
/// If there is no such job or rank, none of them calls MPI, or the kernel refuses the probes.
pub fn measure(args: &JobCallsArgs) -> Result<MeasuredCalls, Failure> {
    let target = JobTarget::find(&args.job)?;
    let kept = PendingSignals::keep().map_err(Failure::failed)?;
    let mut session = CallSession::begin(args, &target)?;
    session.add_calls_of_before();
    output::notice(&session.announcement(args.span));
    let (start, mut is_interrupted) = (Instant::now(), false);
    while start.elapsed() < args.span && !is_interrupted && session.has_ranks() {
        sleep(PAUSE.min(args.span.saturating_sub(start.elapsed())));
        session.read_sums(args.max_overhead)?;
        is_interrupted = kept.take();
    }
    finish(session, target, start)
}

/// Ends the counting, and makes the profile.
fn finish(
    mut session: CallSession,
    target: JobTarget,
    start: Instant,
) -> Result<MeasuredCalls, Failure> {
    session.profiler.end_counting()?;
    let (end_ns, span) = (clock::boot().0, start.elapsed());
    let _some = session.has_ranks();
    let (sums, open) = (session.profiler.sums(), session.profiler.open_calls());
    let sites = sums.iter().map(|(site, _)| *site).chain(open.iter().map(|it| it.site));
    session.look_up(sites);
    session.judge(&sums);
    let of_sums =
        sums.iter().map(|(site, it)| rank_calls(&session, site, totals(&session, site, it)));
    let of_open = open.iter().map(|call| open_call(&session, call, end_ns));
    let calls: Vec<RankCalls> = of_sums.chain(of_open).collect();
    let measured = session
        .ranks
        .iter()
        .map(|it| (it.rank, it.ended_ns.unwrap_or(end_ns).saturating_sub(it.since_ns)));
    let profile = call_profile(&calls, &measured.collect());
    let called: BTreeSet<Arc<str>> = calls.into_iter().map(|it| it.function).collect();
    call_notes::add(&mut session, &called);
    let processes = session.ranks.iter().map(|it| (it.rank, it.process)).collect();
    Ok(MeasuredCalls {
        node: Arc::clone(&target.node),
        job: target.job,
        span,
        profile,
        processes,
        is_timed: session.functions.is_timed,
        price_ns: session.price_ns(),
        error_ns: session.prices.error_ns,
        overhead: session.overhead.largest,
        notes: session.notes,
        is_partial: session.is_partial,
    })
}

fn rank_calls(session: &CallSession, site: &CallSite, sums: CallTotals) -> RankCalls {
    let key = (site.process, site.return_address);
    let unknown = || format!("{:#x}", site.return_address).into();
    RankCalls {
        rank: session.ranks[site.process as usize].rank,
        function: Arc::clone(&session.functions.all[site.function as usize].name),
        place: session.places.get(&key).cloned().unwrap_or_else(unknown),
        sums,
    }
}

/// A call that has not ended: its time so far, or until its rank has ended.
fn open_call(session: &CallSession, call: &OpenCall, end_ns: u64) -> RankCalls {
    let rank = &session.ranks[call.site.process as usize];
    let time_ns = rank.ended_ns.unwrap_or(end_ns).saturating_sub(call.since_ns);
    let sums = CallTotals { open: 1, time_ns, max_ns: time_ns, ..CallTotals::default() };
    rank_calls(session, &call.site, sums)
}

/// The sums of a place, without the time that the probes themselves add to each call.
fn totals(session: &CallSession, site: &CallSite, sums: &CallSums) -> CallTotals {
    let added_ns = session.prices.empty(session.functions.kind(site.function));
    let size = session.sizes.get(&(site.process, site.element_type)).copied().flatten();
    let totals = CallTotals {
        calls: sums.calls,
        timed: sums.ended,
        time_ns: sums.time_ns.saturating_sub(sums.ended * added_ns),
        max_ns: sums.max_ns.saturating_sub(added_ns),
        open: 0,
        left: sums.left,
        // Those before the function was given up are a sample of all.
        estimated: match session.untimed.contains_key(&site.function) {
            true => sums.calls.saturating_sub(sums.ended + sums.left),
            false => 0,
        },
        sized: size.map_or(0, |_| sums.calls),
        bytes: size.map_or(0, |bytes| bytes.saturating_mul(sums.elements)),
    };
    totals.with_estimate()
}

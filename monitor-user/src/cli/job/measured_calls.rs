//! The calls of MPI of the ranks of a job, counted and timed for a while by this command.
//!
//! In: the ranks that the user names, and for how long. Out: their profile, and what it lacks. The
//! probes are in these processes alone, and gone when this ends, however it ends.

use super::args::{JobCallsArgs, Overhead};
use super::target::JobTarget;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_backend::BackendChoice;
use monitor_backend::call_profile::{CallEnds, ProbeLinks};
use monitor_control::rank_calls::RankCallReader;
use monitor_format::human;
use monitor_jobs::ParallelJob;
use monitor_loader::select;
use monitor_platform::call_measurement::{CallError, CallOptions, CallSession, MeasuredCalls};
use monitor_sys::pending_signals::PendingSignals;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest time until a signal, or the end of the ranks, is seen.
const PAUSE: Duration = Duration::from_millis(50);

/// A measured job.
pub struct JobCalls {
    /// The job.
    pub job: ParallelJob,
    /// The name of the node.
    pub node: Arc<str>,
    /// What was measured.
    pub measured: MeasuredCalls,
}

/// Measures the calls of the ranks.
///
/// # Errors
/// If there is no such job or rank, none of them calls MPI, or the kernel refuses the probes.
pub fn measure(args: &JobCallsArgs) -> Result<JobCalls, Failure> {
    let target = JobTarget::find(&args.job)?;
    let kept = PendingSignals::keep().map_err(Failure::failed)?;
    let open = select::opener(BackendChoice::Ebpf).open_call_profiler;
    let reader = Box::new(RankCallReader::new(args.lines));
    let begun = CallSession::begin(open, options(args), &target.programs(), reader);
    let mut session = begun.map_err(failure)?;
    session.add_calls_of_before();
    output::notice(&announcement(&session, args.span));
    let (start, mut is_interrupted) = (Instant::now(), false);
    while start.elapsed() < args.span && !is_interrupted && session.has_ranks() {
        sleep(PAUSE.min(args.span.saturating_sub(start.elapsed())));
        session.read_sums().map_err(failure)?;
        is_interrupted = kept.take();
    }
    let measured = session.finish().map_err(failure)?;
    Ok(JobCalls { node: Arc::clone(&target.node), job: target.job, measured })
}

fn options(args: &JobCallsArgs) -> CallOptions {
    CallOptions {
        ends: match (args.counts, args.trampoline) {
            (true, _) => CallEnds::Unseen,
            (false, true) => CallEnds::Trampolines,
            (false, false) => CallEnds::Instructions,
        },
        links: match args.one_by_one {
            true => ProbeLinks::OneByOne,
            false => ProbeLinks::Best,
        },
        max_overhead: match args.max_overhead {
            Overhead::AtMost(percent) => Some(percent),
            Overhead::Any => None,
        },
        user: rustix::process::geteuid().as_raw(),
    }
}

/// What is watched, and what that costs a call.
fn announcement(session: &CallSession, span: Duration) -> String {
    let most_ns = session.price_ns() as f64;
    let [most, span] = [most_ns, span.as_nanos() as f64].map(human::duration_text);
    let (functions, ranks) = (session.functions.all.len(), session.ranks.len());
    format!(
        "measuring {functions} functions of {ranks} ranks for {span}, or until SIGINT; meanwhile a \
         call of them takes at most {most} longer"
    )
}

fn failure(error: CallError) -> Failure {
    let exit = match error {
        CallError::Backend(error) => return error.into(),
        CallError::NothingToProbe(_) => Exit::NothingWatched,
        CallError::OfOtherUser { .. } => Exit::Denied,
    };
    Failure { message: error.to_string(), exit }
}

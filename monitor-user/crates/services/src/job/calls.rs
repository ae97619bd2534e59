//! `job_calls`.
//!
//! In: the ranks that a tool names, and for how long. Out: their calls of MPI, measured by the
//! service with probes that are in these ranks alone.

use super::{controlled_ranks, results_of_one};
use crate::spec::{ErrorSpec, error, number, param, params};
use crate::{CallContext, Handler, Outcome, PendingCall, ResultSpec, ServiceSpec, timeouts};
use monitor_backend::call_profile::CallEnds;
use monitor_control::rank_program::program_processes;
use monitor_event::{ActionReport, CallResult, Refusal};
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Text, Value};
use monitor_platform::call_measurement::CallSpec;
use std::time::Duration;

/// Seconds without a number, and the most.
const SECONDS: i32 = 10;
const MAX_SECONDS: i32 = 300;
/// Percent without a number.
const MAX_OVERHEAD: i32 = 5;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "job_calls",
    params: &[
        super::act::JOB,
        param("seconds", ParamType::Integer),
        param("what", ParamType::Text),
        param("max_overhead_percent", ParamType::Integer),
    ],
    results: &[
        ResultSpec::new(
            "ranks",
            "{integer rank; integer pid; floating percent; integer calls; floating time; \
                   integer bytes}*",
        ),
        ResultSpec::new(
            "functions",
            "{string function; integer calls; floating time; floating mean; floating max; \
                   integer bytes; floating percent; floating imbalance}*",
        ),
        ResultSpec::new(
            "places",
            "{string function; string place; integer calls; floating time; floating mean; \
                   floating max; integer bytes; floating percent; floating imbalance}*",
        ),
        ResultSpec::new("seconds", "floating"),
        ResultSpec::new("overhead", "floating"),
        ResultSpec::new("notes", "string*"),
    ],
    timeout: timeouts::CALLS,
    help: "Measures the calls of MPI of the ranks of a parallel job for `seconds` seconds, 1 to \
           300, or 10 if it is 0, and returns them then; other requests are served meanwhile. \
           `job` is the text of `job_info`, followed by a colon and ranks for some of them: \
           `77:0-3,7`; the processes need not be attached. `what` is \"timed\"; \"counts\" for \
           counts without times, which costs the ranks less; or \"trampoline\": times, whose ends \
           are seen by replaced return addresses, which costs less and is for processes of the \
           calling user alone, because an exception or a cancellation that passes through such a \
           call ends the process. If the probes cost a rank more than `max_overhead_percent`, 5 \
           if it is 0, the function that costs most is no longer timed, and then no longer \
           counted; its time is estimated. `ranks` has for each rank the share of its time in \
           MPI in percent, the calls, their time in seconds and the bytes that they sent or \
           wrote; `functions` the calls of all ranks, the most time first, with the mean and the \
           longest time of a call, the share of the time of all ranks, and the imbalance, 0 if \
           all ranks spend the same time in it and 100 if one spends all; `places` the same by \
           the function that calls; `seconds` how long was measured; `overhead` the largest share \
           of the time of a rank that the probes cost, in percent. -1 stands for what is not \
           known. `notes` says what is missing; if that is a rank, a function or a call, the \
           status is PARTIAL. When the tool disconnects, the measurement ends.",
    examples: &["process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                 process 8 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
                 > 10 [0] job_calls(\"77\",2,\"timed\",0)\n\
                 < 10 [0] job_calls(0,[0,7,25.0,10,0.5,80,1,8,25.0,10,0.5,80],\
                 [\"MPI_Send\",20,1.0,0.05,0.05,160,25.0,0.0],\
                 [\"MPI_Send\",\"work\",20,1.0,0.05,0.05,160,25.0,0.0],2.0,0.0,[])"],
    errors: ERRORS,
    handler: Handler::Synchronous(calls),
    ..super::act::BLANK
}];

const ERRORS: &[ErrorSpec] = &[
    error(
        Status::NO_SUCH_OBJECT,
        "a job or a rank that does not exist, or that the caller may not see",
        "> 10 [0] job_calls(\"77\",1,\"timed\",0)",
    ),
    error(
        Status::RANGE,
        "`what` is none of the three, or a number is out of range",
        "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n> 10 [0] job_calls(\"77\",301,\"timed\",0)",
    ),
    error(Status::PERMISSION, "\"trampoline\" for a process of another user", ""),
    error(Status::BUSY, "two measurements of the user are running, or eight in all", ""),
    error(
        Status::UNSUPPORTED,
        "no rank has a function of MPI that can be probed, or the kernel is older than 5.15",
        "",
    ),
];

fn calls(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [_, seconds, what, max_overhead] = params(args);
    let named = what.text().map(Text::to_str_lossy);
    let ends = match named.as_deref() {
        Some("timed") => CallEnds::Instructions,
        Some("counts") => CallEnds::Unseen,
        Some("trampoline") => CallEnds::Trampolines,
        _ => {
            let text = format!("what {what}: expected \"timed\", \"counts\" or \"trampoline\"");
            return Err(Refusal::new(Status::RANGE, text));
        }
    };
    let or = |number: i32, default: i32| if number == 0 { default } else { number };
    let seconds = or(number(seconds, "seconds", 0..=MAX_SECONDS)?, SECONDS);
    let most = or(number(max_overhead, "max_overhead_percent", 0..=100)?, MAX_OVERHEAD);
    let (_, ranks) = controlled_ranks(ctx, args)?;
    let spec = CallSpec {
        ranks: program_processes(ranks.iter()),
        ends,
        span: Duration::from_secs(seconds.unsigned_abs().into()),
        max_overhead: most.into(),
    };
    let (tool, failed) = (ctx.session.tool, Vec::new());
    Ok(match ctx.platform.measure_calls(ctx.ticket, &tool, spec)? {
        None => Outcome::Pending(PendingCall { then: measured, failed }),
        Some(by_process) => measured(ctx, ActionReport { by_process, failed })?.into(),
    })
}

fn measured(_: &mut CallContext<'_>, report: ActionReport) -> Result<CallResult, Refusal> {
    let mut results = results_of_one(report)?;
    let missing = || Refusal::new(Status::INTERNAL, "the measurement has no result");
    if results.is_empty() {
        return Err(missing());
    }
    let is_partial = results.remove(0) != Value::from(0);
    let status = if is_partial { Status::PARTIAL } else { Status::OK };
    Ok(CallResult { status, ..CallResult::with(results) })
}

//! `job_stacks`.
//!
//! In: the ranks that a tool names. Out: their merged call stacks, which the user worker of the
//! tool reads with the rights of its user.

use super::{controlled_ranks, results_of_one};
use crate::spec::{ErrorSpec, error, param, params};
use crate::timeouts;
use crate::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec};
use monitor_event::{CallResult, Refusal};
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Text, Value};
use monitor_platform::ProcessAction;
use monitor_platform::action::{StackOptions, Threads};
use std::time::Duration;

/// Which result names the ranks that could not be read.
const MISSING: usize = 2;

/// Most looks of a series, and its longest time: they are in memory until the last one.
const MAX_LOOKS: usize = 20;
const MAX_TIME: f64 = 30.0;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "job_stacks",
    params: &[
        super::act::JOB,
        param("threads", ParamType::Text),
        param("looks", ParamType::Many(&ParamType::Any)),
    ],
    results: &[
        ResultSpec::new("classes", "{string ranks; integer rank; integer pid; string* path}*"),
        ResultSpec::new(
            "nodes",
            "{integer depth; string function; string ranks; integer threads; integer ends; \
             integer stayed}*",
        ),
        ResultSpec::new("missing", "{integer rank; integer pid; integer status; string reason}*"),
        ResultSpec::new("stopped", "floating"),
        ResultSpec::new("looks", "integer"),
        ResultSpec::new("lacks_lines", "integer"),
    ],
    help: "Returns the call stacks of the ranks of a parallel job, merged into one tree. `job` is \
           the text of `job_info`, followed by a colon and ranks for some of them: `77:0-3,7`; the \
           processes need not be attached. `threads` is \"first\" for the first thread of each \
           rank, or \"all\". Each thread is stopped only while its registers and its stack are \
           copied. `classes` has the ranks at one place, the most first: the ranks, one that \
           represents them with the process of its program, and the functions from the outermost \
           to the first one of MPI. `nodes` has the tree, each function after its caller: number \
           of its callers, name, ranks, their threads that are in it, stacks that end with it, and \
           whether each thread stayed in it from the first look to the last, 1 or 0. \
           A function without a name is that of its file, `a.so+0x1f`. `missing` has the ranks \
           that could not be read, or some thread of which could not; then the status is PARTIAL. \
           `stopped` is the longest time in seconds for which a thread was stopped. A rank that a \
           request of a tool traces is missing, as one that a debugger does. \
           Further parameters are for several looks: their number, 1 to 20, and the seconds from \
           one to the next, 30 in all; and \"lines\" for the line of each function, as in \
           `work at a.c:7`, where the file has debugging information and belongs to the user. \
           `looks` is the number of looks: fewer, if they take longer than 40 s. `lacks_lines` is \
           1 if lines were not looked up, because the files belong to another user. Between looks \
           other requests are executed, and a tool that disconnects ends its own. A user has 4 \
           series of readings of a time.",
    examples: &[
        "process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                 process 8 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
                 > 10 [0] job_stacks(\"77\",\"first\")\n\
                 < 10 [0] job_stacks(0,[\"0-1\",0,7,[\"main\",\"work\"]],\
                 [0,\"main\",\"0-1\",2,0,0,1,\"work\",\"0-1\",2,2,0],[],0.0,1,0)",
        "process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                 > 10 [0] job_stacks(\"77\",\"all\",3,0.5)\n\
                 < 10 [0] job_stacks(0,[\"0\",0,7,[\"main\",\"work\"]],\
                 [0,\"main\",\"0\",1,0,1,1,\"work\",\"0\",1,3,1],[],0.0,3,0)",
    ],
    errors: ERRORS,
    timeout: timeouts::STACKS,
    handler: Handler::Synchronous(stacks),
    ..super::act::BLANK
}];

const ERRORS: &[ErrorSpec] = &[
    error(
        Status::NO_SUCH_OBJECT,
        "a job or a rank that does not exist, or that the caller may not see",
        "> 10 [0] job_stacks(\"77\",\"first\")",
    ),
    error(
        Status::RANGE,
        "`threads` is neither \"first\" nor \"all\"",
        "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n> 10 [0] job_stacks(\"77\",\"some\")",
    ),
    error(
        Status::RANGE,
        "too many looks, or too long a time",
        "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n> 10 [0] job_stacks(\"77\",\"first\",21,1)",
    ),
    error(Status::BUSY, "another debugger traces all of the ranks", ""),
    error(
        Status::RESOURCE,
        "the merged stacks are too long for a reply, or the user has too many series of looks",
        "",
    ),
];

fn stacks(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [_, threads, looks] = params(args);
    let named = threads.text().map(Text::to_str_lossy);
    let which = named.as_deref().and_then(Threads::from_name).ok_or_else(|| {
        let text = format!("threads {threads}: expected \"first\" or \"all\"");
        Refusal::new(Status::RANGE, text)
    })?;
    let options = options(which, looks.list().unwrap_or_default())?;
    let (_, ranks) = controlled_ranks(ctx, args)?;
    ctx.act_on_none(&ProcessAction::RankStacks(ranks, options), |_, report| {
        let results = results_of_one(report)?;
        let missing = results.get(MISSING).and_then(Value::list).unwrap_or_default();
        let status = if missing.is_empty() { Status::OK } else { Status::PARTIAL };
        Ok(CallResult { status, ..CallResult::with(results) })
    })
}

/// How often is looked, how far apart, and whether lines are looked up.
fn options(threads: Threads, words: &[Value]) -> Result<StackOptions, Refusal> {
    let wrong = || {
        let text = format!(
            "looks: expected their number, 1 to {MAX_LOOKS}, the seconds from one to the next, \
             {MAX_TIME} in all, and \"lines\""
        );
        Refusal::new(Status::RANGE, text)
    };
    let is_lines = |it: &Value| it.text().is_some_and(|it| it.to_str_lossy() == "lines");
    let (lines, numbers) = match words.split_last() {
        Some((last, numbers)) if is_lines(last) => (true, numbers),
        _ => (false, words),
    };
    let (looks, seconds) = match numbers {
        [] => (1, 0.0),
        [looks, seconds] => {
            let looks = looks.integer::<usize>().filter(|it| (1..=MAX_LOOKS).contains(it));
            let seconds = seconds.float().or_else(|| seconds.integer::<u32>().map(f64::from));
            (looks.ok_or_else(wrong)?, seconds.ok_or_else(wrong)?)
        }
        _ => return Err(wrong()),
    };
    let in_all = seconds * looks.saturating_sub(1) as f64;
    if !(0.0..=MAX_TIME).contains(&in_all) || !(0.0..=MAX_TIME).contains(&seconds) {
        return Err(wrong());
    }
    Ok(StackOptions { threads, lines, looks, every: Duration::from_secs_f64(seconds) })
}

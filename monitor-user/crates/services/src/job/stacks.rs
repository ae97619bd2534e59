//! `job_stacks`.
//!
//! In: the ranks that a tool names. Out: their merged call stacks, which the user worker of the
//! tool reads with the rights of its user.

use super::{controlled_ranks, results_of_one};
use crate::spec::{ErrorSpec, error, param, params};
use crate::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec};
use monitor_event::{CallResult, Refusal};
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Text, Value};
use monitor_platform::ProcessAction;
use monitor_platform::action::Threads;

/// Which result names the ranks that could not be read.
const MISSING: usize = 2;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "job_stacks",
    params: &[super::act::JOB, param("threads", ParamType::Text)],
    results: &[
        ResultSpec::new("classes", "{string ranks; integer rank; integer pid; string* path}*"),
        ResultSpec::new(
            "nodes",
            "{integer depth; string function; string ranks; integer threads; integer ends}*",
        ),
        ResultSpec::new("missing", "{integer rank; integer pid; integer status; string reason}*"),
        ResultSpec::new("stopped", "floating"),
    ],
    help: "Returns the call stacks of the ranks of a parallel job, merged into one tree. `job` is \
           the text of `job_info`, followed by a colon and ranks for some of them: `77:0-3,7`; the \
           processes need not be attached. `threads` is \"first\" for the first thread of each \
           rank, or \"all\". Each thread is stopped only while its registers and its stack are \
           copied. `classes` has the ranks at one place, the most first: the ranks, one that \
           represents them with the process of its program, and the functions from the outermost \
           to the first one of MPI. `nodes` has the tree, each function after its caller: number \
           of its callers, name, ranks, their threads that are in it, and stacks that end with it. \
           A function without a name is that of its file, `a.so+0x1f`. `missing` has the ranks \
           that could not be read, or some thread of which could not; then the status is PARTIAL. \
           `stopped` is the longest time in seconds for which a thread was stopped. A rank that a \
           request of a tool traces is missing, as one that a debugger does.",
    examples: &["process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                 process 8 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
                 > 10 [0] job_stacks(\"77\",\"first\")\n\
                 < 10 [0] job_stacks(0,[\"0-1\",0,7,[\"main\",\"work\"]],\
                 [0,\"main\",\"0-1\",2,0,1,\"work\",\"0-1\",2,2],[],0.0)"],
    errors: ERRORS,
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
    error(Status::BUSY, "another debugger traces all of the ranks", ""),
    error(Status::RESOURCE, "the merged stacks are too long for a reply", ""),
];

fn stacks(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [_, threads] = params(args);
    let named = threads.text().map(Text::to_str_lossy);
    let which = named.as_deref().and_then(Threads::from_name).ok_or_else(|| {
        let text = format!("threads {threads}: expected \"first\" or \"all\"");
        Refusal::new(Status::RANGE, text)
    })?;
    let (_, ranks) = controlled_ranks(ctx, args)?;
    ctx.act_on_none(&ProcessAction::RankStacks(ranks, which), |_, report| {
        let results = results_of_one(report)?;
        let missing = results.get(MISSING).and_then(Value::list).unwrap_or_default();
        let status = if missing.is_empty() { Status::OK } else { Status::PARTIAL };
        Ok(CallResult { status, ..CallResult::with(results) })
    })
}

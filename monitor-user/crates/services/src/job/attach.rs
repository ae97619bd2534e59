//! `job_attach`.
//!
//! In: the ranks that a tool names, and the command of its daemons. Out: the daemons, which the
//! user worker of the tool starts as its user, and ends when the tool disconnects.

use super::{controlled_ranks, results_of_one};
use crate::process::start::{bytes, launch_spec};
use crate::spec::{error, param, params};
use crate::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec};
use monitor_control::tool_daemon::SHELL;
use monitor_event::{CallResult, Refusal};
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Text, Value};
use monitor_platform::ProcessAction;
use monitor_platform::action::{DaemonSpec, DaemonsPer};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "job_attach",
    params: &[super::act::JOB, param("command", ParamType::Text), param("per", ParamType::Text)],
    results: &[
        ResultSpec::new("daemons", "{integer rank; integer pid}*"),
        ResultSpec::new("outside", "string*"),
    ],
    help: "Starts daemons of a tool beside the ranks of a parallel job: `command` is executed by \
           the shell as the calling user, once beside each rank if `per` is \"process\", or once \
           beside all if it is \"node\". `job` is the text of `job_info`, followed by a colon and \
           ranks for some of them: `77:0-3,7`. Folder, environment and streams are those of \
           `start_options`: without them, the folder is `/`, and what a daemon writes is lost. The \
           environment has the ranks in addition: MONITOR_JOB_ID, MONITOR_JOB_RUNTIME, \
           MONITOR_JOB_RANKS and MONITOR_JOB_PIDS, and beside one rank MONITOR_JOB_RANK, \
           MONITOR_JOB_PID and MONITOR_JOB_LOCAL_RANK. Daemons are not attached. When the tool \
           disconnects, each gets SIGTERM, and SIGKILL after 5 s; when the service ends, after \
           0.2 s. If their user worker is killed, the kernel kills them, and not their children. \
           `daemons` has the rank of each, -1 beside all, and its process. `outside` says which of \
           them cannot be put into the cgroups of the step of Slurm that they are beside, and do \
           not end with it.",
    examples: &[
        "process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
         process 8 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
         > 10 [0] job_attach(\"77\",\"exec ./tool\",\"process\")\n\
         < 10 [0] job_attach(0,[0,101,1,102],[])",
        "process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
         > 10 [0] job_attach(\"77\",\"exec ./tool\",\"node\")\n\
         < 10 [0] job_attach(0,[-1,101],[])",
    ],
    errors: &[
        error(
            Status::NO_SUCH_OBJECT,
            "a job or a rank that does not exist, or that the caller may not see",
            "> 10 [0] job_attach(\"77\",\"true\",\"node\")",
        ),
        error(
            Status::RANGE,
            "`per` is neither \"process\" nor \"node\"",
            "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
             > 10 [0] job_attach(\"77\",\"true\",\"job\")",
        ),
        error(Status::IO, "a file of `start_options` cannot be opened", ""),
    ],
    handler: Handler::Synchronous(attach),
    ..super::act::BLANK
}];

fn attach(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    ctx.session.tool.may_start()?;
    let [_, command, per] = params(args);
    let named = per.text().map(Text::to_str_lossy);
    let per = named.as_deref().and_then(DaemonsPer::from_name).ok_or_else(|| {
        let text = format!("per {per}: expected \"process\" or \"node\"");
        Refusal::new(Status::RANGE, text)
    })?;
    let (job, ranks) = controlled_ranks(ctx, args)?;
    let program = launch_spec(ctx, SHELL.as_ref(), vec![b"-c".to_vec(), bytes(command)]);
    let (id, runtime) = (job.id.to_string(), job.runtime);
    let daemons = DaemonSpec { job: id, runtime, ranks, per, program };
    ctx.act_on_none(&ProcessAction::StartDaemons(daemons), |_, report| {
        results_of_one(report).map(CallResult::with)
    })
}

//! `job_hold`, `job_release`, `job_signal`, `job_end`.
//!
//! In: the ranks that a tool names. Out: the status of an action on all their processes, which need
//! not be attached. The rights are those on each process.

use super::{job_text, jobs, refusal, visible_processes};
use crate::process::stop::SIGNALS;
use crate::spec::{error, number, param, params};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ServiceSpec, context::Completion};
use monitor_event::{Refusal, Right};
use monitor_jobs::{ParallelJob, RankProcesses, Runtime, find_ranks};
use monitor_model::{Identity, Process};
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use monitor_platform::ProcessAction;
use std::collections::BTreeSet;

/// The base of services that act on ranks.
pub(super) const BLANK: ServiceSpec = ServiceSpec {
    prefix: "job_",
    right: Right::Control,
    level: ExecutionLevel::Anywhere,
    ..ServiceSpec::BASE
};
/// SIGTERM.
const TERMINATE: i32 = 15;
/// The job, and perhaps its ranks.
pub(super) const JOB: Param = param("job", ParamType::Text);

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "job_hold",
        params: &[JOB],
        help: "Stops all processes of a parallel job, or of some of its ranks, as `stop` does: \
               they stay stopped until this tool calls `job_release`, or disconnects, and until no \
               other tool holds them. `job` is the text of `job_info`, followed by a colon and \
               ranks for some of them: `77:0-3,7`. The processes need not be attached.",
        examples: &["process 7 ppid=6 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     process 8 ppid=6 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
                     > 10 [0] job_hold(\"77:1\")\n< 10 [0] job_hold(0)\n\
                     > 11 [0] attach([7,8]); 12 [0] process_info([7,8],4)\n\
                     < 11 [0] attach(0); 12 [0] process_info(0,2,[7,3,8,5])"],
        errors: &[
            error(
                Status::NO_SUCH_OBJECT,
                "a job or a rank that does not exist, or that the caller may not see",
                "> 10 [0] job_hold(\"77\")",
            ),
            error(
                Status::RANGE,
                "the beginning of several ids, or what is no set of ranks",
                "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n> 10 [0] job_hold(\"77:x\")",
            ),
            error(Status::TIMEOUT, "the threads of a rank did not stop in time", ""),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            let processes = rank_processes(ctx, args)?;
            ctx.act_on_processes(processes, &ProcessAction::Stop, |ctx, report| {
                Ok(ctx.acknowledge(report))
            })
        }),
        ..BLANK
    },
    ServiceSpec {
        name: "job_release",
        params: &[JOB],
        help: "Continues the processes of a parallel job, or of some of its ranks, that this tool \
               has stopped. They run unless another tool holds them, or they were stopped before.",
        examples: &["process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     > 10 [0] job_hold(\"77\"); 11 [0] job_release(\"77\")\n\
                     < 10 [0] job_hold(0); 11 [0] job_release(0)"],
        errors: &[error(
            Status::WRONG_STATE,
            "this tool holds none of the processes",
            "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n> 10 [0] job_release(\"77\")",
        )],
        handler: Handler::Manipulation(|ctx, args| {
            let processes = rank_processes(ctx, args)?;
            ctx.act_on_processes(processes, &ProcessAction::Continue, RELEASED)
        }),
        ..BLANK
    },
    ServiceSpec {
        name: "job_signal",
        params: &[JOB, param("sig", ParamType::Integer)],
        help: "Sends a signal, by its number on this node, to all processes of a parallel job, or \
               of some of its ranks. A stopped process takes it when it runs again, SIGKILL at \
               once.",
        examples: &["process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     > 10 [0] job_signal(\"77\",10)\n< 10 [0] job_signal(0)"],
        errors: &[error(
            Status::RANGE,
            "a number that is no signal, 1 to 64",
            "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n> 10 [0] job_signal(\"77\",65)",
        )],
        handler: Handler::Manipulation(|ctx, args| {
            let [_, signal] = params(args);
            let signal = number(signal, "signal", SIGNALS)?;
            let processes = rank_processes(ctx, args)?;
            ctx.act_on_processes(processes, &ProcessAction::Kill(signal), |ctx, report| {
                Ok(ctx.acknowledge(report))
            })
        }),
        ..BLANK
    },
    ServiceSpec {
        name: "job_end",
        params: &[JOB],
        help: "Sends SIGTERM to the launcher of a parallel job, which ends all ranks, also those \
               on other nodes; to the processes of the ranks if the launcher is not on this node, \
               or is Slurm's. Returns when the signal is sent: `process_terminated` reports the \
               ends. A job that a tool holds ends when it is released.",
        examples: &["process 6 comm=mpirun.openmpi\n\
                     process 7 ppid=6 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     > 10 [0] job_end(\"77\")\n< 10 [0] job_end(0)"],
        errors: &[error(
            Status::RANGE,
            "some ranks of a job, or a job whose launcher has started another one",
            "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
             process 8 $PMIX_NAMESPACE=77 $PMIX_RANK=1\n> 10 [0] job_end(\"77:0\")",
        )],
        handler: Handler::Manipulation(end),
        ..BLANK
    },
];

/// The processes of the ranks that the first parameter names.
///
/// # Errors
/// The caller sees no such job or rank, or several jobs have this name.
pub fn rank_processes(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Vec<Process>, Refusal> {
    let processes = visible_processes(ctx)?;
    let jobs = jobs(ctx, &processes);
    let found = find_ranks(&jobs, &job_text(args)).map_err(|why| refusal(&why))?;
    Ok(all_of(&found.1, processes))
}

/// The processes of ranks, among these.
pub(super) fn all_of(ranks: &[&RankProcesses], mut processes: Vec<Process>) -> Vec<Process> {
    let ids: BTreeSet<Identity> = ranks.iter().flat_map(|it| &it.all).copied().collect();
    processes.retain(|it| ids.contains(&it.id));
    processes
}

/// It fails only if the tool holds none of them: a rank may have started another process since.
const RELEASED: Completion = |ctx, mut report| {
    let is_running = |why: &Refusal| why.status == Status::WRONG_STATE;
    if report.by_process.iter().any(|(_, done)| done.is_ok()) {
        report.by_process.retain(|(_, done)| !done.as_ref().is_err_and(is_running));
    }
    Ok(ctx.acknowledge(report))
};

fn end(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let mut processes = visible_processes(ctx)?;
    let jobs = jobs(ctx, &processes);
    let (job, ranks) = find_ranks(&jobs, &job_text(args)).map_err(|why| refusal(&why))?;
    if ranks.len() != job.ranks.len() {
        let text = "job_end ends whole jobs: for some ranks use job_signal";
        return Err(Refusal::new(Status::RANGE, text));
    }
    let launcher = job.launcher.filter(|_| job.runtime != Runtime::Slurm);
    let is_sibling = |it: &&ParallelJob| it.launcher == launcher && it.id != job.id;
    match launcher {
        Some(launcher) => {
            if let Some(other) = jobs.iter().find(is_sibling) {
                let text =
                    format!("the launcher has started job {}, too: use job_signal", other.id);
                return Err(Refusal::new(Status::RANGE, text));
            }
            processes.retain(|it| it.id == launcher);
        }
        None => processes = all_of(&ranks, processes),
    }
    ctx.act_on_processes(processes, &ProcessAction::Kill(TERMINATE), |ctx, report| {
        Ok(ctx.acknowledge(report))
    })
}

//! The extension `job_`: the parallel jobs of a node, the process table of one, the ranks of a job
//! that a batch system names (`ranks`), ranks that are stopped, continued or signalled (`act`),
//! their call stacks (`stacks`) and calls of MPI (`calls`), tools beside them (`attach`), ranks
//! that start later (`awaited`), how jobs change (`watch`, `history`, `report`), and commands that
//! act as its user (`command`): launching (`launch`), and what hosts know and keep (`host`).
//!
//! In: the processes of the node, as the caller may see them. Out: jobs as `monitor_jobs` finds
//! them. Ranks are known by their environment, which only their user may read: the ranks of other
//! users are not in any result without `observe-all`.

pub mod act;
pub mod attach;
pub mod awaited;
pub mod calls;
mod command;
pub mod history;
pub mod host;
pub mod launch;
pub mod ranks;
pub mod report;
pub mod stacks;
pub mod watch;

use crate::{
    CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec,
    spec::{error, param},
};
use monitor_event::{ActionReport, CallResult, Refusal};
use monitor_jobs::{
    FindError, ParallelJob, RankProcesses, RankTable, discover, find_ranks, rank_table,
};
use monitor_model::{Identity, Ns, Process, field::ProcessField as F};
use monitor_omis::{Status, Text, Value, param_type::ParamType};
use std::sync::Arc;

const BLANK: ServiceSpec =
    ServiceSpec { prefix: "job_", level: ExecutionLevel::Anywhere, ..ServiceSpec::BASE };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "job_list",
        results: &[ResultSpec::new(
            "jobs",
            "{string id; string runtime; integer launcher; integer uid; integer local_ranks; \
                   integer ranks; string state; floating age}*",
        )],
        help: "Lists the parallel jobs with a rank on the node: the id, which is the namespace of \
               the runtime; the runtime, `openmpi4`, `prrte`, `hydra`, `slurm`, `native`, \
               `session` or `unknown`; the process id of the launcher; the user id; the number of \
               its ranks on this node, and in all; the state, `running`, `stopped`, \
               `incomplete`, `orphaned` or `ended`; and the seconds since its first rank here \
               started. -1 stands for an unknown number. Jobs of other users are listed only to \
               a tool that may observe all processes.",
        examples: &["process 6 comm=mpirun.openmpi\n\
                     process 7 ppid=6 uid=1000 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0 \
                     $OMPI_COMM_WORLD_SIZE=2\n\
                     > 10 [0] job_list()\n\
                     < 10 [0] job_list(0,[\"77\",\"openmpi4\",6,1000,1,2,\"running\",999.0])"],
        handler: Handler::Synchronous(job_list),
        ..BLANK
    },
    ServiceSpec {
        name: "job_info",
        params: &[param("job", ParamType::Text)],
        results: &[
            ResultSpec::new("id", "string"),
            ResultSpec::new("runtime", "string"),
            ResultSpec::new("state", "string"),
            ResultSpec::new("launcher", "integer"),
            ResultSpec::new(
                "ranks",
                "{integer rank; string host; integer pid; string executable; string state; \
                       floating cpu_time; floating run_delay; integer memory_size}*",
            ),
        ],
        help: "Returns the process table of a parallel job on the node. `job` is its id, the \
               beginning of its id if no other one begins so, or the process id of its launcher \
               or of one of its ranks as text, followed by a colon and ranks for some of them: \
               `77:0-3,7`. Of each rank: its number, the name of the node, \
               the process that the runtime started, the file that it executes (the command name \
               in brackets where the path cannot be read), its state as ps(1) prints it, the \
               seconds on a CPU and those ready to run and waiting for one, and the resident \
               memory in bytes; the last three of the process and its descendants together. -1 \
               stands for an unknown number.",
        examples: &[
            "process 6 comm=mpirun.openmpi\n\
                     process 7 ppid=6 comm=a state=R cpu_ns=1500ms rss_bytes=1M \
                     $PMIX_NAMESPACE=77 $PMIX_RANK=0 $OMPI_COMM_WORLD_SIZE=1\n\
                     > 10 [0] job_info(\"6\")\n\
                     < 10 [0] job_info(0,\"77\",\"openmpi4\",\"running\",6,\
                     [0,\"node0\",7,\"[a]\",\"R\",1.5,-1.0,1048576])",
            "process 7 comm=a state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     process 8 comm=a state=S $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
                     > 10 [0] job_info(\"77:1\")\n\
                     < 10 [0] job_info(0,\"77\",\"unknown\",\"running\",-1,\
                     [1,\"node0\",8,\"[a]\",\"S\",0.0,-1.0,-1])",
        ],
        errors: &[
            error(
                Status::NO_SUCH_OBJECT,
                "a job or a rank that does not exist, or that the caller may not see",
                "> 10 [0] job_info(\"77\")",
            ),
            error(
                Status::RANGE,
                "the beginning of several ids, the id of jobs of several users, or what is no \
                 set of ranks",
                "process 7 $PMIX_NAMESPACE=ab $PMIX_RANK=0\n\
                 process 8 $PMIX_NAMESPACE=ac $PMIX_RANK=0\n> 10 [0] job_info(\"a\")",
            ),
        ],
        handler: Handler::Synchronous(job_info),
        ..BLANK
    },
];

fn job_list(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let processes = visible_processes(ctx)?;
    let now = ctx.now;
    let jobs = jobs(ctx, &processes);
    let rows = jobs.iter().flat_map(|job| job_values(job, now));
    Ok(CallResult::with(vec![Value::List(rows.collect())]).into())
}

fn job_info(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let written = job_text(args);
    let processes = visible_processes(ctx)?;
    let jobs = jobs(ctx, &processes);
    let (job, ranks) = find_ranks(&jobs, &written).map_err(|why| refusal(&why))?;
    let own = ctx.members.iter().find(|member| member.node == ctx.node);
    let host: Arc<str> = own.map_or("", |member| &member.name).into();
    let table = rank_table(job, (&host, &processes), &|process| readable_file(ctx, process));
    Ok(CallResult::with(vec![
        Value::from(&*job.id),
        Value::from(job.runtime.name()),
        Value::from(job.state.name()),
        pid_value(job.launcher),
        Value::List(rank_values(&ranks, &table, &processes)),
    ])
    .into())
}

/// The first parameter: the text that names a job.
fn job_text(args: &[Value]) -> String {
    let written = args.first().and_then(Value::text).map(Text::to_str_lossy);
    written.unwrap_or_default().into_owned()
}

fn refusal(why: &FindError) -> Refusal {
    let status = match why {
        FindError::Unknown { .. } | FindError::NoSuchRank { .. } => Status::NO_SUCH_OBJECT,
        FindError::Ambiguous { .. } | FindError::OfSeveralUsers { .. } | FindError::Ranks(_) => {
            Status::RANGE
        }
    };
    Refusal::new(status, why.to_string())
}

/// The processes of the node, with what the caller may see of each.
fn visible_processes(ctx: &mut CallContext<'_>) -> Result<Vec<Process>, Refusal> {
    let visibility = ctx.session.tool.visibility;
    let mut processes = ctx.platform.ranked_processes()?;
    processes.retain(|process| !process.ended() && visibility.shows(process));
    for process in &mut processes {
        let _redacted = visibility.redact(process);
    }
    Ok(processes)
}

fn jobs(ctx: &CallContext<'_>, processes: &[Process]) -> Vec<ParallelJob> {
    discover(processes, &|process| readable_file(ctx, process))
}

/// The job that the first parameter names, and its ranks with the processes that the tool may act
/// on.
fn controlled_ranks(
    ctx: &mut CallContext<'_>,
    args: &[Value],
) -> Result<(ParallelJob, Vec<RankProcesses>), Refusal> {
    let processes = visible_processes(ctx)?;
    let jobs = jobs(ctx, &processes);
    let (job, ranks) = find_ranks(&jobs, &job_text(args)).map_err(|why| refusal(&why))?;
    let (tool, right) = (ctx.session.tool, ctx.right);
    let may = |id: &Identity| match processes.binary_search_by_key(id, |it| it.id) {
        Ok(index) => tool.may(right, &processes[index]),
        Err(_) => Err(Refusal::new(Status::NO_SUCH_OBJECT, "no such process")),
    };
    let controlled = |rank: &RankProcesses| -> Result<RankProcesses, Refusal> {
        may(&rank.process)?;
        let all = rank.all.iter().copied().filter(|id| may(id).is_ok()).collect();
        Ok(RankProcesses { all, ..*rank })
    };
    let ranks = ranks.into_iter().map(controlled).collect::<Result<_, _>>()?;
    Ok((job.clone(), ranks))
}

/// The results of an action on a job: those of one request.
fn results_of_one(report: ActionReport) -> Result<Vec<Value>, Refusal> {
    let missing = || Refusal::new(Status::INTERNAL, "the action has no result");
    report.by_process.into_iter().next().ok_or_else(missing)?.1
}

/// The file that a process executes, if the caller may read it.
fn readable_file(ctx: &CallContext<'_>, process: &Process) -> Option<Arc<str>> {
    let is_readable = ctx.session.tool.visibility.shows_all_of(process);
    is_readable.then(|| ctx.platform.executable(process.id))?
}

fn job_values(job: &ParallelJob, now: Ns) -> [Value; 8] {
    let count = |number: Option<u32>| number.map_or(Value::from(-1), Value::from);
    [
        Value::from(&*job.id),
        Value::from(job.runtime.name()),
        pid_value(job.launcher),
        count(job.uid),
        count(u32::try_from(job.ranks.len()).ok()),
        count(job.size),
        Value::from(job.state.name()),
        Value::from(now.since(job.start).seconds()),
    ]
}

/// The values of these ranks of a table.
fn rank_values(ranks: &[&RankProcesses], table: &RankTable, processes: &[Process]) -> Vec<Value> {
    let mut out = Vec::new();
    for row in &table.rows {
        let Some(rank) = ranks.iter().find(|it| it.rank == row.rank) else { continue };
        let sum = |field| rank.sum(processes, field);
        let seconds = |field| sum(field).map_or(-1.0, |ns| ns / 1e9);
        // A sum of whole bytes far below 2^53, so nothing is rounded.
        let bytes = sum(F::Rss).map_or(-1, |bytes| bytes as i64);
        out.extend([
            Value::from(row.rank),
            Value::from(&*row.host),
            Value::from(row.process.pid.0),
            Value::from(&*row.executable),
            Value::from(row.state.to_string().as_str()),
            Value::from(seconds(F::CpuTime)),
            Value::from(seconds(F::RunDelay)),
            Value::from(bytes),
        ]);
    }
    out
}

fn pid_value(process: Option<Identity>) -> Value {
    process.map_or(Value::from(-1), |id| Value::from(id.pid.0))
}

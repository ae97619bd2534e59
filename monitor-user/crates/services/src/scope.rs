//! Services that attach and detach processes. Extensions: OMIS 1.0 does not define which processes
//! "the application" has.
//!
//! Children of attached processes are attached too, and ranks of attached jobs that start later. A
//! request cannot name other processes.

use super::{
    CallContext, Handler, Outcome, ResultSpec, ServiceSpec,
    job::awaited::{awaited_job, job_with_id},
    session::awaited_job::AwaitedJob,
    spec::{error, param},
};
use monitor_event::{CallResult, Refusal, Right};
use monitor_model::{Pid, Process};
use monitor_omis::{Status, Value, param_type::ParamType};
use monitor_sampling::filter::Filter;

/// Maximum number of patterns by which processes join a session.
const MAX_PATTERNS: usize = 64;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "attach",
        right: Right::Observe,
        params: &[param("pid_list", ParamType::Some(&ParamType::Integer))],
        help: "Adds processes to the scope of the session, by their pids on the addressed node, \
               which are their numbers too. Children that they create from now on are in the \
               scope as well.",
        examples: &["process 7\n> 10 [0] attach([7])\n< 10 [0] attach(0)\n\
                     > 11 [0] attach([7,8])\n< 11 [0] attach(1,[8,300])"],
        errors: &[error(Status::NO_SUCH_OBJECT, "no process has the pid", "> 10 [0] attach([9])")],
        handler: Handler::Manipulation(attach),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "attach_command",
        right: Right::Observe,
        params: &[param("pattern", ParamType::Text)],
        results: &[ResultSpec::new("tids", "integer*")],
        help: "Adds all processes whose command name matches the pattern to the scope, and each \
               process that gets such a name later. `*` matches any characters.",
        examples: &["process 7 comm=worker\nprocess 8 comm=other\n\
                     > 10 [0] attach_command(\"work*\")\n< 10 [0] attach_command(0,[7])"],
        errors: &[error(Status::RESOURCE, "the session has 64 patterns", "")],
        handler: Handler::Synchronous(attach_command),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "attach_cgroup",
        right: Right::Observe,
        params: &[param("path", ParamType::Text)],
        results: &[ResultSpec::new("tids", "integer*")],
        help: "Adds all processes in this cgroup or below it to the scope, and each process that \
               comes there later.",
        examples: &["process 7 cgroup=/job/7\nprocess 8 cgroup=/\n\
                     > 10 [0] attach_cgroup(\"/job\")\n< 10 [0] attach_cgroup(0,[7])"],
        errors: &[error(Status::RESOURCE, "the session has 64 patterns", "")],
        handler: Handler::Synchronous(attach_cgroup),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "attach_job",
        right: Right::Observe,
        params: &[param("job", ParamType::Text)],
        results: &[ResultSpec::new("tids", "integer*")],
        help: "Adds the processes of a parallel job, or of some of its ranks, to the scope, and \
               ranks of the job that start later, also in the place of one that has ended. `job` \
               is the text of `job_info`; the job of another user with the same id is another \
               one. A rank that starts later joins as it begins its program, about a millisecond \
               after it where the kernel reports that, otherwise within 1 s: a rule for its calls \
               or signals gets one notice that what such ranks do before is not known (`LOST` \
               with -1). The end of a rank that had joined is always seen.",
        examples: &["process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     process 8 $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
                     > 10 [0] attach_job(\"77:1\")\n< 10 [0] attach_job(0,[8])\n\
                     > 11 [0] attach_job(\"77\")\n< 11 [0] attach_job(0,[7,8])\n\
                     > 12 [0] new_process(): 13 [0] print([$1])\n< 12 [0] new_process(0)\n\
                     > 14 [0] enable(12)\n< 14 [0] enable(0)\n\
                     at 1ms process 9 $PMIX_NAMESPACE=77 $PMIX_RANK=2\n< 13 [0] print(0,[9])"],
        errors: &[
            error(
                Status::NO_SUCH_OBJECT,
                "a job or a rank that does not exist, or that the caller may not see",
                "> 10 [0] attach_job(\"77\")",
            ),
            error(
                Status::RANGE,
                "the beginning of several ids, or what is no set of ranks",
                "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n> 10 [0] attach_job(\"77:x\")",
            ),
        ],
        handler: Handler::Synchronous(attach_job),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "attach_job_id",
        right: Right::Observe,
        params: &[param("id", ParamType::Text), param("uid", ParamType::Integer)],
        results: &[ResultSpec::new("tids", "integer*")],
        help: "The same as `attach_job` for the job with this whole id and the user with this \
               number, of any user if it is -1. The job need not have a rank on the node yet: its \
               ranks join when they start.",
        examples: &["process 7 uid=1000 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     > 10 [0] attach_job_id(\"77\",1000)\n< 10 [0] attach_job_id(0,[7])\n\
                     > 11 [0] attach_job_id(\"78\",-1)\n< 11 [0] attach_job_id(0,[])\n\
                     > 12 [0] new_process(): 13 [0] print([$1])\n< 12 [0] new_process(0)\n\
                     > 14 [0] enable(12)\n< 14 [0] enable(0)\n\
                     at 1ms process 8 uid=1001 $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
                     at 2ms process 9 uid=1001 $PMIX_NAMESPACE=78 $PMIX_RANK=0\n\
                     < 13 [0] print(0,[9])"],
        errors: &[
            error(Status::RESOURCE, "the session has 64 patterns and jobs", ""),
            error(
                Status::RANGE,
                "a user id that is none, or an empty id",
                "> 10 [0] attach_job_id(\"77\",-2)",
            ),
        ],
        handler: Handler::Synchronous(attach_job_id),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "detach",
        right: Right::Observe,
        params: &[param("tid_list", ParamType::Many(&ParamType::Process))],
        help: "Removes processes from the scope; if the list is empty, all of them, and the \
               patterns by which others would join.",
        examples: &["process 7\nattach 7\n> 10 [0] detach([7])\n< 10 [0] detach(0)\n\
                     > 11 [0] process_info([7],0)\n< 11 [0] process_info(302,0,\
                     \"process 7 (test) is not attached: call attach([7])\")"],
        handler: Handler::Manipulation(detach),
        ..ServiceSpec::BASE
    },
];

fn attach(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let named = args.first().and_then(Value::list).unwrap_or_default();
    let mut pids: Vec<Pid> = named.iter().filter_map(|it| it.integer().map(Pid)).collect();
    pids.sort_unstable();
    pids.dedup();
    let seen = ctx.platform.read_processes(&pids)?;
    ctx.prepare_scope()?;
    let mut failed = Vec::new();
    let mut n_served = 0;
    for name in named {
        let it = seen.iter().find(|it| name.integer() == Some(it.id.pid.0));
        match it.filter(|it| ctx.session.tool.visibility.shows(it)) {
            Some(it) => {
                ctx.session.attach_by_pid(it.id);
                ctx.session.note_visibility(it);
                n_served += 1;
            }
            None => {
                let text = format!("no process {name} on node {}", ctx.node.0);
                failed.push((name.clone(), Refusal::new(Status::NO_SUCH_OBJECT, text)));
            }
        }
    }
    Ok(ctx.list_result(&failed, n_served).into())
}

fn attach_command(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let comms = text(args);
    attach_matching(ctx, Filter { comms, ..Filter::default() })
}

fn attach_cgroup(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let cgroups = text(args);
    attach_matching(ctx, Filter { cgroups, ..Filter::default() })
}

fn text(args: &[Value]) -> Vec<String> {
    let text = args.first().and_then(Value::text);
    text.map(|text| text.to_str_lossy().into_owned()).into_iter().collect()
}

fn check_room(ctx: &CallContext<'_>) -> Result<(), Refusal> {
    if ctx.session.scope.n_patterns() < MAX_PATTERNS {
        return Ok(());
    }
    let text = format!(
        "the session has {MAX_PATTERNS} attachments by pattern or job, the maximum; detach([]) \
         first"
    );
    Err(Refusal::new(Status::RESOURCE, text))
}

fn attach_matching(ctx: &mut CallContext<'_>, like: Filter) -> Result<Outcome, Refusal> {
    check_room(ctx)?;
    let mut all = ctx.platform.all_processes()?;
    ctx.prepare_scope()?;
    if like.needs_texts() {
        ctx.platform.describe(&mut all);
    }
    let sees = ctx.session.tool.visibility;
    all.retain(|it| sees.shows(it) && like.admits(it));
    let tids = attach_all(ctx, &all);
    ctx.session.scope.add_pattern(like);
    Ok(CallResult::with(vec![tids]).into())
}

fn attach_job(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    check_room(ctx)?;
    let (job, processes) = awaited_job(ctx, args)?;
    attach_ranks(ctx, job, &processes)
}

fn attach_job_id(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    check_room(ctx)?;
    let (job, processes) = job_with_id(ctx, args)?;
    attach_ranks(ctx, job, &processes)
}

fn attach_ranks(
    ctx: &mut CallContext<'_>,
    job: AwaitedJob,
    processes: &[Process],
) -> Result<Outcome, Refusal> {
    ctx.prepare_scope()?;
    let tids = attach_all(ctx, processes);
    ctx.session.scope.await_job(job);
    Ok(CallResult::with(vec![tids]).into())
}

/// Adds processes to the scope; returns their numbers.
fn attach_all(ctx: &mut CallContext<'_>, processes: &[Process]) -> Value {
    for it in processes {
        ctx.session.attach(it.id);
        ctx.session.note_visibility(it);
    }
    Value::List(processes.iter().map(|it| ctx.number(it.id)).collect())
}

fn detach(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let list = args.first().cloned().unwrap_or(Value::List(Vec::new()));
    if list.list().is_some_and(<[Value]>::is_empty) {
        ctx.session.scope.clear();
        return Ok(CallResult::ok().into());
    }
    let chosen = ctx.processes(&list)?;
    for it in &chosen.served {
        let _ = ctx.session.scope.detach(it.id);
    }
    Ok(ctx.list_result(&chosen.failed, chosen.served.len()).into())
}

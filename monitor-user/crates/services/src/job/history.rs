//! `job_changed` and `job_history`: how the parallel jobs of a node change, and have changed.
//!
//! In: the transitions that `watch` keeps. Out: an event for each new one, and the list of those of
//! the past. A tool gets those of the jobs that it may see, as in `job_list`.

use super::{job_text, watch::JobWatch};
use crate::spec::{error, param, params};
use crate::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec};
use monitor_event::{CallResult, EventFilter, EventKind, Predicate, ProcessSelector, Refusal};
use monitor_jobs::hold_table::HoldPoint;
use monitor_jobs::job_log::{JobChange, JobTransition};
use monitor_jobs::runtime::slurm_namespace;
use monitor_model::Ns;
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Text, Value};
use monitor_sampling::visibility::Visibility;

/// The places of the id and the launcher among the values of a transition.
const ID: usize = 0;
const LAUNCHER: usize = 3;
/// The place of the state among the values of a transition.
const STATE: usize = 2;
/// Longest time that a tool may ask for, in seconds.
const MAX_SECONDS: f64 = 1e9;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "job_changed",
        params: &[
            param("states", ParamType::Many(&ParamType::Text)),
            param("jobs", ParamType::Many(&ParamType::Any)),
        ],
        results: &[
            ResultSpec::new("id", "string"),
            ResultSpec::new("runtime", "string"),
            ResultSpec::new("state", "string"),
            ResultSpec::new("launcher", "integer"),
            ResultSpec::new("uid", "integer"),
            ResultSpec::new("code", "integer"),
            ResultSpec::new("signal", "integer"),
            ResultSpec::new("ranks", "integer"),
            ResultSpec::new("age", "floating"),
            ResultSpec::new("unix_ns", "integer"),
            ResultSpec::new("rank", "integer"),
            ResultSpec::new("pid", "integer"),
            ResultSpec::new("place", "string"),
        ],
        help: "Occurs when a parallel job of the node changes to one of the states, or to any if \
               the list is empty: `created` (its launcher was started), `launching` (its first \
               rank here was found), `running` (all ranks of this node are there, and not all are \
               stopped; also again), `stopped` (all ranks are stopped or held), `ready-for-debug` \
               (all ranks of this node are there, and the tool that launches the job holds them), \
               `failed` (a rank has ended with another code than 0, or by a signal: the first one; \
               or the launcher has, and no rank was found), `debugger-attached` (another process \
               traces a rank), `debugger-detached` (none does any more), `ended` (none is left). \
               Further parameters name jobs as `job_history` does; without them it occurs for all. \
               `$1` is the id, that of a launcher without a rank being `launcher-` and its process \
               id, `$2` the runtime as `job_list` names it, `$3` the state, `$4` the process id of \
               the launcher, `$5` the user id; `$6` at the end the exit code of the launcher, or \
               else of the first rank that failed, or 128 and the number of a signal; `$7` that \
               signal, 0 if it ended by itself; `$8` the most ranks that it had here, `$9` the \
               seconds since its first rank here started, `$10` the time in nanoseconds since \
               1970. Of `failed`, `$6` and `$7` are of the rank, `$11` is its number and `$12` its \
               process id; of `debugger-attached`, `$11` is the first rank that is traced, and \
               `$12` the process that traces it. `$13` is the place at which the tool that \
               launches the job holds the ranks, as `job_report_hold` has it, else empty. -1 \
               stands for an unknown number. The first tool that waits also gets the jobs that are \
               there. A job that is there for less than 0.3 s may be missed; without eBPF, for \
               less than a second, and then codes are mostly unknown. Changes of jobs of other \
               users occur only for a tool that may observe all processes.",
        examples: &[
            "> 10 [0] job_changed([\"running\",\"ended\"]): 11 [0] print([$1,$3,$6])\n\
                     < 10 [0] job_changed(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     < 11 [0] print(0,[\"77\",\"running\",-1])\n\
                     at 3000ms end 7 exit_code=3\n< 11 [0] print(0,[\"77\",\"ended\",3])",
            "> 10 [0] job_changed([\"failed\"],\"77\"): 11 [0] print([$3,$6,$11,$12])\n\
                     < 10 [0] job_changed(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     at 1000ms process 8 state=S $PMIX_NAMESPACE=78 $PMIX_RANK=0\n\
                     at 3000ms end 8 exit_code=3\nat 4000ms end 7 exit_code=4\n\
                     < 11 [0] print(0,[\"failed\",4,0,7])",
        ],
        errors: &[error(
            Status::RANGE,
            "an unknown state",
            "> 10 [0] job_changed([\"x\"]): 11 [0] print(1)",
        )],
        handler: Handler::Event(changed),
        ..super::BLANK
    },
    ServiceSpec {
        name: "job_history",
        params: &[param("job", ParamType::Text), param("seconds", ParamType::Float)],
        results: &[
            ResultSpec::new("followed", "floating"),
            ResultSpec::new(
                "transitions",
                "{string id; string runtime; string state; integer launcher; integer uid; \
                       integer code; integer signal; integer ranks; floating age; \
                       integer unix_ns; integer rank; integer pid; string place}*",
            ),
        ],
        help: "Returns for how many seconds the node has followed its jobs, -1 if it does not now; \
               and the transitions that it has kept of the last `seconds` seconds, of all if it is \
               0, the oldest first: the parameters of `job_changed` each. `job` is an id, the \
               beginning of ids, or the process id of a launcher as text; all jobs if it is empty. \
               A node follows its jobs while a tool waits for `job_changed`, and always with \
               `jobs.follow` in the configuration of the service. 1024 transitions are kept; \
               beyond that, the user with the most of them loses the oldest.",
        examples: &["process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
                     > 10 [0] job_changed([\"ended\"]): 11 [0] print($1)\n\
                     < 10 [0] job_changed(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms\n> 13 [0] job_history(\"77\",60)\n\
                     < 13 [0] job_history(0,1.0,\
                     [\"77\",\"unknown\",\"launching\",-1,0,-1,-1,1,1000.0,1001000000000,-1,-1,\
                     \"\",\"77\",\"unknown\",\"running\",-1,0,-1,-1,1,1000.0,1001000000000,-1,\
                     -1,\"\"])"],
        errors: &[error(Status::RANGE, "a negative time", "> 10 [0] job_history(\"\",-1)")],
        handler: Handler::Synchronous(history),
        ..super::BLANK
    },
];

fn changed(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let names = args[0].list().unwrap_or_default();
    for name in names {
        let text = name.text().map(Text::to_str_lossy).unwrap_or_default();
        if JobChange::from_name(&text).is_none() {
            let known: Vec<&str> = JobChange::ALL.iter().map(|it| it.name()).collect();
            let why = format!("state {text:?}: expected some of {}", known.join(", "));
            return Err(Refusal::new(Status::RANGE, why));
        }
    }
    // Without such reports, processes are read at intervals.
    let checked = ctx.platform.check_event(&EventKind::Executed);
    if ctx.platform.is_deferred() {
        checked?;
    }
    let states = (!names.is_empty()).then(|| Predicate::OneOf(STATE, names.to_vec()));
    let [_, jobs] = params(args);
    let jobs: Vec<Predicate> = jobs.list().unwrap_or_default().iter().map(is_of).collect();
    let jobs = (!jobs.is_empty()).then_some(Predicate::Any(jobs));
    let mut all: Vec<Predicate> = states.into_iter().chain(jobs).collect();
    let predicate = if all.len() > 1 { Some(Predicate::All(all)) } else { all.pop() };
    let processes = ProcessSelector::Any;
    Ok(EventFilter { kind: EventKind::JobChanged, processes, predicate })
}

/// Whether the job is the one that a value names, as [`JobTransition::is_of`] has it.
fn is_of(job: &Value) -> Predicate {
    let written = match job.text() {
        Some(text) => text.to_str_lossy().into_owned(),
        None => job.to_string(),
    };
    let launcher = written.parse::<u32>().ok();
    let step = Value::from(slurm_namespace(&written).as_str());
    let mut any = vec![Predicate::OneOf(ID, vec![step]), Predicate::BeginsWith(ID, written)];
    any.extend(launcher.map(|pid| Predicate::OneOf(LAUNCHER, vec![Value::from(pid)])));
    Predicate::Any(any)
}

fn history(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [_, seconds] = params(args);
    let seconds = seconds.float().filter(|it| (0.0..=MAX_SECONDS).contains(it));
    let wrong = || Refusal::new(Status::RANGE, "seconds: expected 0 or more");
    let seconds = seconds.ok_or_else(wrong)?;
    let last = if seconds == 0.0 { ctx.now } else { Ns((seconds * 1e9) as u64) };
    let (job, visibility) = (job_text(args), ctx.session.tool.visibility);
    let watch: &JobWatch = ctx.engine.job_watch();
    let followed = watch.since().map_or(-1.0, |since| ctx.now.since(since).seconds());
    let is_meant = |it: &&JobTransition| {
        ctx.now.since(it.at) <= last && it.is_of(&job) && may_see(visibility, it)
    };
    let platform = &*ctx.platform;
    let values = |it: &JobTransition| transition_values(it, platform.unix_time(it.at));
    let all = watch.log.transitions().filter(is_meant).flat_map(values).collect();
    Ok(CallResult::with(vec![Value::from(followed), Value::List(all)]).into())
}

/// Whether a user may see the job of a transition: if it may read its ranks.
pub fn may_see(visibility: Visibility, it: &JobTransition) -> bool {
    visibility.credentials().is_none_or(|viewer| it.reader == Some(viewer))
}

/// The values of a transition, which happened at this time since 1970.
pub fn transition_values(it: &JobTransition, unix: Ns) -> [Value; 13] {
    let number = |number: Option<u32>| number.map_or(Value::from(-1), Value::from);
    [
        Value::from(&*it.id),
        Value::from(it.runtime.name()),
        Value::from(it.change.name()),
        number(it.launcher.map(|pid| pid.0)),
        number(it.uid),
        number(it.end.code),
        number(it.end.signal),
        number(u32::try_from(it.ranks).ok()),
        Value::from(it.age.seconds()),
        Value::from(unix.0),
        number(it.rank),
        number(it.pid.map(|pid| pid.0)),
        Value::from(it.place.map_or("", HoldPoint::name)),
    ]
}

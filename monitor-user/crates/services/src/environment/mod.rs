//! The extension `environment_`: faults and limits that the hardware and the kernel of a node
//! report, and processes that are killed because memory is used up.
//!
//! In: the changes that `watch` keeps. Out: an event for each new one, and the list of those of the
//! past. Counters of hardware are for all tools. The process of a kill, with its job and rank, is
//! for tools that may read it: others learn that a process was killed, as from `/proc/vmstat`.

pub mod log;
pub mod watch;

use crate::spec::{error, param};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec};
use log::{EnvironmentChange, KilledProcess};
use monitor_event::{CallResult, EventFilter, EventKind, Predicate, ProcessSelector, Refusal};
use monitor_model::Ns;
use monitor_model::environment::EnvironmentSource;
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Text, Value};
use monitor_sampling::visibility::Visibility;

/// The place of the source among the values of a change.
const SOURCE: usize = 0;
/// Longest time that a tool may ask for, in seconds.
const MAX_SECONDS: f64 = 1e9;

const BLANK: ServiceSpec =
    ServiceSpec { prefix: "environment_", level: ExecutionLevel::Anywhere, ..ServiceSpec::BASE };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "environment_changed",
        params: &[param("sources", ParamType::Many(&ParamType::Text))],
        results: &[
            ResultSpec::new("source", "string"),
            ResultSpec::new("what", "string"),
            ResultSpec::new("kind", "string"),
            ResultSpec::new("old", "integer"),
            ResultSpec::new("new", "integer"),
            ResultSpec::new("pid", "integer"),
            ResultSpec::new("job", "string"),
            ResultSpec::new("rank", "integer"),
            ResultSpec::new("uid", "integer"),
            ResultSpec::new("unix_ns", "integer"),
        ],
        help: "Occurs when the node reports a fault or a limit by one of the sources, or by any if \
               the list is empty. `ecc`: errors of memory, `corrected` or `uncorrected`, of a \
               module or a controller. `machine-check`: of a processor, `exception`, `threshold` \
               or `deferred`; of one of its banks, where the kernel reports records, `corrected`, \
               `deferred` or `uncorrected`. `thermal`: how often a processor was slowed down, \
               `core-throttled` or `package-throttled`; a zone that reaches the temperature of a \
               trip point, or is below it again, `passive-90000` and the like, in thousandths of a \
               degree Celsius. `infiniband`: counters of errors of a port, by their names in \
               `/sys`, and `active`, 1 or 0. `pcie`: errors of a slot, `correctable`, `nonfatal` \
               or `fatal`. `oom`: `kill`, a process was killed because memory is used up. `$1` is \
               the source, `$2` the part of the node, of `oom` the command name of the process, \
               `$3` the kind, `$4` the value before and `$5` the value now: of `oom` the number of \
               such kills since boot. `$6` is the process id, `$7` the job and `$8` the rank of \
               the process, `$9` its user id, `$10` the time in nanoseconds since 1970. -1 and an \
               empty text stand for what is unknown, or not for this tool: the process of a kill \
               is for its user, and for a tool that may observe all processes. Counters are read \
               every 5 s, and a change has the time when it was found; kills are reported at once \
               with eBPF and Linux 6.10. A counter that the node has only since then, or that was \
               reset, begins without an event.",
        examples: &[
            "process 7 comm=a uid=1000 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=3\n\
                     environment ecc mc0 corrected 1\n\
                     > 10 [0] environment_changed([]): 11 [0] print([$1,$2,$3,$4,$5,$6,$7,$8])\n\
                     < 10 [0] environment_changed(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms environment ecc mc0 corrected 4\n\
                     at 6000ms\n\
                     < 11 [0] print(0,[\"ecc\",\"mc0\",\"corrected\",1,4,-1,\"\",-1])\n\
                     at 8000ms oom 7\n\
                     < 11 [0] print(0,[\"oom\",\"a\",\"kill\",-1,-1,7,\"77\",3])",
            "> 10 [0] environment_changed([\"machine-check\"]): 11 [0] \
                     print([$2,$3,$4,$5])\n\
                     < 10 [0] environment_changed(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms machine-check 3 5 9000000000000000\n\
                     at 2000ms machine-check 3 5 9000000000000000\n\
                     at 6000ms\n\
                     < 11 [0] print(0,[\"cpu3 bank 5\",\"corrected\",0,2])",
        ],
        errors: &[error(
            Status::RANGE,
            "an unknown source",
            "> 10 [0] environment_changed([\"x\"]): 11 [0] print(1)",
        )],
        handler: Handler::Event(changed),
        ..BLANK
    },
    ServiceSpec {
        name: "environment_history",
        params: &[param("seconds", ParamType::Float)],
        results: &[
            ResultSpec::new("followed", "floating"),
            ResultSpec::new(
                "changes",
                "{string source; string what; string kind; integer old; integer new; integer pid; \
                       string job; integer rank; integer uid; integer unix_ns}*",
            ),
        ],
        help: "Returns for how many seconds the node has followed its faults and limits, -1 if it \
               does not now; and the changes that it has kept of the last `seconds` seconds, of \
               all if it is 0, the oldest first: the parameters of `environment_changed` each. A \
               node follows them while a tool waits for `environment_changed`, and always with \
               `jobs.environment` in the configuration of the service. 1024 changes are kept; \
               beyond that, the source and the user with the most of them lose the oldest.",
        examples: &["environment pcie 0000:3b:00.0 fatal 0\n\
                     > 10 [0] environment_changed([\"pcie\"]): 11 [0] print($3)\n\
                     < 10 [0] environment_changed(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms environment pcie 0000:3b:00.0 fatal 2\n\
                     at 6000ms\n< 11 [0] print(0,[\"fatal\"])\n> 13 [0] environment_history(60)\n\
                     < 13 [0] environment_history(0,6.0,\
                     [\"pcie\",\"0000:3b:00.0\",\"fatal\",0,2,-1,\"\",-1,-1,1006000000000])"],
        errors: &[error(Status::RANGE, "a negative time", "> 10 [0] environment_history(-1)")],
        handler: Handler::Synchronous(history),
        ..BLANK
    },
];

fn changed(_: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let names = args[0].list().unwrap_or_default();
    for name in names {
        let text = name.text().map(Text::to_str_lossy).unwrap_or_default();
        if EnvironmentSource::from_name(&text).is_none() {
            let known: Vec<&str> = EnvironmentSource::ALL.iter().map(|it| it.name()).collect();
            let why = format!("source {text:?}: expected some of {}", known.join(", "));
            return Err(Refusal::new(Status::RANGE, why));
        }
    }
    let predicate = (!names.is_empty()).then(|| Predicate::OneOf(SOURCE, names.to_vec()));
    let processes = ProcessSelector::Any;
    Ok(EventFilter { kind: EventKind::EnvironmentChanged, processes, predicate })
}

fn history(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let seconds = args[0].float().filter(|it| (0.0..=MAX_SECONDS).contains(it));
    let wrong = || Refusal::new(Status::RANGE, "seconds: expected 0 or more");
    let seconds = seconds.ok_or_else(wrong)?;
    let last = if seconds == 0.0 { ctx.now } else { Ns((seconds * 1e9) as u64) };
    let visibility = ctx.session.tool.visibility;
    let watch = ctx.engine.environment_watch();
    let followed = watch.since().map_or(-1.0, |since| ctx.now.since(since).seconds());
    let recent = watch.log.changes().filter(|it| ctx.now.since(it.at) <= last);
    let platform = &*ctx.platform;
    let values = |it: &EnvironmentChange| change_values(it, visibility, platform.unix_time(it.at));
    let all = recent.flat_map(values).collect();
    Ok(CallResult::with(vec![Value::from(followed), Value::List(all)]).into())
}

/// Whether a user may see the process of a change: if it could read it.
pub fn may_see_process(visibility: Visibility, it: &EnvironmentChange) -> bool {
    let reader = it.process.as_ref().and_then(|it| it.reader);
    visibility.credentials().is_none_or(|viewer| reader == Some(viewer))
}

/// The values of a change as a tool may see them, at this time since 1970.
pub fn change_values(it: &EnvironmentChange, visibility: Visibility, unix: Ns) -> [Value; 10] {
    let process = it.process.as_ref();
    let shown: Option<&KilledProcess> = process.filter(|_| may_see_process(visibility, it));
    let what = if shown.is_some() == process.is_some() { &*it.key.what } else { "" };
    let number = |number: Option<u32>| number.map_or(Value::from(-1), Value::from);
    let job = shown.and_then(|it| it.job.as_ref());
    let (old, new) = it.values.unwrap_or((-1, -1));
    [
        Value::from(it.key.source.name()),
        Value::from(what),
        Value::from(&*it.key.kind),
        Value::from(old),
        Value::from(new),
        number(shown.map(|it| it.pid.0)),
        Value::from(job.map_or("", |(id, _)| &**id)),
        number(job.map(|(_, rank)| *rank)),
        number(shown.and_then(|it| it.uid)),
        Value::from(unix.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::environment::EnvironmentKey;
    use monitor_model::{Credentials, Pid};

    #[test]
    fn the_process_of_a_kill_is_for_its_user() {
        let user = |uid| Credentials { uid, gid: uid };
        let process = KilledProcess {
            pid: Pid(7),
            uid: Some(1000),
            reader: Some(user(1000)),
            job: Some(("77".into(), 3)),
        };
        let source = EnvironmentSource::Oom;
        let key = EnvironmentKey { source, what: "secret".into(), kind: "kill".into() };
        let it = EnvironmentChange { at: Ns(0), key, values: Some((1, 2)), process: Some(process) };
        let text = |visibility| {
            let all = change_values(&it, visibility, Ns(5)).map(|it| it.to_string());
            all.join(",")
        };
        let whole = r#""oom","secret","kill",1,2,7,"77",3,1000,5"#;
        assert_eq!(text(Visibility::All), whole);
        assert_eq!(text(Visibility::OwnInFull(user(1000))), whole);
        let hidden = r#""oom","","kill",1,2,-1,"",-1,-1,5"#;
        assert_eq!(text(Visibility::OwnInFull(user(1001))), hidden);
        assert_eq!(text(Visibility::OwnOnly(user(1001))), hidden);
    }
}

//! The services of `diag_`.

use super::{DiagEvent, ProbeSelection, Threshold, finalize_tap};
use crate::{
    CallContext, Handler, Outcome, ResultSpec, ServiceSpec,
    spec::{error, param},
};
use monitor_event::{CallResult, EventFilter, EventKind, Refusal, Right};
use monitor_format::diagnosis::{DIAG_FORMATS, DiagFormat};
use monitor_model::{Identity, Ns};
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Text, Value};
use std::{sync::Arc, task::Poll};

const BLANK: ServiceSpec = ServiceSpec { prefix: "diag_", ..ServiceSpec::BASE };
const LIST: Param = param("tid_list", ParamType::Many(&ParamType::Process));
/// Maximum delay in seconds.
const MAX_DELAY_SECONDS: f64 = 1e9;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "diag_event",
        params: &[
            param("name", ParamType::Text),
            param("count", ParamType::Integer),
            param("delay", ParamType::Float),
            param("tid", ParamType::Many(&ParamType::Any)),
        ],
        right: Right::Observe,
        help: "Counts an unusual event of a process, or of the node if none is named, and \
               reports it when it has occurred at least `count` times and at most once every \
               `delay` seconds, accumulating in between. The rest is reported when the process \
               calls MPI_Finalize, or ends. Thresholds of the administrator override these.",
        examples: &["process 7\nattach 7\n> 10 [0] process_signal([7],[]): \
             11 [0] diag_event(\"a signal\",2,60,$1)\n< 10 [0] process_signal(0)\n\
             > 12 [0] diag_traced(\"notifier\"): 13 [0] print($1)\n< 12 [0] diag_traced(0)\n\
             > 14 [0] enable(10); 15 [0] enable(12)\n< 14 [0] enable(0); 15 [0] enable(0)\n\
             at 1000ms signal 7 10\nat 2000ms signal 7 10\n\
             < 13 [0] print(0,[\"TIME=1002 MPI_NOTIFIER_EVENT FAMILY=- JOB=- VPID=- HOST=node0 \
             EVENT=a signal COUNT=2: a signal\"])\n\
             at 3000ms signal 7 10\nat 4000ms end 7\n\
             < 13 [0] print(0,[\"TIME=1004 MPI_NOTIFIER_EVENT FAMILY=- JOB=- VPID=- HOST=node0 \
             EVENT=a signal COUNT=1 (Finalize): a signal\"])"],
        errors: &[error(
            Status::RANGE,
            "a count below 1, a negative delay, or several processes",
            "> 10 [0] diag_event(\"x\",0,1)",
        )],
        handler: Handler::Manipulation(count_event),
        ..BLANK
    },
    ServiceSpec {
        name: "diag_watch",
        params: &[LIST],
        right: Right::Control,
        help: "Counts the static probes of monitor_diag.h in the processes and the libraries \
               that they have loaded, in the kernel; each probe has its own thresholds, and may \
               represent many events at once. With an empty list it also counts, within a \
               second, in processes that are attached later and in what they execute or load. An \
               uncounted probe costs a one-byte NOP.",
        examples: &["process 7\nattach 7\n> 10 [0] diag_watch([7])\n< 10 [0] diag_watch(0)\n\
                     > 11 [0] diag_watch([9])\n\
                     < 11 [0] diag_watch(300,0,\"no process 9 on node 0\")"],
        handler: Handler::Manipulation(count_probes),
        ..BLANK
    },
    ServiceSpec {
        name: "diag_finalize",
        params: &[LIST],
        right: Right::Observe,
        help: "Reports the rest of the events of the processes, as at their end, and restarts \
               the counts.",
        examples: &["process 7\nattach 7\n> 10 [0] diag_traced(\"text\"): 11 [0] print($2,$3)\n\
                     < 10 [0] diag_traced(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     > 13 [0] diag_event(\"late\",1000,60,7); 14 [0] diag_finalize([7])\n\
                     < 13 [0] diag_event(0); 14 [0] diag_finalize(0)\n\
                     < 11 [0] print(0,[\"late\",1])"],
        handler: Handler::Manipulation(finalize),
        ..BLANK
    },
    ServiceSpec {
        name: "diag_list",
        results: &[ResultSpec::new(
            "events",
            "{integer tid; string name; integer count; floating delay; integer fresh; \
                   integer total}*",
        )],
        help: "Lists the events that are counted for this tool: the process (-1 for the node), \
               the name, the effective thresholds, and how often it occurred since the last \
               report and in all.",
        examples: &["> 10 [0] diag_event(\"full\",1000,60); 11 [0] diag_list()\n\
                     < 10 [0] diag_event(0); 11 [0] diag_list(0,[-1,\"full\",1000,60.0,1,1])"],
        handler: Handler::Synchronous(list),
        ..BLANK
    },
    ServiceSpec {
        name: "diag_traced",
        params: &[param("form", ParamType::Text)],
        results: &[
            ResultSpec::new("line", "string"),
            ResultSpec::new("name", "string"),
            ResultSpec::new("count", "integer"),
            ResultSpec::new("tid", "integer"),
            ResultSpec::new("processes", "integer"),
        ],
        help: "Occurs when an unusual event is reported. The line has the form `text`, \
               `notifier` (as Open MPI's notifier wrote it) or `json`, with the job, the rank \
               and the host. The first process of a job is reported at once; the same events of \
               other processes within a few seconds are one line with their number.",
        examples: &[
            "> 10 [0] diag_traced(\"text\"): 11 [0] print($1,$5)\n< 10 [0] diag_traced(0)\n\
                     > 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms\n> 13 [0] diag_event(\"x\",1,60)\n< 13 [0] diag_event(0)\n\
                     < 11 [0] print(0,[\"[1970-01-01T00:16:41Z] 1 warnings : x [host node0]\",1])",
        ],
        errors: &[error(
            Status::RANGE,
            "an unknown form",
            "> 10 [0] diag_traced(\"x\"): 11 [0] print(1)",
        )],
        handler: Handler::Event(traced),
        ..BLANK
    },
];

fn count_event(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [Value::Text(name), count, delay, process] = args else {
        unreachable!("the specification has a string, two numbers and a list")
    };
    let wrong = |text| Refusal::new(Status::RANGE, text);
    let count = count.integer::<u64>().filter(|count| *count > 0);
    let count = count.ok_or_else(|| wrong("count: expected 1 or more"))?;
    let delay = delay.float().filter(|delay| (0.0..=MAX_DELAY_SECONDS).contains(delay));
    let delay = delay.ok_or_else(|| wrong("delay: expected seconds, 0 or more"))?;
    let process = match process.list().unwrap_or_default() {
        [] => None,
        [process] => Some(resolve_event_process(ctx, process)?),
        _ => return Err(wrong("tid: expected one process, or none")),
    };
    let name: Arc<str> = name.to_str_lossy().into();
    let threshold = Threshold { count, delay: Ns((delay * 1e9) as u64) };
    let event = DiagEvent { message: Arc::clone(&name), name, threshold };
    let whose = (ctx.session.tool.session, process);
    ctx.engine.diag_counters().count(whose, &event, 1, ctx.now)?;
    Ok(CallResult::ok().into())
}

/// The process that hit an event, which may have ended since.
fn resolve_event_process(ctx: &mut CallContext<'_>, process: &Value) -> Result<Identity, Refusal> {
    let known = process.integer().and_then(|number| ctx.session.numbers.find(number));
    if let Some(id) = known.filter(|id| ctx.engine.diag_counters().knows_origin(*id)) {
        return Ok(id);
    }
    let id = ctx.process(process)?.id;
    let whose = ctx.platform.diag_origin(id);
    ctx.engine.diag_counters().set_origin(id, whose);
    Ok(id)
}

fn count_probes(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let chosen = ctx.processes(&args[0])?;
    let session = ctx.session.tool.session;
    let mut failed = chosen.failed;
    let mut n_served = 0;
    for it in &chosen.served {
        match ctx.platform.check_diag_probes(it.id) {
            Poll::Ready(Ok(())) => n_served += 1,
            Poll::Ready(Err(why)) => failed.push((ctx.number(it.id), why)),
            Poll::Pending => ctx.awaits_files = true,
        }
        ctx.awaits_files |= ctx.platform.check_tap(&finalize_tap(), it.id).is_pending();
    }
    if ctx.awaits_files {
        return Ok(CallResult::ok().into());
    }
    let selection: &mut ProbeSelection =
        ctx.engine.diag_counters().probe_selections.entry(session).or_default();
    selection.attached |= args[0].list().is_some_and(<[Value]>::is_empty);
    selection.these.extend(chosen.served.iter().map(|it| it.id));
    Ok(ctx.list_result(&failed, n_served).into())
}

fn finalize(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let chosen = ctx.processes(&args[0])?;
    for it in &chosen.served {
        ctx.engine.diag_counters().finalize(it.id, ctx.now);
    }
    Ok(ctx.list_result(&chosen.failed, chosen.served.len()).into())
}

fn list(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let session = ctx.session.tool.session;
    let mut all = Vec::new();
    for (process, event, at, (fresh, total)) in ctx.engine.diag_counters().events(session) {
        let process = process.map_or(Value::from(-1), |id| ctx.session.numbers.assign(id).into());
        let name = Value::Text(Text::from(&*event.name));
        let delay = Value::from(at.delay.seconds());
        all.extend([process, name, at.count.into(), delay, fresh.into(), total.into()]);
    }
    Ok(CallResult::with(vec![Value::List(all)]).into())
}

fn traced(_: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let form = args[0].text().and_then(|name| DiagFormat::from_name(&name.to_str_lossy()));
    let form = form.ok_or_else(|| {
        let names: Vec<&str> = DIAG_FORMATS.iter().map(|(name, _)| *name).collect();
        Refusal::new(Status::RANGE, format!("form: expected one of {}", names.join(", ")))
    })?;
    Ok(EventFilter::all(EventKind::Diagnosed(form)))
}

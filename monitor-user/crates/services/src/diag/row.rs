//! The services of `diag_`.

use super::{Event, Sight, Threshold};
use crate::ctx::Ctx;
use crate::outcome::Outcome;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::{EventKind, EventFilter};
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::Right;
use monitor_format::diagnosis::{FORMS, Form};
use monitor_model::id::{Identity, Ns};
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Text, Value};
use std::sync::Arc;

const BLANK: Row = Row { prefix: "diag_", ..Row::BLANK };
const LIST: Param = Param { name: "tid_list", kind: Kind::Many(&Kind::Process) };
/// Longest delay: beyond, nobody waits for it.
const LONGEST: f64 = 1e9;

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "diag_event",
        takes: &[
            Param { name: "name", kind: Kind::Text },
            Param { name: "count", kind: Kind::Integer },
            Param { name: "delay", kind: Kind::Float },
            Param { name: "tid", kind: Kind::Many(&Kind::Any) },
        ],
        right: Right::Observe,
        help: "Counts an unusual event of a process, or of the node if none is named, and traces \
               it when it has happened at least `count` times and at most once every `delay` \
               seconds, accumulating in between. What is left is told when the process calls \
               MPI_Finalize, or ends. Thresholds of the administrator come before these.",
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
        act: Act::Manipulation(|ctx, args| event(ctx, args).into()),
        ..BLANK
    },
    Row {
        name: "diag_watch",
        takes: &[LIST],
        right: Right::Control,
        help: "Counts the static probes of monitor_diag.h in the processes and the libraries that \
               they have loaded, in the kernel; each probe has its own thresholds, and may stand \
               for many events at once. With an empty list also in those that are attached later, \
               and in what they execute or load, within a second. Until then a probe costs a \
               one-byte NOP.",
        examples: &["process 7\nattach 7\n> 10 [0] diag_watch([7])\n< 10 [0] diag_watch(0)\n\
                     > 11 [0] diag_watch([9])\n\
                     < 11 [0] diag_watch(300,0,\"no process 9 on node 0\")"],
        act: Act::Manipulation(|ctx, args| watch(ctx, args).into()),
        ..BLANK
    },
    Row {
        name: "diag_finalize",
        takes: &[LIST],
        right: Right::Observe,
        help: "Tells what is left of the events of the processes, as at their end, and counts \
               anew.",
        examples: &["process 7\nattach 7\n> 10 [0] diag_traced(\"text\"): 11 [0] print($2,$3)\n\
                     < 10 [0] diag_traced(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     > 13 [0] diag_event(\"late\",1000,60,7); 14 [0] diag_finalize([7])\n\
                     < 13 [0] diag_event(0); 14 [0] diag_finalize(0)\n\
                     < 11 [0] print(0,[\"late\",1])"],
        act: Act::Manipulation(|ctx, args| finalize(ctx, args).into()),
        ..BLANK
    },
    Row {
        name: "diag_list",
        gives: &[Given {
            name: "events",
            kind: "{integer tid; string name; integer count; floating delay; integer fresh; \
                   integer total}*",
        }],
        help: "Lists the events that are counted for this tool: the process (-1 for the node), \
               the name, the thresholds that hold, how often it happened since it was told last, \
               and in all.",
        examples: &["> 10 [0] diag_event(\"full\",1000,60); 11 [0] diag_list()\n\
                     < 10 [0] diag_event(0); 11 [0] diag_list(0,[-1,\"full\",1000,60.0,1,1])"],
        act: Act::Synchronous(list),
        ..BLANK
    },
    Row {
        name: "diag_traced",
        takes: &[Param { name: "form", kind: Kind::Text }],
        gives: &[
            Given { name: "line", kind: "string" },
            Given { name: "name", kind: "string" },
            Given { name: "count", kind: "integer" },
            Given { name: "tid", kind: "integer" },
            Given { name: "processes", kind: "integer" },
        ],
        help: "Occurs when an unusual event is traced. The line is in the form `text`, `notifier` \
               (as Open MPI's notifier wrote it) or `json`, and has the job, the rank and the \
               host. The first process of a job is told at once; others that tell the same within \
               a few seconds are one line with their number.",
        examples: &[
            "> 10 [0] diag_traced(\"text\"): 11 [0] print($1,$5)\n< 10 [0] diag_traced(0)\n\
                     > 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1000ms\n> 13 [0] diag_event(\"x\",1,60)\n< 13 [0] diag_event(0)\n\
                     < 11 [0] print(0,[\"[1970-01-01T00:16:41Z] 1 warnings : x [host node0]\",1])",
        ],
        act: Act::Event(traced),
        ..BLANK
    },
];

fn event(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let [Value::Text(name), count, delay, who] = args else {
        unreachable!("the row takes a string, two numbers and a list")
    };
    let wrong = |text| Refusal::new(Status::RANGE, text);
    let count = count.integer::<u64>().filter(|count| *count > 0);
    let count = count.ok_or_else(|| wrong("count: wanted 1 or more"))?;
    let delay = delay.float().filter(|delay| (0.0..=LONGEST).contains(delay));
    let delay = delay.ok_or_else(|| wrong("delay: wanted seconds, not negative"))?;
    let process = match who.list().unwrap_or_default() {
        [] => None,
        [who] => Some(met(ctx, who)?),
        _ => return Err(wrong("wanted one process, or none")),
    };
    let name: Arc<str> = name.to_str_lossy().into();
    let threshold = Threshold { count, delay: Ns((delay * 1e9) as u64) };
    let event = Event { message: Arc::clone(&name), name, threshold };
    let whose = (ctx.session.tool.session, process);
    ctx.desk.diagnoses().count(whose, &event, 1, ctx.now)?;
    Ok(Done::ok())
}

/// The process that met an event, which may have ended since.
fn met(ctx: &mut Ctx<'_>, who: &Value) -> Result<Identity, Refusal> {
    let known = who.integer().and_then(|number| ctx.session.numbers.find(number));
    if let Some(id) = known.filter(|id| ctx.desk.diagnoses().knows(*id)) {
        return Ok(id);
    }
    let id = ctx.process(who)?.id;
    let whose = ctx.ground.whose(id);
    ctx.desk.diagnoses().learn(id, whose);
    Ok(id)
}

fn watch(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let chosen = ctx.processes(&args[0])?;
    let session = ctx.session.tool.session;
    let mut failed = chosen.failed;
    let mut n_served = 0;
    for it in &chosen.served {
        match ctx.ground.probed(it.id) {
            Ok(()) => n_served += 1,
            Err(why) => failed.push((ctx.number(it.id), why)),
        }
    }
    let sight: &mut Sight = ctx.desk.diagnoses().sights.entry(session).or_default();
    sight.attached |= args[0].list().is_some_and(<[Value]>::is_empty);
    sight.these.extend(chosen.served.iter().map(|it| it.id));
    Ok(ctx.summed(&failed, n_served))
}

fn finalize(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let chosen = ctx.processes(&args[0])?;
    for it in &chosen.served {
        ctx.desk.diagnoses().end(it.id, ctx.now);
    }
    Ok(ctx.summed(&chosen.failed, chosen.served.len()))
}

fn list(ctx: &mut Ctx<'_>, _: &[Value]) -> Outcome {
    let session = ctx.session.tool.session;
    let mut all = Vec::new();
    for (who, event, at, (fresh, total)) in ctx.desk.diagnoses().events(session) {
        let who = who.map_or(Value::from(-1), |id| ctx.session.numbers.give(id).into());
        let name = Value::Text(Text::from(&*event.name));
        let delay = Value::from(at.delay.seconds());
        all.extend([who, name, at.count.into(), delay, fresh.into(), total.into()]);
    }
    Done::with(vec![Value::List(all)]).into()
}

fn traced(_: &mut Ctx<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let form = args[0].text().and_then(|name| Form::named(&name.to_str_lossy()));
    let form = form.ok_or_else(|| {
        let names: Vec<&str> = FORMS.iter().map(|(name, _)| *name).collect();
        Refusal::new(Status::RANGE, format!("form: wanted one of {}", names.join(", ")))
    })?;
    Ok(EventFilter::all(EventKind::Diagnosed(form)))
}

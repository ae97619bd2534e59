//! `cnt_read`, `cnt_records`: what instruments show.

use super::instrument::{Instrument, Shows};
use super::kernel::Shown;
use super::summary::Summary;
use super::{BLANK, NAME, NAMES, kernel, named};
use crate::ctx::Ctx;
use crate::row;
use crate::row::{Act, Flag, Given, Level, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_event::trace;
use monitor_event::trace::Record;
use monitor_model::id::Ns;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "cnt_read",
        takes: &[NAMES, Param { name: "flags", kind: Kind::Integer }],
        gives: &[Given { name: "instruments", kind: "{any name; any...}*" }],
        flags: FLAGS,
        level: Level::Anywhere,
        help: "Tells of each instrument its name and what `flags` asks for, in the order of its \
               bits. What an instrument of its kind does not know, or not yet, is an empty list.",
        examples: &["> 10 [0] cnt_create(\"n\",\"counter\",\"calls\"); 11 [0] cnt_add(\"n\",3); \
                     12 [0] cnt_add(\"n\",4)\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_add(0); 12 [0] cnt_add(0)\n\
                     > 13 [0] cnt_read([\"n\"],255)\n\
                     < 13 [0] cnt_read(0,[\"n\",\"counter\",\"calls\",2,7,3,4,3.5,[]])"],
        act: Act::Synchronous(|ctx, args| read(ctx, args).into()),
        ..BLANK
    },
    Row {
        name: "cnt_records",
        takes: &[NAME, Param { name: "most", kind: Kind::Integer }],
        gives: &[
            Given { name: "lost", kind: "integer" },
            Given { name: "records", kind: "{integer time; any...}*" },
        ],
        level: Level::Anywhere,
        help: "Tells the last records of a trace, the oldest first, each with its time in \
               nanoseconds since boot; and how many are gone because newer ones took their place.",
        examples: &["process 7\nattach 7\n> 10 [0] cnt_create(\"ends\",\"trace\",\"\")\n\
                     < 10 [0] cnt_create(0)\n\
                     > 11 [0] process_terminated([7]): 12 [0] cnt_record(\"ends\",$1,$2)\n\
                     < 11 [0] process_terminated(0)\n> 13 [0] enable(11)\n< 13 [0] enable(0)\n\
                     at 5ms end 7 exit_code=3\n> 14 [0] cnt_records(\"ends\",10)\n\
                     < 14 [0] cnt_records(0,0,[[1000005000000,7,3]])"],
        act: Act::Synchronous(|ctx, args| records(ctx, args).into()),
        ..BLANK
    },
];

const FLAGS: &[Flag] = &[
    flag(0, "kind", "string", "as it was created"),
    flag(1, "unit", "string", "of the numbers"),
    flag(2, "count", "integer", "numbers, changes, times or records"),
    flag(3, "sum", "integer", "of the numbers; of an integrator the area, in units times seconds"),
    flag(4, "least", "integer", "the smallest number, the lowest level, the shortest time"),
    flag(5, "most", "integer", "the largest"),
    flag(6, "mean", "floating", "of the numbers; of a level, over time"),
    flag(
        7,
        "percentiles",
        "integer*",
        "50, 90, 99 and 99.9 per cent; at most a hundredth too large, of times that the kernel \
         took an eighth",
    ),
    flag(8, "level", "integer", "of an integrator"),
    flag(9, "running", "integer", "who was started and not stopped"),
    flag(
        10,
        "lost",
        "integer",
        "times without a beginning, records that are gone, negative numbers that the kernel would \
         have put into a histogram",
    ),
];

const fn flag(bit: u8, name: &'static str, kind: &'static str, help: &'static str) -> Flag {
    Flag { bit, name, kind, help }
}

fn read(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let flags = row::flags(args.get(1), FLAGS)?;
    let now = ctx.now;
    let names = args[0].list().unwrap_or_default();
    let (mut out, mut failed) = (Vec::new(), Vec::new());
    let session = ctx.session.tool.session;
    for name in names {
        kernel::take_records(ctx, name);
        match ctx.desk.shelf().find(session, name) {
            Ok(it) => {
                out.push(name.clone());
                let all = kernel::shown(it, ctx.ground, now);
                let wanted = FLAGS.iter().filter(|flag| flags >> flag.bit & 1 == 1);
                out.extend(wanted.map(|flag| told(it, &all, flag.bit, now)));
            }
            Err(why) => failed.push((name.clone(), why)),
        }
    }
    let done = ctx.summed(&failed, names.len() - failed.len());
    if !done.status.is_success() {
        return Ok(done);
    }
    let results = [Value::List(out)].into_iter().chain(done.results).collect();
    Ok(Done { status: done.status, results, reason: None })
}

/// What a bit asks for.
fn told(it: &Instrument, all: &Shown<'_>, bit: u8, now: Ns) -> Value {
    match bit {
        0 => Value::from(it.kind().name()),
        1 => Value::Text(it.unit.clone()),
        _ => shown(all, bit, now).unwrap_or(Value::List(Vec::new())),
    }
}

fn shown(all: &Shown<'_>, bit: u8, now: Ns) -> Option<Value> {
    match (all, bit) {
        (Shown::Timer(watch, _), 9) => u64::try_from(watch.running()).ok().map(Value::from),
        (Shown::Timer(watch, _), 10) => Some(watch.lost.into()),
        (Shown::Histogram(sum), 10) => Some(sum.n_refused.into()),
        (Shown::Counter(sum) | Shown::Histogram(sum) | Shown::Timer(_, sum), _) => summed(sum, bit),
        (Shown::Integrator(area), 2) => Some(area.count.into()),
        (Shown::Integrator(area), 3) => Some(area.seconds(now).into()),
        (Shown::Integrator(area), 4) => Some(area.least.into()),
        (Shown::Integrator(area), 5) => Some(area.most.into()),
        (Shown::Integrator(area), 6) => area.mean(now).map(Value::from),
        (Shown::Integrator(area), 8) => Some(area.level.into()),
        (Shown::Trace(trace), 2) => Some(trace.count.into()),
        (Shown::Trace(trace), 10) => Some(trace.lost.into()),
        _ => None,
    }
}

fn summed(sum: &Summary, bit: u8) -> Option<Value> {
    match bit {
        2 => Some(sum.count.into()),
        3 => Some(sum.sum.into()),
        4 => sum.least.map(Value::from),
        5 => sum.most.map(Value::from),
        6 => sum.mean().map(Value::from),
        7 => sum.percentiles().map(|all| Value::List(all.into_iter().map(Value::from).collect())),
        _ => None,
    }
}

fn records(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let most = args[1].integer::<usize>().filter(|most| (1..=trace::MOST).contains(most));
    let wrong = || Refusal::new(Status::RANGE, format!("wanted 1 to {} records", trace::MOST));
    let most = most.ok_or_else(wrong)?;
    kernel::take_records(ctx, &args[0]);
    let it = named(ctx, &args[0])?;
    let Shows::Trace(trace) = &it.shows else { return Err(it.kind().other("a trace")) };
    let record = |it: &Record| {
        Value::List([Value::from(it.at.0)].into_iter().chain(it.values.clone()).collect())
    };
    let last = trace.last(most).map(record).collect();
    Ok(Done::with(vec![Value::from(trace.lost), Value::List(last)]))
}

//! `cnt_read` and `cnt_records`: the values of instruments.

use super::instrument::{Instrument, InstrumentState};
use super::{BLANK, NAME, NAMES, in_kernel, in_kernel::InstrumentValue, named, summary::Summary};
use crate::{
    CallContext, ExecutionLevel, FlagSpec, Handler, Outcome, ResultSpec, ServiceSpec, spec,
    spec::param,
};
use monitor_event::{CallResult, Refusal, trace, trace::Record};
use monitor_model::Ns;
use monitor_omis::{Status, Value, param_type::ParamType};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "cnt_read",
        params: &[NAMES, param("flags", ParamType::Integer)],
        results: &[ResultSpec::new("instruments", "{any name; any...}*")],
        flags: FLAGS,
        level: ExecutionLevel::Anywhere,
        help: "Returns for each instrument its name and the values that `flags` selects, in the \
               order of its bits. A value that its kind does not have, or not yet, is an empty \
               list.",
        examples: &[
            "> 10 [0] cnt_create(\"n\",\"counter\",\"calls\"); 11 [0] cnt_add(\"n\",3); \
                     12 [0] cnt_add(\"n\",4)\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_add(0); 12 [0] cnt_add(0)\n\
                     > 13 [0] cnt_read([\"n\"],255)\n\
                     < 13 [0] cnt_read(0,[\"n\",\"counter\",\"calls\",2,7,3,4,3.5,[]])",
            "> 10 [0] cnt_create(\"h\",\"histogram\",\"\"); 11 [0] cnt_record(\"h\",[4,9,4])\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_record(0)\n\
                     > 12 [0] cnt_read([\"h\"],2048)\n\
                     < 12 [0] cnt_read(0,[\"h\",[4,2,9,1]])",
        ],
        handler: Handler::Synchronous(read),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_records",
        params: &[NAME, param("most", ParamType::Integer)],
        results: &[
            ResultSpec::new("lost", "integer"),
            ResultSpec::new("records", "{integer time; any...}*"),
        ],
        level: ExecutionLevel::Anywhere,
        help: "Returns the last records of a trace, the oldest first, each with its time in \
               nanoseconds since boot; and the number of records that newer ones have replaced.",
        examples: &["process 7\nattach 7\n> 10 [0] cnt_create(\"ends\",\"trace\",\"\")\n\
                     < 10 [0] cnt_create(0)\n\
                     > 11 [0] process_terminated([7]): 12 [0] cnt_record(\"ends\",$1,$2)\n\
                     < 11 [0] process_terminated(0)\n> 13 [0] enable(11)\n< 13 [0] enable(0)\n\
                     at 5ms end 7 exit_code=3\n> 14 [0] cnt_records(\"ends\",10)\n\
                     < 14 [0] cnt_records(0,0,[[1000005000000,7,3]])"],
        handler: Handler::Synchronous(records),
        ..BLANK
    },
];

const FLAGS: &[FlagSpec] = &[
    flag(0, "kind", "string", "as it was created"),
    flag(1, "unit", "string", "of the numbers"),
    flag(2, "count", "integer", "numbers, changes, times or records"),
    flag(
        3,
        "sum",
        "integer",
        "of the numbers; of an integrator the integral, in units times seconds",
    ),
    flag(4, "least", "integer", "the smallest number, the lowest level, the shortest time"),
    flag(5, "most", "integer", "the largest"),
    flag(6, "mean", "floating", "of the numbers; of an integrator over time"),
    flag(
        7,
        "percentiles",
        "integer*",
        "50, 90, 99 and 99.9 percent; at most 1/100 too large, 1/8 for times that the kernel \
        measured",
    ),
    flag(8, "level", "integer", "of an integrator"),
    flag(9, "running", "integer", "started and not stopped"),
    flag(
        10,
        "lost",
        "integer",
        "stops without a start, dropped records, negative numbers that the kernel did not put into \
        a histogram",
    ),
    flag(
        11,
        "buckets",
        "{integer largest; integer count}*",
        "of a histogram or a timer: the largest number of each bucket that is not empty, and how \
        many there are in it; sums of the counts of several nodes are exact",
    ),
];

const fn flag(bit: u8, name: &'static str, kind: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec { bit, name, kind, help }
}

fn read(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let flags = spec::flags(args.get(1), FLAGS)?;
    let now = ctx.now;
    let names = args[0].list().unwrap_or_default();
    let (mut out, mut failed) = (Vec::new(), Vec::new());
    let session = ctx.session.tool.session;
    for name in names {
        in_kernel::take_records(ctx, name);
        match ctx.engine.instruments().find(session, name) {
            Ok(it) => {
                out.push(name.clone());
                let all = in_kernel::value(it, ctx.platform, now);
                let wanted = FLAGS.iter().filter(|flag| flags >> flag.bit & 1 == 1);
                out.extend(wanted.map(|flag| selected(it, &all, flag.bit, now)));
            }
            Err(why) => failed.push((name.clone(), why)),
        }
    }
    Ok(ctx.list_values([Value::List(out)], (&failed, names.len() - failed.len())).into())
}

/// The value that a bit selects.
fn selected(it: &Instrument, all: &InstrumentValue<'_>, bit: u8, now: Ns) -> Value {
    match bit {
        0 => Value::from(it.kind().name()),
        1 => Value::Text(it.unit.clone()),
        _ => statistic(all, bit, now).unwrap_or(Value::List(Vec::new())),
    }
}

fn statistic(all: &InstrumentValue<'_>, bit: u8, now: Ns) -> Option<Value> {
    match (all, bit) {
        (InstrumentValue::Timer(watch, _), 9) => {
            u64::try_from(watch.running()).ok().map(Value::from)
        }
        (InstrumentValue::Timer(watch, _), 10) => Some(watch.lost.into()),
        (InstrumentValue::Histogram(sum), 10) => Some(sum.n_refused.into()),
        (
            InstrumentValue::Counter(sum)
            | InstrumentValue::Histogram(sum)
            | InstrumentValue::Timer(_, sum),
            _,
        ) => summary_value(sum, bit),
        (InstrumentValue::Integrator(area), 2) => Some(area.count.into()),
        (InstrumentValue::Integrator(area), 3) => Some(area.integral(now).into()),
        (InstrumentValue::Integrator(area), 4) => Some(area.min.into()),
        (InstrumentValue::Integrator(area), 5) => Some(area.max.into()),
        (InstrumentValue::Integrator(area), 6) => area.mean(now).map(Value::from),
        (InstrumentValue::Integrator(area), 8) => Some(area.value.into()),
        (InstrumentValue::Trace(trace), 2) => Some(trace.count.into()),
        (InstrumentValue::Trace(trace), 10) => Some(trace.lost.into()),
        _ => None,
    }
}

fn summary_value(sum: &Summary, bit: u8) -> Option<Value> {
    match bit {
        2 => Some(sum.count.into()),
        3 => Some(sum.sum.into()),
        4 => sum.min.map(Value::from),
        5 => sum.max.map(Value::from),
        6 => sum.mean().map(Value::from),
        7 => sum.percentiles().map(|all| Value::List(all.into_iter().map(Value::from).collect())),
        11 => sum.buckets().map(|all| {
            let pair = |(largest, count): (u64, u64)| [largest.into(), count.into()];
            Value::List(all.flat_map(pair).collect())
        }),
        _ => None,
    }
}

fn records(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let most = args[1].integer::<usize>().filter(|most| (1..=trace::MOST).contains(most));
    let wrong =
        || Refusal::new(Status::RANGE, format!("most: expected 1 to {} records", trace::MOST));
    let most = most.ok_or_else(wrong)?;
    in_kernel::take_records(ctx, &args[0]);
    let it = named(ctx, &args[0])?;
    let InstrumentState::Trace(trace) = &it.state else { return Err(it.kind().refusal("a trace")) };
    let record = |it: &Record| {
        Value::List([Value::from(it.at.0)].into_iter().chain(it.values.clone()).collect())
    };
    let last = trace.last(most).map(record).collect();
    Ok(CallResult::with(vec![Value::from(trace.lost), Value::List(last)]).into())
}

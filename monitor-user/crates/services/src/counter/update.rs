//! `cnt_add`, `cnt_set`, `cnt_record`, `cnt_start`, `cnt_stop`: updates of instruments, usually as
//! actions of events.

use super::{BLANK, NAME, in_kernel, named, stopwatch::Stopwatch};
use crate::{CallContext, Handler, Outcome, ServiceSpec, spec::param};
use monitor_backend::rule::insn::{GaugeChange, TimerScope};
use monitor_event::{CallResult, Refusal};
use monitor_model::Ns;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};

const NUMBER: Param = param("number", ParamType::Integer);
const KEY_AND_TIME: Param = param("who_and_when", ParamType::Many(&ParamType::Any));

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "cnt_add",
        params: &[NAME, NUMBER],
        help: "Adds to a counter, which also keeps the number of additions and their minimum and \
               maximum; or changes the level of an integrator.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_send\n\
                     > 10 [0] cnt_create(\"sent\",\"counter\",\"bytes\")\n< 10 [0] cnt_create(0)\n\
                     > 11 [0] start_lib_call([7],\"pvm_send\"): 12 [0] cnt_add(\"sent\",$3)\n\
                     < 11 [0] start_lib_call(0)\n> 13 [0] enable(11)\n< 13 [0] enable(0)\n\
                     at 1ms call 7 pvm_send 1 100\nat 2ms call 7 pvm_send 1 20\n\
                     > 14 [0] cnt_read(\"sent\",62)\n\
                     < 14 [0] cnt_read(0,[\"sent\",\"bytes\",2,120,20,100])"],
        handler: Handler::Manipulation(|ctx, args| change(ctx, args, GaugeChange::By)),
        lower: Some(in_kernel::add),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_set",
        params: &[NAME, NUMBER],
        help: "Sets the sum of a counter, or the level of an integrator.",
        examples: &["> 10 [0] cnt_create(\"q\",\"integrator\",\"jobs\")\n\
                     < 10 [0] cnt_create(0)\n\
                     at 1000ms\n> 11 [0] cnt_set(\"q\",4)\n< 11 [0] cnt_set(0)\nat 3000ms\n\
                     > 12 [0] cnt_add(\"q\",-1)\n< 12 [0] cnt_add(0)\nat 4000ms\n\
                     > 13 [0] cnt_read(\"q\",376)\n< 13 [0] cnt_read(0,[\"q\",11.0,0,4,2.75,3])"],
        handler: Handler::Manipulation(|ctx, args| change(ctx, args, GaugeChange::To)),
        lower: Some(in_kernel::set),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_record",
        params: &[NAME, param("values", ParamType::Many(&ParamType::Any))],
        help: "Adds numbers to a histogram, or one record of values to a trace, which keeps the \
               last 16384. The kernel buffers the last 2048 records of a trace, which are read \
               ten times a second.",
        examples: &[
            "> 10 [0] cnt_create(\"size\",\"histogram\",\"bytes\")\n< 10 [0] cnt_create(0)\n\
                     > 11 [0] cnt_record(\"size\",4,4,9)\n< 11 [0] cnt_record(0)\n\
                     > 12 [0] cnt_read(\"size\",140)\n\
                     < 12 [0] cnt_read(0,[\"size\",3,17,[4,9,9,9]])",
        ],
        handler: Handler::Manipulation(record),
        lower: Some(in_kernel::record),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_start",
        params: &[NAME, KEY_AND_TIME],
        help: "Starts a timer: a `thread_timer` for the named thread, a `process_timer` for the \
               process, a `timer` for any integer, or for none. The time is now, unless one \
               follows: `cnt_start(\"t\",$thread,$time)` measures from when the event occurred, \
               not from when the monitor received it.",
        examples: &["process 7\nattach 7\ncallable 7 f\n\
                     > 10 [0] cnt_create(\"t\",\"thread_timer\",\"\")\n< 10 [0] cnt_create(0)\n\
                     > 11 [0] start_lib_call([7],\"f\"): 12 [0] cnt_start(\"t\",$proc,$time)\n\
                     < 11 [0] start_lib_call(0)\n\
                     > 13 [0] end_lib_call([7],\"f\"): 14 [0] cnt_stop(\"t\",$proc,$time)\n\
                     < 13 [0] end_lib_call(0)\n> 15 [0] enable(11); 16 [0] enable(13)\n\
                     < 15 [0] enable(0); 16 [0] enable(0)\nat 1ms call 7 f\nat 4ms return 7 f 0\n\
                     > 17 [0] cnt_read(\"t\",14)\n< 17 [0] cnt_read(0,[\"t\",\"ns\",1,3000000])"],
        handler: Handler::Manipulation(|ctx, args| timer(ctx, args, Stopwatch::start)),
        lower: Some(in_kernel::start),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_stop",
        params: &[NAME, KEY_AND_TIME],
        help: "Stops a timer that was started for the same thread, process or integer, and adds \
               the time. A stop without a start adds no time and is counted as lost.",
        examples: &["> 10 [0] cnt_create(\"t\",\"timer\",\"\"); 11 [0] cnt_stop(\"t\")\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_stop(0)\n\
                     > 12 [0] cnt_read(\"t\",1540)\n< 12 [0] cnt_read(0,[\"t\",0,0,1])"],
        handler: Handler::Manipulation(|ctx, args| timer(ctx, args, Stopwatch::stop)),
        lower: Some(in_kernel::stop),
        ..BLANK
    },
];

fn change(
    ctx: &mut CallContext<'_>,
    args: &[Value],
    how: fn(i64) -> GaugeChange,
) -> Result<Outcome, Refusal> {
    let wrong = || Refusal::new(Status::RANGE, "number: expected an integer of 63 bits");
    let (how, now) = (how(args[1].integer().ok_or_else(wrong)?), ctx.now);
    let number = named(ctx, &args[0])?.number;
    let before = ctx.platform.change_gauge(number, how);
    named(ctx, &args[0])?.change(how, before, now)?;
    Ok(CallResult::ok().into())
}

fn record(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let (now, values) = (ctx.now, args[1].list().unwrap_or_default());
    in_kernel::take_records(ctx, &args[0]);
    named(ctx, &args[0])?.record(values, now)?;
    Ok(CallResult::ok().into())
}

fn timer(
    ctx: &mut CallContext<'_>,
    args: &[Value],
    act: fn(&mut Stopwatch, i64, Ns),
) -> Result<Outcome, Refusal> {
    let now = ctx.now;
    let timer = named(ctx, &args[0])?.timer()?;
    let (key, at) = timed(timer.key, args[1].list().unwrap_or_default(), now)?;
    act(timer, key, at);
    Ok(CallResult::ok().into())
}

/// The thread, process or integer that is timed, and the time.
fn timed(whose: TimerScope, values: &[Value], now: Ns) -> Result<(i64, Ns), Refusal> {
    let wrong = |text| Refusal::new(Status::RANGE, text);
    let time = |value: &Value| {
        let at = value.integer().map(Ns);
        at.ok_or_else(|| wrong("time: expected nanoseconds since boot, as $time is"))
    };
    let integer_key = |value: &Value| match value {
        Value::Token(token) => i64::try_from(token.serial).ok(),
        other => other.integer(),
    };
    let integer_key = |value| integer_key(value).ok_or_else(|| wrong("key: expected an integer"));
    match (whose, values) {
        (TimerScope::Node, []) => Ok((0, now)),
        (TimerScope::Thread, []) => Err(wrong("no thread given: add $thread")),
        (TimerScope::Process, []) => Err(wrong("no process given: add $proc")),
        (_, [key]) => Ok((integer_key(key)?, now)),
        (_, [key, at]) => Ok((integer_key(key)?, time(at)?)),
        _ => Err(wrong("expected at most two values: key and time")),
    }
}

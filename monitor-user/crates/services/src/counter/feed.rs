//! `cnt_add`, `cnt_set`, `cnt_record`, `cnt_start`, `cnt_stop`: what the actions of events do.

use super::instrument::Instrument;
use super::stopwatch::Stopwatch;
use super::{BLANK, NAME, kernel, named};
use crate::ctx::Ctx;
use crate::outcome::Outcome;
use crate::row::{Act, Row};
use monitor_backend::rule::act::{Move, Whose};
use monitor_event::outcome::{Done, Refusal};
use monitor_model::id::Ns;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};

const NUMBER: Param = Param { name: "number", kind: Kind::Integer };
const WHO: Param = Param { name: "who_and_when", kind: Kind::Many(&Kind::Any) };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "cnt_add",
        takes: &[NAME, NUMBER],
        help: "Adds to a counter, which also knows how often that was done and the extremes of \
               what was added; or changes the level of an integrator.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_send\n\
                     > 10 [0] cnt_create(\"sent\",\"counter\",\"bytes\")\n< 10 [0] cnt_create(0)\n\
                     > 11 [0] start_lib_call([7],\"pvm_send\"): 12 [0] cnt_add(\"sent\",$3)\n\
                     < 11 [0] start_lib_call(0)\n> 13 [0] enable(11)\n< 13 [0] enable(0)\n\
                     at 1ms call 7 pvm_send 1 100\nat 2ms call 7 pvm_send 1 20\n\
                     > 14 [0] cnt_read(\"sent\",62)\n\
                     < 14 [0] cnt_read(0,[\"sent\",\"bytes\",2,120,20,100])"],
        act: Act::Manipulation(|ctx, args| number(ctx, args, Move::By)),
        kernel: Some(kernel::add),
        ..BLANK
    },
    Row {
        name: "cnt_set",
        takes: &[NAME, NUMBER],
        help: "Sets the sum of a counter, or the level of an integrator.",
        examples: &["> 10 [0] cnt_create(\"q\",\"integrator\",\"jobs\")\n\
                     < 10 [0] cnt_create(0)\n\
                     at 1000ms\n> 11 [0] cnt_set(\"q\",4)\n< 11 [0] cnt_set(0)\nat 3000ms\n\
                     > 12 [0] cnt_add(\"q\",-1)\n< 12 [0] cnt_add(0)\nat 4000ms\n\
                     > 13 [0] cnt_read(\"q\",376)\n< 13 [0] cnt_read(0,[\"q\",11.0,0,4,2.75,3])"],
        act: Act::Manipulation(|ctx, args| number(ctx, args, Move::To)),
        kernel: Some(kernel::set),
        ..BLANK
    },
    Row {
        name: "cnt_record",
        takes: &[NAME, Param { name: "values", kind: Kind::Many(&Kind::Any) }],
        help: "Gives numbers to a histogram, or one record of values to a trace, which keeps the \
               last 16384. Of what the kernel records it keeps the last 2048 itself, and is looked \
               at ten times a second.",
        examples: &[
            "> 10 [0] cnt_create(\"size\",\"histogram\",\"bytes\")\n< 10 [0] cnt_create(0)\n\
                     > 11 [0] cnt_record(\"size\",4,4,9)\n< 11 [0] cnt_record(0)\n\
                     > 12 [0] cnt_read(\"size\",140)\n\
                     < 12 [0] cnt_read(0,[\"size\",3,17,[4,9,9,9]])",
        ],
        act: Act::Manipulation(record),
        kernel: Some(kernel::record),
        ..BLANK
    },
    Row {
        name: "cnt_start",
        takes: &[NAME, WHO],
        help: "Starts a timer: a `thread_timer` for the thread that is named, a `process_timer` \
               for the process, a `timer` for any integer, or for nobody in particular. The time \
               is now, unless one follows: `cnt_start(\"t\",$thread,$time)` measures from when it \
               happened, and not from when the monitor heard of it.",
        examples: &["process 7\nattach 7\ncallable 7 f\n\
                     > 10 [0] cnt_create(\"t\",\"thread_timer\",\"\")\n< 10 [0] cnt_create(0)\n\
                     > 11 [0] start_lib_call([7],\"f\"): 12 [0] cnt_start(\"t\",$proc,$time)\n\
                     < 11 [0] start_lib_call(0)\n\
                     > 13 [0] end_lib_call([7],\"f\"): 14 [0] cnt_stop(\"t\",$proc,$time)\n\
                     < 13 [0] end_lib_call(0)\n> 15 [0] enable(11); 16 [0] enable(13)\n\
                     < 15 [0] enable(0); 16 [0] enable(0)\nat 1ms call 7 f\nat 4ms return 7 f 0\n\
                     > 17 [0] cnt_read(\"t\",14)\n< 17 [0] cnt_read(0,[\"t\",\"ns\",1,3000000])"],
        act: Act::Manipulation(|ctx, args| timer(ctx, args, Stopwatch::start)),
        kernel: Some(kernel::start),
        ..BLANK
    },
    Row {
        name: "cnt_stop",
        takes: &[NAME, WHO],
        help: "Stops a timer that was started for the same, and takes the time. Without a \
               beginning there is no time, and that is counted.",
        examples: &["> 10 [0] cnt_create(\"t\",\"timer\",\"\"); 11 [0] cnt_stop(\"t\")\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_stop(0)\n\
                     > 12 [0] cnt_read(\"t\",1540)\n< 12 [0] cnt_read(0,[\"t\",0,0,1])"],
        act: Act::Manipulation(|ctx, args| timer(ctx, args, Stopwatch::stop)),
        kernel: Some(kernel::stop),
        ..BLANK
    },
];

fn number(ctx: &mut Ctx<'_>, args: &[Value], how: fn(i64) -> Move) -> Outcome {
    let now = ctx.now;
    let wrong = || Refusal::new(Status::RANGE, "an instrument takes numbers of 63 bits");
    let how = args[1].integer().ok_or_else(wrong).map(how);
    let done = how.and_then(|how| {
        let number = named(ctx, &args[0])?.number;
        let before = ctx.ground.move_level(number, how);
        named(ctx, &args[0])?.change(how, before, now)
    });
    done.map(|()| Done::ok()).into()
}

fn record(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let (now, values) = (ctx.now, args[1].list().unwrap_or_default());
    kernel::take_records(ctx, &args[0]);
    named(ctx, &args[0]).and_then(|it| it.record(values, now)).map(|()| Done::ok()).into()
}

fn timer(ctx: &mut Ctx<'_>, args: &[Value], act: fn(&mut Stopwatch, i64, Ns)) -> Outcome {
    let now = ctx.now;
    let timer = named(ctx, &args[0]).and_then(Instrument::timer);
    let done = timer.and_then(|timer| {
        let (who, at) = who(timer.whose, args[1].list().unwrap_or_default(), now)?;
        act(timer, who, at);
        Ok(Done::ok())
    });
    done.into()
}

/// Who is timed, and when.
fn who(whose: Whose, values: &[Value], now: Ns) -> Result<(i64, Ns), Refusal> {
    let wrong = |text| Refusal::new(Status::RANGE, text);
    let time = |value: &Value| {
        let at = value.integer().map(Ns);
        at.ok_or_else(|| wrong("a time is in nanoseconds since boot, as $time is"))
    };
    let somebody = |value: &Value| match value {
        Value::Token(token) => i64::try_from(token.serial).ok(),
        other => other.integer(),
    };
    let somebody = |value| somebody(value).ok_or_else(|| wrong("whom: wanted an integer"));
    match (whose, values) {
        (Whose::Node, []) => Ok((0, now)),
        (Whose::Thread, []) => Err(wrong("whose thread: add $thread")),
        (Whose::Process, []) => Err(wrong("whose process: add $proc")),
        (_, [who]) => Ok((somebody(who)?, now)),
        (_, [who, at]) => Ok((somebody(who)?, time(at)?)),
        _ => Err(wrong("wanted who, and when")),
    }
}

//! Threads that come to where they are waited for, or back from where they were sent.
//!
//! The thread is held until the actions have been executed, or for two seconds. An errand goes out
//! when its request is enabled, and once: to send it out again, disable and enable the request.

use crate::ctx::Ctx;
use crate::row;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::{EventKind, EventFilter, ProcessSelector};
use monitor_event::outcome::Refusal;
use monitor_event::right::Right;
use monitor_event::thread::Argument;
use monitor_event::thread::{Errand, Sent};
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};

const TID: Param = Param { name: "tid", kind: Kind::Process };
const ADDR: Param = Param { name: "addr", kind: Kind::Integer };
/// What a number that is none is said not to be.
const ADDRESS: &str = "address";
const GIVEN: Given = Given { name: "tid", kind: "integer" };
const OF_ONE: Row = Row { gives: &[GIVEN], right: Right::Control, ..Row::BLANK };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "breakpoint",
        takes: &[Param { name: "tid_list", kind: Kind::Many(&Kind::Process) }, ADDR],
        help: "Occurs when a thread of one of the processes comes to the address, before the \
               instruction there. Refused when it is enabled, if no instruction begins there.",
        examples: &["process 7\nattach 7\n> 10 [0] breakpoint([7],4096): 11 [0] print([$1,$pc])\n\
                     < 10 [0] breakpoint(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,4096])"],
        act: Act::Event(breakpoint),
        ..OF_ONE
    },
    Row {
        name: "step",
        takes: &[TID],
        help: "Sends the thread out for one machine instruction, also of a stopped process, and \
               occurs when it is done.",
        examples: &["process 7\nattach 7\n> 10 [0] step(7): 11 [0] print([$1,$pc])\n\
                     < 10 [0] step(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,17])"],
        act: Act::Event(|ctx, args| send(ctx, &args[0], Errand::Step)),
        ..OF_ONE
    },
    Row {
        name: "next",
        takes: &[TID],
        help: "The same; a call of a procedure is one instruction.",
        examples: &["process 7\nattach 7\n> 10 [0] next(7): 11 [0] print([$1])\n\
                     < 10 [0] next(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7])"],
        act: Act::Event(|ctx, args| send(ctx, &args[0], Errand::Next)),
        ..OF_ONE
    },
    Row {
        name: "finish",
        takes: &[TID],
        gives: &[GIVEN, Given { name: "result", kind: "integer" }],
        help: "Lets the thread run until its current procedure has returned, and occurs then. \
               `$2` is the integer that was returned, an extension.",
        examples: &["process 7\nattach 7\n> 10 [0] finish(7): 11 [0] print([$1,$2])\n\
                     < 10 [0] finish(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,0])"],
        act: Act::Event(|ctx, args| send(ctx, &args[0], Errand::Finish)),
        ..OF_ONE
    },
    Row {
        name: "call_procedure",
        takes: &[TID, ADDR, Param { name: "params", kind: Kind::Many(&Kind::Any) }],
        gives: &[
            GIVEN,
            Given { name: "integer", kind: "integer" },
            Given { name: "float", kind: "floating" },
        ],
        help: "Makes the thread call the procedure at the address, and occurs when that has \
               returned; the thread is then as it was. `$2` and `$3` are what it returned, as an \
               integer and as a floating point number. Strings and binaries are put into the \
               memory of the process. One that fails or does not return within 5 s is given up.",
        examples: &["process 7\nattach 7\n> 10 [0] call_procedure(7,4096,1,\"a\",2.5): \
                     11 [0] print([$1,$2,$3])\n< 10 [0] call_procedure(0)\n> 12 [0] enable(10)\n\
                     < 12 [0] enable(0)\nat 1ms process 7 nice=1\n< 11 [0] print(0,[7,3,0.0])"],
        act: Act::Event(call),
        ..OF_ONE
    },
];

fn breakpoint(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let errand = Errand::Break(row::integer(&args[1], ADDRESS)?);
    sent(ctx, &args[0], errand)
}

fn call(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let values = args[2].list().unwrap_or_default();
    let arguments = values.iter().map(argument).collect::<Result<_, _>>()?;
    let errand = Errand::Call(row::integer(&args[1], ADDRESS)?, arguments);
    send(ctx, &args[0], errand)
}

fn send(ctx: &mut Ctx<'_>, tid: &Value, errand: Errand) -> Result<EventFilter, Refusal> {
    sent(ctx, &Value::List(vec![tid.clone()]), errand)
}

fn sent(ctx: &mut Ctx<'_>, list: &Value, errand: Errand) -> Result<EventFilter, Refusal> {
    let chosen = ctx.processes(list)?;
    if let Some((_, why)) = chosen.failed.into_iter().next() {
        return Err(why);
    }
    let on: Vec<_> = chosen.served.iter().map(|it| it.id).collect();
    let whose = ProcessSelector::These(on.iter().copied().collect());
    let sent = Sent { ticket: ctx.ticket, tool: ctx.session.tool, on, errand };
    Ok(EventFilter { topic: EventKind::Sent(sent), whose, check: None })
}

fn argument(value: &Value) -> Result<Argument, Refusal> {
    match value {
        Value::Integer(_) => row::word(value).map(Argument::Integer),
        Value::Float(number) => Ok(Argument::Float(number.0)),
        Value::Text(text) => Ok(Argument::Bytes(text.as_bytes().to_vec())),
        Value::Binary(bytes) => Ok(Argument::Bytes(bytes.as_bytes().to_vec())),
        Value::Token(_) | Value::List(_) => {
            let text = format!("{} is nothing that a procedure takes", value.kind());
            Err(Refusal::new(Status::TYPE, text))
        }
    }
}

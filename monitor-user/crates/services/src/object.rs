//! Services about the monitor's own objects: stored requests and users' events (section 8.2).

use super::ctx::Ctx;
use super::desk::Desk;
use super::kernel::Bound;
use super::outcome::Outcome;
use super::row::{Act, Given, Level, Row};
use monitor_event::action::Run;
use monitor_event::action::Step;
use monitor_event::occurrence::{EventKind, EventFilter};
use monitor_event::outcome::{Done, Refusal};
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{RequestId, Status, Value};

const REQUEST: &[Param] = &[Param { name: "request_id", kind: Kind::Integer }];
const EVENT: &[Param] = &[Param { name: "event_no", kind: Kind::Integer }];

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "enable",
        takes: REQUEST,
        level: Level::Kernel,
        help: "Lets the stored request of this number run whenever its event occurs. The number \
               is that of its event. What is enabled already stays so.",
        act: Act::Manipulation(enable),
        kernel: Some(|it| Some(vec![Step::Enable(request(it)?)])),
        examples: &["> 10 [0] enable(9)\n\
                     < 10 [0] enable(306,0,\"no request 9 is stored on node 0\")"],
        ..Row::BLANK
    },
    Row {
        name: "disable",
        takes: REQUEST,
        level: Level::Kernel,
        help: "Lets it run no more until it is enabled again; what runs, ends.",
        examples: &["> 10 [0] define_user_event(5)\n< 10 [0] define_user_event(0)\n\
                     > 11 [0] user_event(5): 12 [0] print($1)\n< 11 [0] user_event(0)\n\
                     > 13 [0] enable(11); 14 [0] raise_event(5,[1])\n\
                     < 13 [0] enable(0); 14 [0] raise_event(0)\n< 12 [0] print(0,[1])\n\
                     > 15 [0] disable(11); 16 [0] raise_event(5,[2])\n\
                     < 15 [0] disable(0); 16 [0] raise_event(0)"],
        act: Act::Manipulation(disable),
        kernel: Some(|it| Some(vec![Step::Disable(request(it)?)])),
        ..Row::BLANK
    },
    Row {
        name: "delete",
        takes: REQUEST,
        level: Level::Kernel,
        help: "Forgets a stored request. Its number may be used again.",
        examples: &["> 10 [0] new_process(): 11 [0] print($1)\n< 10 [0] new_process(0)\n\
                     > 12 [0] delete(10)\n< 12 [0] delete(0)\n> 13 [0] delete(10)\n\
                     < 13 [0] delete(306,0,\"no request 10 is stored on node 0\")"],
        act: Act::Manipulation(delete),
        ..Row::BLANK
    },
    Row {
        name: "request_level",
        takes: REQUEST,
        gives: &[Given { name: "level", kind: "string*" }],
        help: "Tells where each action of a stored request is run, as they stand: `\"kernel\"`, \
               at the event itself; `\"copy\"`, by the monitor, with what the kernel copied at \
               the event; `\"held\"`, by the monitor, while the thread that met the event is \
               held; `\"stopped\"`, the same while its process is stopped by a signal, because \
               another debugger traces it or it came just now; `\"after\"`, by the monitor, when \
               what it is about may have changed. An extension.",
        examples: &["process 7\nattach 7\n\
                     > 10 [0] process_terminated([7]): 11 [0] print($1), 12 [0] stop([])\n\
                     < 10 [0] process_terminated(0)\n> 13 [0] request_level(10)\n\
                     < 13 [0] request_level(0,[\"copy\",\"after\"])"],
        act: Act::Synchronous(request_level),
        ..Row::BLANK
    },
    Row {
        name: "define_user_event",
        level: Level::Kernel,
        takes: EVENT,
        help: "Makes an event of the tool's own on the nodes that are asked. Numbers from 2^30 \
               on are shared by all tools; others belong to the session.",
        examples: &["> 10 [0] define_user_event(5)\n< 10 [0] define_user_event(0)\n\
                     > 11 [0] define_user_event(5)\n\
                     < 11 [0] define_user_event(305,0,\"event 5 is defined already\")"],
        act: Act::Manipulation(|ctx, args| by_number(args, |no| ctx.desk.define_event(no))),
        ..Row::BLANK
    },
    Row {
        name: "raise_event",
        level: Level::Kernel,
        takes: &[
            Param { name: "event_no", kind: Kind::Integer },
            Param { name: "params", kind: Kind::Many(&Kind::Any) },
        ],
        help: "Raises an event of the tool's own, which tells these parameters. What waits for it \
               runs after the list that raised it; events that raise each other go 64 deep.",
        examples: &["> 10 [0] raise_event(5,[])\n\
                     < 10 [0] raise_event(304,0,\"no event 5 is defined on node 0\")"],
        act: Act::Manipulation(raise_event),
        kernel: Some(raise_in_kernel),
        ..Row::BLANK
    },
    Row {
        name: "destroy_user_event",
        level: Level::Kernel,
        takes: EVENT,
        help: "Forgets an event of the tool's own, and every stored request that waits for it.",
        examples: &["> 10 [0] destroy_user_event(5)\n\
                     < 10 [0] destroy_user_event(304,0,\"no event 5 is defined on node 0\")"],
        act: Act::Manipulation(|ctx, args| by_number(args, |no| ctx.desk.destroy_event(no))),
        ..Row::BLANK
    },
    Row {
        name: "user_event",
        takes: EVENT,
        gives: &[Given::ANY],
        help: "Occurs when an event of the tool's own is raised; `$1` and so on are the \
               parameters that it was raised with.",
        examples: &["> 10 [0] define_user_event(5)\n< 10 [0] define_user_event(0)\n\
                     > 11 [0] user_event(5): 12 [0] print($1,$2)\n< 11 [0] user_event(0)\n\
                     > 13 [0] enable(11); 14 [0] raise_event(5,[1,\"x\"])\n\
                     < 13 [0] enable(0); 14 [0] raise_event(0)\n< 12 [0] print(0,[1,\"x\"])"],
        act: Act::Event(user_event),
        ..Row::BLANK
    },
];

fn enable(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    stored(ctx, args, |desk, id| desk.enable(id))
}

fn disable(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    stored(ctx, args, |desk, id| desk.disable(id))
}

fn delete(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    stored(ctx, args, |desk, id| desk.delete(id))
}

fn stored(
    ctx: &mut Ctx<'_>,
    args: &[Value],
    act: impl FnOnce(&mut dyn Desk, RequestId) -> Result<(), Refusal>,
) -> Outcome {
    let Some(Value::Integer(id)) = args.first() else { unreachable!("the row takes an integer") };
    act(ctx.desk, RequestId(*id)).map(|()| Done::ok()).into()
}

fn request_level(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let Some(Value::Integer(id)) = args.first() else { unreachable!("the row takes an integer") };
    let places = ctx.desk.places(RequestId(*id));
    // How somebody can be held is known where he is.
    let hold = ctx.ground.hold((ctx.session.tool.session, RequestId(*id))).unwrap_or(Run::Held);
    let run = |it: Run| if it == Run::Held { hold } else { it };
    let names = |all: Vec<Run>| all.into_iter().map(|it| Value::from(run(it).name())).collect();
    places.map(|places| Done::with(vec![Value::List(names(places))])).into()
}

fn raise_event(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let params = args.get(1).and_then(Value::list).unwrap_or_default();
    by_number(args, |number| ctx.desk.raise(number, params))
}

/// The request that is named, if it is written out.
fn request(it: &Bound<'_>) -> Option<RequestId> {
    match it.value(0)? {
        Value::Integer(id) => Some(RequestId(*id)),
        _ => None,
    }
}

fn raise_in_kernel(it: &Bound<'_>) -> Option<Vec<Step>> {
    let number = it.value(0)?.integer()?;
    Some(vec![Step::Raise(number, it.operands(1)?)])
}

fn by_number(args: &[Value], act: impl FnOnce(i64) -> Result<(), Refusal>) -> Outcome {
    number(args).and_then(act).map(|()| Done::ok()).into()
}

fn number(args: &[Value]) -> Result<i64, Refusal> {
    let number = args.first().and_then(Value::integer);
    number.ok_or_else(|| Refusal::new(Status::RANGE, "an event number has 63 bits"))
}

fn user_event(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let number = number(args)?;
    if !ctx.desk.has_event(number) {
        let text = format!("no event {number} is defined on node {}", ctx.node.0);
        return Err(Refusal::new(Status::NO_SUCH_EVENT, text));
    }
    Ok(EventFilter::all(EventKind::User(number)))
}

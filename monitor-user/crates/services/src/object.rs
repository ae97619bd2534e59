//! Services about the monitor's own objects: stored requests and user events (OMIS 1.0, section
//! 8.2).

use super::{
    CallContext, EnableCall, Enabling, EngineApi, ExecutionLevel, Handler, Outcome, ResultSpec,
    ServiceSpec,
    context::{PendingCall, list_result},
    lower::StoredCall,
    spec::{error, param},
};
use monitor_event::{
    ActionReport, CallResult, Edge, EventFilter, EventKind, ExecutionPlace, ProcessSelector,
    Refusal, Tap, action::Step,
};
use monitor_model::Identity;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Dialect, RequestId, Status, Text, Value};
use monitor_platform::call::{ARRIVAL, RECEIPT};
use monitor_platform::tap::price::{self, ProbePrice};
use std::os::unix::ffi::OsStrExt as _;
use std::{collections::BTreeSet, task::Poll};

const REQUEST: &[Param] = &[param("request_id", ParamType::Integer)];
const EVENT: &[Param] = &[param("event_no", ParamType::Integer)];

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "enable",
        params: REQUEST,
        level: ExecutionLevel::Kernel,
        help: "Enables the stored request of this number, which is that of its event: it runs \
               whenever the event occurs. An enabled request stays enabled. The reply to a \
               breakpoint, a step, `finish` or `call_procedure` arrives when it is set or has \
               begun; if that is refused in some of the processes, it is `PARTIAL`, and if in \
               all, the request stays disabled. It is `OK_DEGRADED`, with the reason, if a \
               breakpoint can end its program: then the user worker of the tool has put a byte \
               into the code, or used debug registers, and a thread that traps when this \
               process was killed a moment ago is ended by that.",
        errors: &[
            error(
                Status::NO_SUCH_REQUEST,
                "no stored request has the number here",
                "> 10 [0] enable(9)",
            ),
            error(Status::RESOURCE, "the user watches too many calls", ""),
            error(
                Status::UNSAFE_SITE,
                "the address of a breakpoint or a procedure is not code, or inside an instruction",
                "",
            ),
        ],
        handler: Handler::Manipulation(enable),
        lower: Some(|it| Some(vec![Step::Enable(request(it)?)])),
        examples: &["> 10 [0] enable(9)\n\
                     < 10 [0] enable(306,0,\"no request 9 is stored on node 0\")"],
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "disable",
        params: REQUEST,
        level: ExecutionLevel::Kernel,
        help: "Disables a stored request until it is enabled again; actions that run already are \
               finished.",
        examples: &["> 10 [0] define_user_event(5)\n< 10 [0] define_user_event(0)\n\
                     > 11 [0] user_event(5): 12 [0] print($1)\n< 11 [0] user_event(0)\n\
                     > 13 [0] enable(11); 14 [0] raise_event(5,[1])\n\
                     < 13 [0] enable(0); 14 [0] raise_event(0)\n< 12 [0] print(0,[1])\n\
                     > 15 [0] disable(11); 16 [0] raise_event(5,[2])\n\
                     < 15 [0] disable(0); 16 [0] raise_event(0)"],
        errors: &[error(
            Status::NO_SUCH_REQUEST,
            "no stored request has the number here",
            "> 10 [0] disable(9)",
        )],
        handler: Handler::Manipulation(disable),
        lower: Some(|it| Some(vec![Step::Disable(request(it)?)])),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "delete",
        params: REQUEST,
        level: ExecutionLevel::Kernel,
        help: "Deletes a stored request. Its number may be used again.",
        examples: &["> 10 [0] new_process(): 11 [0] print($1)\n< 10 [0] new_process(0)\n\
                     > 12 [0] delete(10)\n< 12 [0] delete(0)\n> 13 [0] delete(10)\n\
                     < 13 [0] delete(306,0,\"no request 10 is stored on node 0\")"],
        errors: &[error(
            Status::NO_SUCH_REQUEST,
            "no stored request has the number here",
            "> 10 [0] delete(9)",
        )],
        handler: Handler::Manipulation(delete),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "request_level",
        params: REQUEST,
        results: &[ResultSpec::new("level", "string*")],
        help: "Returns where each action of a stored request runs, in their order: `\"kernel\"`, \
               at the event itself; `\"copy\"`, in the monitor, on data that the kernel copied \
               at the event; `\"held\"`, in the monitor, while the thread that hit the event is \
               held; `\"stopped\"`, the same while its process is stopped by a signal, because \
               another debugger traces it or it was created just now; `\"after\"`, in the \
               monitor, when the process may have changed since. An extension.",
        examples: &["process 7\nattach 7\n\
                     > 10 [0] process_terminated([7]): 11 [0] print($1), 12 [0] stop([])\n\
                     < 10 [0] process_terminated(0)\n> 13 [0] request_level(10)\n\
                     < 13 [0] request_level(0,[\"copy\",\"after\"])"],
        errors: &[error(
            Status::NO_SUCH_REQUEST,
            "no stored request has the number here",
            "> 10 [0] request_level(9)",
        )],
        handler: Handler::Synchronous(request_level),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "request_price",
        params: REQUEST,
        results: &[ResultSpec::new("ns_per_call", "integer"), ResultSpec::new("probes", "any*")],
        help: "Returns what the probes of a stored request add to a call of its function, \
               enabled or not: at most `ns_per_call` nanoseconds, and for each function and place \
               a list of the file, the function's offset in it, the place (`\"start\"`, \
               `\"end\"`, `\"trampoline\"`), the number of probes there, of which a call hits \
               one, and the nanoseconds of a hit. The prices are measured on this machine, when \
               the first request for a call is stored; they are -1 if that failed. A request \
               for other events sets no probes, and costs 0. An extension.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_send\n\
                     > 10 [0] end_lib_call([7],\"pvm_send\"): 11 [0] print($1)\n\
                     < 10 [0] end_lib_call(0)\n> 12 [0] request_price(10)\n\
                     < 12 [0] request_price(0,2000,\
                     [[\"/usr/lib/libpvm3.so\",4096,\"end\",1,2000]])"],
        errors: &[error(
            Status::NO_SUCH_REQUEST,
            "no stored request has the number here",
            "> 10 [0] request_price(9)",
        )],
        handler: Handler::Synchronous(request_price),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "define_user_event",
        level: ExecutionLevel::Kernel,
        params: EVENT,
        help: "Defines an event of the tool's own on the addressed nodes. All tools share \
               numbers from 2^30 on; others belong to the session.",
        examples: &["> 10 [0] define_user_event(5)\n< 10 [0] define_user_event(0)\n\
                     > 11 [0] define_user_event(5)\n\
                     < 11 [0] define_user_event(305,0,\"event 5 is defined already\")"],
        errors: &[
            error(
                Status::EXISTS,
                "the event is defined already",
                "> 9 [0] define_user_event(5)\n< 9 [0] define_user_event(0)\n\
                 > 10 [0] define_user_event(5)",
            ),
            error(
                Status::RANGE,
                "a number of more than 63 bits",
                "> 10 [0] define_user_event(0x8000000000000000)",
            ),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            with_event(args, |no| ctx.engine.define_event(no))
        }),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "raise_event",
        level: ExecutionLevel::Kernel,
        params: &[
            param("event_no", ParamType::Integer),
            param("params", ParamType::Many(&ParamType::Any)),
        ],
        help: "Raises an event of the tool's own with these parameters. Requests that wait for \
               it run after the action list that raised it; events that raise each other nest up \
               to 64 deep.",
        examples: &["> 10 [0] raise_event(5,[])\n\
                     < 10 [0] raise_event(304,0,\"no event 5 is defined on node 0\")"],
        errors: &[
            error(Status::NO_SUCH_EVENT, "the event is not defined", "> 10 [0] raise_event(5,[])"),
            error(Status::EVENT_STORM, "events raise each other more than 64 deep", ""),
        ],
        handler: Handler::Manipulation(raise_event),
        lower: Some(raise_in_kernel),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "destroy_user_event",
        level: ExecutionLevel::Kernel,
        params: EVENT,
        help: "Deletes an event of the tool's own, and every stored request that waits for it.",
        examples: &["> 10 [0] destroy_user_event(5)\n\
                     < 10 [0] destroy_user_event(304,0,\"no event 5 is defined on node 0\")"],
        errors: &[error(
            Status::NO_SUCH_EVENT,
            "the event is not defined",
            "> 10 [0] destroy_user_event(5)",
        )],
        handler: Handler::Manipulation(|ctx, args| {
            with_event(args, |no| ctx.engine.destroy_event(no))
        }),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "user_event",
        params: EVENT,
        results: &[ResultSpec::ANY],
        help: "Occurs when an event of the tool's own is raised; `$1` and so on are the \
               parameters that it was raised with.",
        examples: &["> 10 [0] define_user_event(5)\n< 10 [0] define_user_event(0)\n\
                     > 11 [0] user_event(5): 12 [0] print($1,$2)\n< 11 [0] user_event(0)\n\
                     > 13 [0] enable(11); 14 [0] raise_event(5,[1,\"x\"])\n\
                     < 13 [0] enable(0); 14 [0] raise_event(0)\n< 12 [0] print(0,[1,\"x\"])"],
        errors: &[error(
            Status::NO_SUCH_EVENT,
            "the event is not defined",
            "> 10 [0] user_event(5): 11 [0] print(1)",
        )],
        handler: Handler::Event(user_event),
        ..ServiceSpec::BASE
    },
];

fn enable(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let (tool, n_attached) = (ctx.session.tool, ctx.session.scope.members().count());
    let by = EnableCall { tool, n_attached, ticket: ctx.ticket, now: ctx.now };
    match ctx.engine.enable(request_id(args), by)? {
        Enabling::Done => Ok(CallResult::ok().into()),
        Enabling::Begins => Ok(Outcome::Pending(PendingCall { then: begun, failed: Vec::new() })),
    }
}

/// A command to threads has begun in some of its processes; where it may end them, its result there
/// is why. If it could begin in none, its request is disabled.
fn begun(ctx: &mut CallContext<'_>, report: ActionReport) -> Result<CallResult, Refusal> {
    let n_processes = report.by_process.len();
    let mut done = report.by_process.iter().filter_map(|(_, done)| done.as_ref().ok());
    let remark = done.find_map(|values| values.first().cloned());
    let refused = report.by_process.into_iter().filter_map(|(id, done)| Some((id, done.err()?)));
    let failed: Vec<_> = refused.map(|(id, why)| (ctx.number(id), why)).collect();
    let n_begun = n_processes - failed.len();
    if n_begun == 0 && !failed.is_empty() {
        ctx.engine.disable_command(ctx.ticket);
    }
    let mut result = list_result(&failed, n_begun, ctx.session.dialect);
    if let (Some(why), Status::OK) = (remark, result.status) {
        result.status = Status::OK_DEGRADED;
        result.results.extend((ctx.session.dialect == Dialect::Extended).then_some(why));
    }
    Ok(result)
}

fn disable(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    with_request(ctx, args, |api, id| api.disable(id))
}

fn delete(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    with_request(ctx, args, |api, id| api.delete(id))
}

fn with_request(
    ctx: &mut CallContext<'_>,
    args: &[Value],
    act: impl FnOnce(&mut dyn EngineApi, RequestId) -> Result<(), Refusal>,
) -> Result<Outcome, Refusal> {
    act(ctx.engine, request_id(args)).map(|()| CallResult::ok().into())
}

/// The number of a request.
fn request_id(args: &[Value]) -> RequestId {
    let Some(Value::Integer(id)) = args.first() else {
        unreachable!("the specification has an integer")
    };
    RequestId(*id)
}

fn request_level(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let id = request_id(args);
    let places = ctx.engine.execution_places(id);
    // The platform knows how a process can be held.
    let hold =
        ctx.platform.rule_hold((ctx.session.tool.session, id)).unwrap_or(ExecutionPlace::Held);
    let run = |it: ExecutionPlace| if it == ExecutionPlace::Held { hold } else { it };
    let names =
        |all: Vec<ExecutionPlace>| all.into_iter().map(|it| Value::from(run(it).name())).collect();
    places.map(|places| CallResult::with(vec![Value::List(names(places))]).into())
}

fn request_price(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let filter = ctx.engine.event_filter(request_id(args))?;
    let taps = match &filter.kind {
        EventKind::Called(tap) => vec![tap.clone()],
        EventKind::MessageReceived => {
            [ARRIVAL, RECEIPT].map(|name| Tap::new(name, Edge::Start)).to_vec()
        }
        _ => Vec::new(),
    };
    let processes: Vec<Identity> = match &filter.processes {
        ProcessSelector::Listed(these) => these.iter().copied().collect(),
        ProcessSelector::Any | ProcessSelector::Attached => ctx.session.scope.members().collect(),
    };
    let mut probes = BTreeSet::new();
    for (tap, id) in taps.iter().flat_map(|tap| processes.iter().map(move |id| (tap, *id))) {
        match ctx.platform.probe_prices(tap, id) {
            Poll::Ready(Ok(found)) => probes.extend(found),
            // Some of the processes may run other programs, or have ended.
            Poll::Ready(Err(why)) if why.status == Status::NO_SUCH_OBJECT => {}
            Poll::Ready(Err(why)) if why.status == Status::GONE => {}
            Poll::Ready(Err(why)) => return Err(why),
            Poll::Pending => ctx.awaits_files = true,
        }
    }
    let probes = Vec::from_iter(probes);
    let ns = |ns: Option<u64>| ns.map_or(Value::from(-1), Value::from);
    let row = |it: &ProbePrice| {
        let file = Value::Text(Text::from(it.file.as_os_str().as_bytes().to_vec()));
        let n_probes = Value::from(u64::try_from(it.n_probes).unwrap_or(u64::MAX));
        let place = Value::from(it.place.name());
        Value::List(vec![file, it.function.into(), place, n_probes, ns(it.ns)])
    };
    let rows = Value::List(probes.iter().map(row).collect());
    Ok(CallResult::with(vec![ns(price::ns_per_call(&probes)), rows]).into())
}

fn raise_event(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let params = args.get(1).and_then(Value::list).unwrap_or_default();
    with_event(args, |number| ctx.engine.raise(number, params))
}

/// The request that a constant parameter names.
fn request(it: &StoredCall<'_>) -> Option<RequestId> {
    match it.value(0)? {
        Value::Integer(id) => Some(RequestId(*id)),
        _ => None,
    }
}

fn raise_in_kernel(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    let number = it.value(0)?.integer()?;
    Some(vec![Step::Raise(number, it.operands(1)?)])
}

fn with_event(
    args: &[Value],
    act: impl FnOnce(i64) -> Result<(), Refusal>,
) -> Result<Outcome, Refusal> {
    number(args).and_then(act).map(|()| CallResult::ok().into())
}

fn number(args: &[Value]) -> Result<i64, Refusal> {
    let number = args.first().and_then(Value::integer);
    number.ok_or_else(|| Refusal::new(Status::RANGE, "event_no: expected an integer of 63 bits"))
}

fn user_event(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let number = number(args)?;
    if !ctx.engine.has_event(number) {
        let text = format!("no event {number} is defined on node {}", ctx.node.0);
        return Err(Refusal::new(Status::NO_SUCH_EVENT, text));
    }
    Ok(EventFilter::all(EventKind::User(number)))
}

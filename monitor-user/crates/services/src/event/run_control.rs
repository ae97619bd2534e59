//! Run control: `breakpoint`, `breakpoint_if`, `watchpoint`, `step`, `next`, `finish`,
//! `call_procedure`; `catch.rs` has what happens to a thread by itself.
//!
//! The thread is held until the actions have been executed, or for two seconds. Except for a
//! breakpoint, a command is started once, when its request is enabled: to start it again, disable
//! and enable the request.

use crate::spec::{self, ErrorSpec, error, param};
use crate::{CallContext, Handler, ResultSpec, ServiceSpec};
use monitor_event::{
    AgentExpression, Argument, DataAccess, DataWatch, EventFilter, EventKind, ProcessSelector,
    Refusal, Right, RunControl, RunControlRequest, Target,
};
use monitor_model::Identity;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};

const THREAD: Param = param("thread", ParamType::Thread);
const ADDR: Param = param("addr", ParamType::Integer);
/// Names the parameter in the message about an invalid one.
const ADDRESS: &str = "address";
/// The failures of a command with an address: at one without an instruction, and outside memory.
const UNSAFE_ADDRESS: ErrorSpec = error(
    Status::UNSAFE_SITE,
    "the address is not code, or inside an instruction; when it is enabled",
    "",
);
const ADDRESS_RANGE: &str = "an address that is negative or has more than 64 bits";
/// The thread of an event.
pub(super) const TID_RESULT: ResultSpec = ResultSpec::new("tid", "integer");
/// What events of a thread have in common.
pub(super) const THREAD_EVENT: ServiceSpec =
    ServiceSpec { results: &[TID_RESULT], right: Right::Control, ..ServiceSpec::BASE };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "breakpoint",
        params: &[param("tid_list", ParamType::Many(&ParamType::Process)), ADDR],
        help: "Occurs when a thread of one of the processes reaches the address, before it \
               executes the instruction there. Enabling it is refused if no instruction begins \
               there.",
        examples: &["process 7\nattach 7\n> 10 [0] breakpoint([7],4096): 11 [0] print([$1,$pc])\n\
                     < 10 [0] breakpoint(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,4096])"],
        errors: &[
            UNSAFE_ADDRESS,
            error(
                Status::RANGE,
                ADDRESS_RANGE,
                "process 7\nattach 7\n> 10 [0] breakpoint([7],-1): 11 [0] print(1)",
            ),
        ],
        handler: Handler::Event(breakpoint),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "breakpoint_if",
        params: &[
            param("tid_list", ParamType::Many(&ParamType::Process)),
            ADDR,
            param("conditions", ParamType::Many(&ParamType::Bytes)),
        ],
        help: "Like `breakpoint`, while one of the conditions holds; an empty list holds always. \
               Each is the bytecode of gdb's manual, \"Agent Expressions\", with its numbers of \
               registers: 0 to 15 for rax to r15 in the order of the processor, 16 for rip, 17 for \
               the flags. The kernel evaluates them, and a hit for which none holds does not stop \
               the thread; else the user worker does, and the reply to `enable` is `OK_DEGRADED`. \
               A condition that cannot be evaluated, as of memory that is not mapped, holds. An \
               extension.",
        examples: &["process 7\nattach 7\n> 10 [0] breakpoint_if([7],4096,[#3:220127]): \
                     11 [0] print([$1,$pc])\n\
                     < 10 [0] breakpoint_if(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,4096])"],
        errors: &[
            UNSAFE_ADDRESS,
            error(
                Status::RANGE,
                ADDRESS_RANGE,
                "process 7\nattach 7\n> 10 [0] breakpoint_if([7],-1,[]): 11 [0] print(1)",
            ),
        ],
        handler: Handler::Event(breakpoint_if),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "watchpoint",
        params: &[
            param("tid_list", ParamType::Many(&ParamType::Process)),
            ADDR,
            param("len", ParamType::Integer),
            param("access", ParamType::Text),
        ],
        help: "Occurs when a thread of one of the processes has accessed these bytes, after the \
               instruction; `$pc` is the next one. The length is 1, 2, 4 or 8 bytes, and the \
               address a multiple of it. The access is `w` for writes, also of the same value, or \
               `rw` for reads too; what the kernel reads or writes for the process is not seen. \
               It fails when the process executes another program. The processor has four of them \
               for each thread, which breakpoints in generated code and debuggers use too. Needs \
               eBPF. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] watchpoint([7],4096,8,\"w\"): \
                     11 [0] print([$1,$pc])\n\
                     < 10 [0] watchpoint(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,16])"],
        errors: &[
            error(
                Status::RANGE,
                "an address that is no multiple of the length, another length, another access",
                "process 7\nattach 7\n> 10 [0] watchpoint([7],4097,8,\"w\"): 11 [0] print(1)",
            ),
            error(
                Status::UNSUPPORTED,
                "the processor has no breakpoint left in a thread, or there is no eBPF; when it is \
                 enabled",
                "",
            ),
        ],
        handler: Handler::Event(watchpoint),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "step",
        params: &[THREAD],
        help: "Makes the thread execute one machine instruction, also in a stopped process, and \
               occurs when it is done.",
        examples: &["process 7\nattach 7\n> 10 [0] step(7): 11 [0] print([$1,$pc])\n\
                     < 10 [0] step(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,17])"],
        handler: Handler::Event(|ctx, args| for_thread(ctx, &args[0], RunControl::Step)),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "next",
        params: &[THREAD],
        help: "Like `step`, but steps over a call of a procedure.",
        examples: &["process 7\nattach 7\n> 10 [0] next(7): 11 [0] print([$1])\n\
                     < 10 [0] next(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7])"],
        handler: Handler::Event(|ctx, args| for_thread(ctx, &args[0], RunControl::Next)),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "finish",
        params: &[THREAD],
        results: &[TID_RESULT, ResultSpec::new("result", "integer")],
        help: "Makes the thread run until its current procedure has returned, and occurs then. \
               `$2` is the integer that was returned, an extension.",
        examples: &["process 7\nattach 7\n> 10 [0] finish(7): 11 [0] print([$1,$2])\n\
                     < 10 [0] finish(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,0])"],
        errors: &[error(
            Status::UNSAFE_SITE,
            "the return address is not code, or inside an instruction; when it is enabled",
            "",
        )],
        handler: Handler::Event(|ctx, args| for_thread(ctx, &args[0], RunControl::Finish)),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "call_procedure",
        params: &[THREAD, ADDR, param("params", ParamType::Many(&ParamType::Any))],
        results: &[
            TID_RESULT,
            ResultSpec::new("integer", "integer"),
            ResultSpec::new("float", "floating"),
        ],
        help: "Makes the thread call the procedure at the address, and occurs when that has \
               returned; the thread is then as it was before. `$2` and `$3` are the returned \
               value, as an integer and as a floating point number. Strings and binaries are \
               copied into the memory of the process. A call that fails or does not return \
               within 5 s is abandoned.",
        examples: &["process 7\nattach 7\n> 10 [0] call_procedure(7,4096,1,\"a\",2.5): \
                     11 [0] print([$1,$2,$3])\n< 10 [0] call_procedure(0)\n> 12 [0] enable(10)\n\
                     < 12 [0] enable(0)\nat 1ms process 7 nice=1\n< 11 [0] print(0,[7,3,0.0])"],
        errors: &[
            UNSAFE_ADDRESS,
            error(
                Status::RANGE,
                ADDRESS_RANGE,
                "process 7\nattach 7\n> 10 [0] call_procedure(7,-1): 11 [0] print(1)",
            ),
            error(
                Status::TYPE,
                "a list as a parameter of the procedure",
                "process 7\nattach 7\n> 10 [0] call_procedure(7,4096,[1,[2]]): 11 [0] print(1)",
            ),
        ],
        handler: Handler::Event(call),
        ..THREAD_EVENT
    },
];

fn breakpoint(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let command = RunControl::Break(spec::integer(&args[1], ADDRESS)?, Vec::new());
    run_control(ctx, &args[0], command)
}

fn breakpoint_if(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, address, conditions] = spec::params(args);
    let conditions = conditions.list().unwrap_or_default().iter().filter_map(Value::bytes);
    let conditions = conditions.map(|it| AgentExpression(it.into_owned())).collect();
    let command = RunControl::Break(spec::integer(address, ADDRESS)?, conditions);
    run_control(ctx, list, command)
}

fn watchpoint(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, address, length, access] = spec::params(args);
    let processes = processes(ctx, list)?;
    let address: u64 = spec::integer(address, ADDRESS)?;
    let length = spec::integer(length, "length").ok().filter(|it| [1, 2, 4, 8].contains(it));
    let Some(length) = length else {
        return Err(Refusal::new(Status::RANGE, "the length of watched data is 1, 2, 4 or 8"));
    };
    if !address.is_multiple_of(u64::from(length)) {
        let text = format!("{address:#x} is no multiple of the length, {length}");
        return Err(Refusal::new(Status::RANGE, text));
    }
    let access = match access.text().map(|it| it.as_bytes()) {
        Some(b"w") => DataAccess::Write,
        Some(b"rw") => DataAccess::ReadWrite,
        _ => return Err(Refusal::new(Status::RANGE, "an access is `w` or `rw`")),
    };
    let command = RunControl::Watch(DataWatch { address, length, access });
    Ok(event_filter(ctx, (processes, None), command))
}

fn call(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let values = args[2].list().unwrap_or_default();
    let arguments = values.iter().map(argument).collect::<Result<_, _>>()?;
    let command = RunControl::Call(spec::integer(&args[1], ADDRESS)?, arguments);
    for_thread(ctx, &args[0], command)
}

fn for_thread(
    ctx: &mut CallContext<'_>,
    tid: &Value,
    command: RunControl,
) -> Result<EventFilter, Refusal> {
    let (process, thread) = ctx.thread(tid)?;
    Ok(event_filter(ctx, (vec![process.id], thread), command))
}

/// The filter of a command to all threads of the listed processes.
pub(super) fn run_control(
    ctx: &mut CallContext<'_>,
    list: &Value,
    command: RunControl,
) -> Result<EventFilter, Refusal> {
    let on = processes(ctx, list)?;
    Ok(event_filter(ctx, (on, None), command))
}

/// The listed processes, all of which must be served.
fn processes(ctx: &mut CallContext<'_>, list: &Value) -> Result<Vec<Identity>, Refusal> {
    let chosen = ctx.processes(list)?;
    match chosen.failed.into_iter().next() {
        Some((_, why)) => Err(why),
        None => Ok(chosen.served.iter().map(|it| it.id).collect()),
    }
}

fn event_filter(
    ctx: &CallContext<'_>,
    (processes, thread): (Vec<Identity>, Option<Target>),
    command: RunControl,
) -> EventFilter {
    let whose = ProcessSelector::Listed(processes.iter().copied().collect());
    let (ticket, tool) = (ctx.ticket, ctx.session.tool);
    let sent = RunControlRequest { ticket, tool, processes, thread, command };
    EventFilter { kind: EventKind::RunControl(sent), processes: whose, predicate: None }
}

fn argument(value: &Value) -> Result<Argument, Refusal> {
    match value {
        Value::Integer(_) => spec::word(value).map(Argument::Integer),
        Value::Float(number) => Ok(Argument::Float(number.0)),
        Value::Text(text) => Ok(Argument::Bytes(text.as_bytes().to_vec())),
        Value::Binary(bytes) => Ok(Argument::Bytes(bytes.as_bytes().to_vec())),
        Value::Token(_) | Value::List(_) => {
            let text = format!("{} cannot be passed to a procedure", value.kind());
            Err(Refusal::new(Status::TYPE, text))
        }
    }
}

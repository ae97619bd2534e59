//! The threads of a process: listed, held one by one, and looked into as a debugger does.
//!
//! Extensions: OMIS 1.0 knows processes. A thread is named by its token, `t_0_1234` with the thread
//! id of the system. What is returned as bytes has the layout of the system, which
//! docs/DEBUGGING.md names.

use super::{CONTROLLED, THREAD, TID, act_on_one, act_on_thread};
use crate::spec::{error, integer, number, param, params};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec};
use crate::{context::Completion, spec::ErrorSpec};
use monitor_event::{ActionReport, CallResult, Refusal};
use monitor_model::Identity;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Token, Value, token::TokenKind};
use monitor_platform::{ProcessAction, action::RegisterSet};

const LIST: Param = param("thread_list", ParamType::Many(&ParamType::Thread));
const BYTES: ResultSpec = ResultSpec::new("bytes", "integer*");
const BUSY: ErrorSpec = error(Status::BUSY, "another debugger traces the process", "");
const LATE: ErrorSpec = error(Status::TIMEOUT, "its threads did not stop in time", "");
/// The signals that a thread can continue with; 0 is none.
const SIGNALS_OR_NONE: std::ops::RangeInclusive<i32> = 0..=64;

/// The base of services about a thread.
const THREAD_SERVICE: ServiceSpec = ServiceSpec { level: ExecutionLevel::HoldThread, ..CONTROLLED };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "list_threads",
        params: &[TID],
        results: &[ResultSpec::new("threads", "any*")],
        help: "Returns the threads of a process, ascending: for each a list of its thread id and \
               its name. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] list_threads(7)\n\
                     < 10 [0] list_threads(0,[[7,\"test\"]])"],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_one(ctx, &args[0], &ProcessAction::ListThreads)
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "stop_threads",
        params: &[LIST],
        results: &[ResultSpec::new("stops", "integer*")],
        help: "Holds each thread of the processes by itself, or these threads of one process, \
               and returns when they are held. Nothing sends them a signal, so `SIGCONT` does \
               not release them, and the parent is not notified. Returns for each process the \
               number of this stop, which grows with each stop of this tool. A step that the \
               tool has started in one of the threads ends without its event. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] stop_threads([7])\n\
                     < 10 [0] stop_threads(0,[1])\n> 11 [0] stop_threads([t_0_7])\n\
                     < 11 [0] stop_threads(0,[2])"],
        errors: &[
            error(
                Status::RANGE,
                "threads of several processes, or threads beside processes",
                // Tokens are an extension of the language.
                "",
            ),
            BUSY,
            LATE,
        ],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_threads(ctx, &args[0], ProcessAction::StopThreads, stop_numbers)
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "continue_threads",
        params: &[LIST, param("stop", ParamType::Integer)],
        help: "Releases threads that `stop_threads` has stopped for this tool. `stop` is the \
               number of the last stop that the tool knows: if an event has stopped the threads \
               again meanwhile, nothing is released. 0 releases them whatever happened. A thread \
               runs once no tool and no event holds it. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] stop_threads([7])\n\
                     < 10 [0] stop_threads(0,[1])\n> 11 [0] continue_threads([7],1)\n\
                     < 11 [0] continue_threads(0)"],
        errors: &[
            error(
                Status::RANGE,
                "a negative number of a stop",
                "process 7\nattach 7\n> 10 [0] continue_threads([7],-1)",
            ),
            error(
                Status::WRONG_STATE,
                "threads that this tool has not stopped, or that have stopped again",
                "",
            ),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            let stop = integer(&args[1], "number of a stop")?;
            let act = |tids| ProcessAction::ContinueThreads(tids, stop);
            act_on_threads(ctx, &args[0], act, |ctx, report| Ok(ctx.acknowledge(report)))
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "set_signal",
        params: &[THREAD, param("sig", ParamType::Integer)],
        help: "Sets the signal with which a thread continues that this tool holds; 0 discards the \
               one that it is about to take. `before_signal` does not occur for it again. An \
               extension.",
        examples: &["process 7\nattach 7\n> 10 [0] set_signal(t_0_7,0)\n< 10 [0] set_signal(0)"],
        errors: &[
            error(
                Status::RANGE,
                "a number that is neither 0 nor a signal, 1 to 64",
                "process 7\nattach 7\n> 10 [0] set_signal(7,65)",
            ),
            error(Status::WRONG_STATE, "a thread that this tool does not hold", ""),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            let [thread, signal] = params(args);
            let signal = number(signal, "signal", SIGNALS_OR_NONE)?;
            act_on_thread(ctx, thread, &ProcessAction::SetSignal(signal))
        }),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "read_signal_info",
        params: &[THREAD],
        results: &[BYTES],
        help: "Returns what the system says of the signal with which a held thread has stopped: \
               the bytes of its `siginfo_t`. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] read_signal_info(t_0_7)\n\
                     < 10 [0] read_signal_info(0,[10,0,0,0])"],
        errors: &[BUSY, LATE],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_thread(ctx, &args[0], &ProcessAction::ReadSignalInfo)
        }),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "read_int_image",
        params: &[THREAD],
        results: &[BYTES],
        help: "Reads all integer registers of a thread as the system has them. On x86-64: the 27 \
               words of `struct user_regs_struct`, with the number of the system call. An \
               extension.",
        examples: &["process 7\nattach 7\n> 10 [0] read_int_image(t_0_7)\n\
                     < 10 [0] read_int_image(0,[1,2,3,4])"],
        errors: &[BUSY, LATE],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_thread(ctx, &args[0], &ProcessAction::ReadImage(RegisterSet::General, u32::MAX))
        }),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "write_int_image",
        params: &[THREAD, param("bytes", ParamType::Bytes)],
        help: "Writes all integer registers of a thread, as `read_int_image` returns them. \
               Nothing is checked or changed: not the instruction pointer, and whether an \
               interrupted system call is restarted follows from the bytes. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] write_int_image(t_0_7,[1,2,3,4])\n\
                     < 10 [0] write_int_image(0)"],
        errors: &[error(Status::RANGE, "another number of bytes", ""), BUSY, LATE],
        handler: Handler::Manipulation(|ctx, args| write(ctx, args, RegisterSet::General)),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "read_fp_image",
        params: &[THREAD, param("num", ParamType::Integer)],
        results: &[BYTES],
        help: "Reads the floating point and vector registers of a thread as the system has them, \
               at most the first `num` bytes. On x86-64: its `xsave` area, or 512 bytes of \
               `fxsave` on a processor without it. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] read_fp_image(t_0_7,2)\n\
                     < 10 [0] read_fp_image(0,[1,2])"],
        errors: &[
            error(
                Status::RANGE,
                "a negative number of bytes",
                "process 7\nattach 7\n> 10 [0] read_fp_image(7,-1)",
            ),
            BUSY,
            LATE,
        ],
        handler: Handler::Synchronous(|ctx, args| {
            let most = integer(&args[1], "number of bytes")?;
            act_on_thread(ctx, &args[0], &ProcessAction::ReadImage(RegisterSet::Float, most))
        }),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "write_fp_image",
        params: &[THREAD, param("bytes", ParamType::Bytes)],
        help: "Writes floating point and vector registers of a thread, as `read_fp_image` returns \
               them; fewer bytes write the first part. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] write_fp_image(t_0_7,[1,2])\n\
                     < 10 [0] write_fp_image(0)"],
        errors: &[error(Status::RANGE, "more bytes than the thread has", ""), BUSY, LATE],
        handler: Handler::Manipulation(|ctx, args| write(ctx, args, RegisterSet::Float)),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "auxiliary_vector",
        params: &[TID],
        results: &[BYTES],
        help: "Returns the auxiliary vector of a process, which the system gave to its program: \
               pairs of words, see getauxval(3). An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] auxiliary_vector(7)\n\
                     < 10 [0] auxiliary_vector(0,[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0])"],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_one(ctx, &args[0], &ProcessAction::AuxiliaryVector)
        }),
        ..CONTROLLED
    },
];

fn write(ctx: &mut CallContext<'_>, args: &[Value], set: RegisterSet) -> Result<Outcome, Refusal> {
    let [thread, bytes] = params(args);
    let bytes = bytes.bytes().map(|it| it.into_owned()).unwrap_or_default();
    act_on_thread(ctx, thread, &ProcessAction::WriteImage(set, bytes))
}

/// Does an action to all threads of the listed processes, or to the listed threads of one process.
fn act_on_threads(
    ctx: &mut CallContext<'_>,
    list: &Value,
    act: impl FnOnce(Vec<u32>) -> ProcessAction,
    then: Completion,
) -> Result<Outcome, Refusal> {
    let named = list.list().unwrap_or_default();
    let is_thread = |it: &Value| matches!(it, Value::Token(Token { kind: TokenKind::Thread, .. }));
    if !named.iter().any(is_thread) {
        return ctx.act_on(list, &act(Vec::new()), then);
    }
    let mut tids = Vec::new();
    let mut processes: Vec<Identity> = Vec::new();
    for value in named {
        let (process, thread) = ctx.thread(value)?;
        processes.push(process.id);
        let tid = thread.and_then(|it| it.thread).ok_or_else(mixed)?;
        tids.push(tid.pid.0);
    }
    if processes.iter().any(|id| *id != processes[0]) {
        return Err(mixed());
    }
    let process = ctx.number(processes[0]);
    ctx.act_on(&Value::List(vec![process]), &act(tids), then)
}

fn mixed() -> Refusal {
    let text = "thread_list: expected threads of one process, or processes";
    Refusal::new(Status::RANGE, text)
}

/// The number of the stop of each process.
fn stop_numbers(ctx: &mut CallContext<'_>, report: ActionReport) -> Result<CallResult, Refusal> {
    let numbers = report.by_process.iter().filter_map(|(_, result)| result.as_ref().ok());
    let numbers: Vec<Value> = numbers.flatten().cloned().collect();
    let n_served = numbers.len();
    let mut failed = report.failed;
    for (id, result) in report.by_process {
        if let Err(why) = result {
            failed.push((ctx.number(id), why));
        }
    }
    Ok(ctx.list_values([Value::List(numbers)], (&failed, n_served)))
}

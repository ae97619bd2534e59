//! What happens to a thread by itself: `before_signal`, `before_syscall`, `after_syscall`,
//! `after_exec`.
//!
//! The thread is held until the actions have been executed, or for two seconds, as at a breakpoint.

use super::run_control::{THREAD_EVENT, TID_RESULT, run_control};
use crate::process::stop::SIGNALS;
use crate::spec::{self, ErrorSpec, error, number, param};
use crate::{CallContext, Handler, ResultSpec, ServiceSpec};
use monitor_event::{CallEnd, Catch, EventFilter, Refusal, RunControl};
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use std::ops::RangeInclusive;

/// Numbers of system calls; those of x32 have a bit above these.
const CALLS: RangeInclusive<i32> = 0..=4095;
const TID_LIST: Param = param("tid_list", ParamType::Many(&ParamType::Process));
const NUMBER_LIST: Param = param("number_list", ParamType::Many(&ParamType::Integer));
const NUMBER_RESULT: ResultSpec = ResultSpec::new("number", "integer");

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "before_signal",
        params: &[
            param("tid_list", ParamType::Many(&ParamType::Process)),
            param("sig_list", ParamType::Many(&ParamType::Integer)),
        ],
        results: &[TID_RESULT, ResultSpec::new("sig", "integer")],
        help: "Occurs when a thread of one of the processes is about to take one of the signals, \
               ignored ones included; an empty list of signals matches all. The thread is held \
               before that, and `set_signal` may change what it takes. SIGKILL is not seen. An \
               extension.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] before_signal([7],[10]): 11 [0] print([$1,$2])\n\
                     < 10 [0] before_signal(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,10])",
        ],
        errors: &[error(
            Status::RANGE,
            "a number that is no signal, 1 to 64",
            "process 7\nattach 7\n> 10 [0] before_signal([7],[65]): 11 [0] print(1)",
        )],
        handler: Handler::Event(before_signal),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "before_syscall",
        params: &[TID_LIST, NUMBER_LIST],
        results: &[TID_RESULT, NUMBER_RESULT],
        help: "Occurs when a thread of one of the processes is about to begin one of the system \
               calls; an empty list of numbers matches all. The thread is held before that: its \
               registers have the number and the arguments, and `goto` cancels the call. \
               Enabling it interrupts the running threads once, and each system call of the \
               processes stops its thread twice meanwhile. A system call that a `step` executes is \
               not seen. An extension.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] before_syscall([7],[2]): 11 [0] print([$1,$2])\n\
                     < 10 [0] before_syscall(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,2])",
        ],
        errors: &[NO_CALL],
        handler: Handler::Event(|ctx, args| system_call(ctx, args, CallEnd::Begin)),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "after_syscall",
        params: &[TID_LIST, NUMBER_LIST],
        results: &[TID_RESULT, NUMBER_RESULT, ResultSpec::new("result", "integer")],
        help: "Occurs when one of the system calls has returned in a thread of one of the \
               processes, before the next instruction; an empty list of numbers matches all. `$3` \
               is what it has returned, as the kernel has it: an error is a negative number, and \
               one that is made again is -512 to -516. The costs are those of `before_syscall`. An \
               extension.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] after_syscall([7],[2]): 11 [0] print([$1,$2,$3])\n\
                     < 10 [0] after_syscall(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7,2,7])",
        ],
        errors: &[ErrorSpec {
            case: "process 7\nattach 7\n> 10 [0] after_syscall([7],[-1]): 11 [0] print(1)",
            ..NO_CALL
        }],
        handler: Handler::Event(|ctx, args| system_call(ctx, args, CallEnd::Return)),
        ..THREAD_EVENT
    },
    ServiceSpec {
        name: "after_exec",
        params: &[TID_LIST],
        help: "Occurs when one of the processes has executed another program, before its first \
               instruction. Its other threads, its breakpoints and commands to its threads are \
               gone. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] after_exec([7]): 11 [0] print([$1])\n\
                     < 10 [0] after_exec(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7])"],
        handler: Handler::Event(|ctx, args| {
            let [list] = spec::params(args);
            run_control(ctx, list, RunControl::Catch(Catch::Exec))
        }),
        ..THREAD_EVENT
    },
];

/// The failure of an event of system calls.
const NO_CALL: ErrorSpec = error(
    Status::RANGE,
    "a number that no system call has, 0 to 4095",
    "process 7\nattach 7\n> 10 [0] before_syscall([7],[4096]): 11 [0] print(1)",
);

fn before_signal(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, signals] = spec::params(args);
    let signals = numbers(signals, "signal", SIGNALS)?;
    run_control(ctx, list, RunControl::Catch(Catch::Signals(signals)))
}

fn system_call(
    ctx: &mut CallContext<'_>,
    args: &[Value],
    end: CallEnd,
) -> Result<EventFilter, Refusal> {
    let [list, calls] = spec::params(args);
    let calls = numbers(calls, "system call", CALLS)?;
    let calls = calls.into_iter().map(i32::cast_unsigned).collect();
    run_control(ctx, list, RunControl::Catch(Catch::SystemCalls(end, calls)))
}

/// A list of numbers in a range.
fn numbers(list: &Value, what: &str, range: RangeInclusive<i32>) -> Result<Vec<i32>, Refusal> {
    let list = list.list().unwrap_or_default();
    list.iter().map(|it| number(it, what, range.clone())).collect()
}

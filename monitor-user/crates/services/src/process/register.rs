//! Registers of a thread: the named one; of a process, the main thread, or the one that an event
//! holds.
//!
//! Numbers are the DWARF numbers of the processor's psABI; docs/CONTROL.md lists those of x86-64.

use super::{CONTROLLED, THREAD, act_on_thread};
use crate::spec::{error, integer, param};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec, spec};
use monitor_event::Refusal;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use monitor_platform::ProcessAction;

const REG: Param = param("reg", ParamType::Integer);
const NUM: Param = param("num", ParamType::Integer);

/// The base of services about a thread.
const THREAD_SERVICE: ServiceSpec = ServiceSpec { level: ExecutionLevel::HoldThread, ..CONTROLLED };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "read_int_registers",
        aliases: &["read_int_regs"],
        params: &[THREAD, REG, NUM],
        results: &[ResultSpec::new("values", "integer*")],
        help: "Reads integer registers from number `reg` on. On x86-64: 0 to 16 rax, rdx, rcx, \
               rbx, rsi, rdi, rbp, rsp, r8 to r15, rip; 49 the flags, 50 to 55 the segments, 58 \
               and 59 the bases of fs and gs.",
        examples: &["process 7\nattach 7\n> 10 [0] read_int_regs(7,6,2)\n\
                     < 10 [0] read_int_regs(0,[6,7])"],
        errors: &[
            error(
                Status::RANGE,
                "a register number or a count that does not fit 16 bits",
                "process 7\nattach 7\n> 10 [0] read_int_registers(7,-1,1)",
            ),
            error(Status::BUSY, "another debugger traces the process", ""),
            error(Status::TIMEOUT, "its threads did not stop in time", ""),
        ],
        handler: Handler::Synchronous(|ctx, args| read(ctx, args, ProcessAction::Integers)),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "read_fp_registers",
        params: &[THREAD, REG, NUM],
        results: &[ResultSpec::new("values", "floating*")],
        help: "Reads floating point registers. On x86-64: 17 to 32 the low lanes of xmm0 to \
               xmm15, 33 to 40 st0 to st7.",
        examples: &["process 7\nattach 7\n> 10 [0] read_fp_registers(7,17,2)\n\
                     < 10 [0] read_fp_registers(0,[17.0,18.0])"],
        errors: &[
            error(
                Status::RANGE,
                "a register number or a count that does not fit 16 bits",
                "process 7\nattach 7\n> 10 [0] read_fp_registers(7,17,65536)",
            ),
            error(Status::BUSY, "another debugger traces the process", ""),
            error(Status::TIMEOUT, "its threads did not stop in time", ""),
        ],
        handler: Handler::Synchronous(|ctx, args| read(ctx, args, ProcessAction::Floats)),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "write_int_registers",
        params: &[THREAD, REG, param("values", ParamType::Some(&ParamType::Integer))],
        help: "Writes integer registers from number `reg` on. An interrupted system call is not \
               restarted when rax or rip is written.",
        examples: &["process 7\nattach 7\n> 10 [0] write_int_registers(7,3,[-1]); \
                     11 [0] read_int_registers(7,3,1)\n< 10 [0] write_int_registers(0); \
                     11 [0] read_int_registers(0,[18446744073709551615])"],
        errors: &[
            error(
                Status::UNSAFE_SITE,
                "the instruction pointer would not be at an instruction",
                "",
            ),
            error(
                Status::RANGE,
                "a register number or a count that does not fit 16 bits",
                "process 7\nattach 7\n> 10 [0] write_int_registers(7,65536,[1])",
            ),
            error(Status::BUSY, "another debugger traces the process", ""),
            error(Status::TIMEOUT, "its threads did not stop in time", ""),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            let first = integer(&args[1], "register")?;
            act_on_thread(ctx, &args[0], &ProcessAction::SetIntegers(first, words(&args[2])?))
        }),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "write_fp_registers",
        params: &[THREAD, REG, param("values", ParamType::Some(&ParamType::Float))],
        help: "Writes floating point registers from number `reg` on; other lanes are kept.",
        examples: &["process 7\nattach 7\n> 10 [0] write_fp_registers(7,17,[2.5]); \
                     11 [0] read_fp_registers(7,17,1)\n\
                     < 10 [0] write_fp_registers(0); 11 [0] read_fp_registers(0,[2.5])"],
        errors: &[
            error(
                Status::RANGE,
                "a register number or a count that does not fit 16 bits",
                "process 7\nattach 7\n> 10 [0] write_fp_registers(7,-1,[1.0])",
            ),
            error(Status::BUSY, "another debugger traces the process", ""),
            error(Status::TIMEOUT, "its threads did not stop in time", ""),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            let values = args[2].list().unwrap_or_default().iter().filter_map(Value::float);
            let act = ProcessAction::SetFloats(integer(&args[1], "register")?, values.collect());
            act_on_thread(ctx, &args[0], &act)
        }),
        ..THREAD_SERVICE
    },
    ServiceSpec {
        name: "goto",
        params: &[THREAD, param("addr", ParamType::Integer)],
        help: "Makes the thread continue at another address, at which an instruction of \
               the program begins. Its stack and other registers are kept; a system call that it \
               was in is abandoned.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] goto(7,4096); 11 [0] read_int_registers(7,16,1)\n\
                     < 10 [0] goto(0); 11 [0] read_int_registers(0,[4096])",
        ],
        errors: &[
            error(Status::UNSAFE_SITE, "the address is not code, or inside an instruction", ""),
            error(
                Status::RANGE,
                "an address that is negative or has more than 64 bits",
                "process 7\nattach 7\n> 10 [0] goto(7,-1)",
            ),
            error(Status::BUSY, "another debugger traces the process", ""),
            error(Status::TIMEOUT, "its threads did not stop in time", ""),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            act_on_thread(ctx, &args[0], &ProcessAction::Goto(integer(&args[1], "address")?))
        }),
        ..THREAD_SERVICE
    },
];

fn read(
    ctx: &mut CallContext<'_>,
    args: &[Value],
    act: fn(u16, u16) -> ProcessAction,
) -> Result<Outcome, Refusal> {
    let first = integer(&args[1], "register")?;
    act_on_thread(ctx, &args[0], &act(first, integer(&args[2], "number of registers")?))
}

fn words(values: &Value) -> Result<Vec<u64>, Refusal> {
    values.list().unwrap_or_default().iter().map(spec::word).collect()
}

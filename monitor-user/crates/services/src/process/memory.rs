//! The memory, the stack and the loaded object files of a process.

use super::{CONTROLLED, THREAD, TID, act_on_one, act_on_thread};
use crate::spec::{error, integer, param};
use crate::{ExecutionLevel, Handler, ResultSpec, ServiceSpec};
use monitor_control::FrameNames;
use monitor_event::Refusal;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use monitor_platform::ProcessAction;

/// Maximum number of bytes in a reply.
const MAX_BYTES: u64 = 1 << 20;
const NO_BYTES: &str = "bytes: found an empty list, expected at least one byte";
const ADDR: Param = param("addr", ParamType::Integer);

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "read_memory",
        params: &[TID, ADDR, param("num", ParamType::Integer)],
        results: &[ResultSpec::new("bytes", "integer*")],
        help: "Reads bytes while the process runs; stop it first for a consistent state. Where a \
               part is not mapped, the status is FAULT and the result has the bytes before it. \
               Bytes that the monitor has patched read as the original ones.",
        examples: &["process 7\nattach 7\n> 10 [0] read_memory(7,0x1002,3)\n\
                     < 10 [0] read_memory(0,[2,3,4])"],
        errors: &[
            error(
                Status::RANGE,
                "an address that is negative or has more than 64 bits, or more than 1 MiB",
                "process 7\nattach 7\n> 10 [0] read_memory(7,0,1048577)",
            ),
            error(Status::FAULT, "a part is not mapped; the bytes before it are the result", ""),
        ],
        handler: Handler::Synchronous(|ctx, args| {
            let address = integer(&args[1], "address")?;
            act_on_one(ctx, &args[0], &ProcessAction::Read(address, count(&args[2])?))
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "write_memory",
        params: &[TID, ADDR, param("bytes", ParamType::Bytes)],
        help: "Writes bytes, also where the program itself may only read and execute: it gets \
               its own copy of the page. Running threads may see a partial write.",
        examples: &["process 7\nattach 7\n> 10 [0] write_memory(7,0x1000,[9,9]); \
                     11 [0] read_memory(7,0x1000,3)\n\
                     < 10 [0] write_memory(0); 11 [0] read_memory(0,[9,9,2])"],
        errors: &[
            error(
                Status::RANGE,
                "an address that is negative or has more than 64 bits",
                "process 7\nattach 7\n> 10 [0] write_memory(7,-1,[1])",
            ),
            error(
                Status::RANGE,
                "no bytes: the list is empty",
                "process 7\nattach 7\n> 10 [0] write_memory(7,0x1000,[])",
            ),
            error(Status::FAULT, "a part is not mapped", ""),
        ],
        handler: Handler::Manipulation(|ctx, args| {
            let bytes = args[2].bytes().unwrap_or_default().into_owned();
            if bytes.is_empty() {
                return Err(Refusal::new(Status::RANGE, NO_BYTES));
            }
            let act = ProcessAction::Write(integer(&args[1], "address")?, bytes);
            act_on_one(ctx, &args[0], &act)
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "stack_backtrace",
        params: &[THREAD],
        results: &[ResultSpec::new("frames", "{integer pc; integer fp}*")],
        level: ExecutionLevel::HoldThread,
        help: "Returns the call stack, innermost frame first, of a thread, or of the main \
               thread of a process. `fp` is the canonical frame address: the stack \
               pointer before the call.",
        examples: &["process 7\nattach 7\n> 10 [0] stack_backtrace(7)\n\
                     < 10 [0] stack_backtrace(0,[4096,8192,4160,8224])"],
        errors: &[
            error(Status::BUSY, "another debugger traces the process", ""),
            error(Status::TIMEOUT, "its threads did not stop in time", ""),
        ],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_thread(ctx, &args[0], &ProcessAction::Backtrace(FrameNames::Without))
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "stack_names",
        params: &[THREAD],
        results: &[ResultSpec::new("frames", "{integer pc; integer fp; string name}*")],
        level: ExecutionLevel::HoldThread,
        help: "Like `stack_backtrace`, with the names of the procedures, empty where the file \
               has none. An extension.",
        examples: &["process 7\nattach 7\n> 10 [0] stack_names(7)\n\
                     < 10 [0] stack_names(0,[4096,8192,\"work\",4160,8224,\"main\"])"],
        errors: &[
            error(Status::BUSY, "another debugger traces the process", ""),
            error(Status::TIMEOUT, "its threads did not stop in time", ""),
        ],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_thread(ctx, &args[0], &ProcessAction::Backtrace(FrameNames::With))
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "loader_information",
        params: &[TID],
        results: &[ResultSpec::new(
            "objects",
            "{string path; string member; integer code, code_len, data, data_len, bss, \
                   bss_len}*",
        )],
        help: "Returns each object file of the process, with address and length of its code, \
               data and bss. `member` is always empty: no archive is mapped on Linux.",
        examples: &["process 7\nattach 7\n> 10 [0] loader_information(7)\n\
                     < 10 [0] loader_information(0,[\"/bin/a\",\"\",4096,256,8192,64,8256,32])"],
        handler: Handler::Synchronous(|ctx, args| {
            act_on_one(ctx, &args[0], &ProcessAction::Loader)
        }),
        ..CONTROLLED
    },
];

fn count(value: &Value) -> Result<u64, Refusal> {
    let most = || Refusal::new(Status::RANGE, format!("{value} bytes: expected 0 to {MAX_BYTES}"));
    value.integer().filter(|count| *count <= MAX_BYTES).ok_or_else(most)
}

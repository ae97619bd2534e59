//! What is in a process: its memory, its stack, what the loader has put where.

use super::{CONTROLLED, TID, to_one};
use crate::ctx::Ctx;
use crate::outcome::Outcome;
use crate::row;
use crate::row::{Given, Level, Row, integer};
use monitor_control::Names;
use monitor_event::outcome::Refusal;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};
use monitor_platform::Act;

/// More elements than this no reply should hold.
const MOST: u64 = 1 << 20;
const ADDR: Param = Param { name: "addr", kind: Kind::Integer };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "read_memory",
        takes: &[TID, ADDR, Param { name: "num", kind: Kind::Integer }],
        gives: &[Given { name: "bytes", kind: "integer*" }],
        help: "Reads bytes while the process runs; whoever wants one state of it stops it first. \
               Where a part is not mapped, the status is FAULT and the result is what comes \
               before. Bytes that the monitor has put into the program are not told.",
        examples: &["process 7\nattach 7\n> 10 [0] read_memory(7,0x1002,3)\n\
                     < 10 [0] read_memory(0,[2,3,4])"],
        act: row::Act::Synchronous(|ctx, args| {
            let act = integer(&args[1], "address")
                .and_then(|address| Ok(Act::Read(address, count(&args[2])?)));
            to_one(ctx, &args[0], act)
        }),
        ..CONTROLLED
    },
    Row {
        name: "write_memory",
        takes: &[TID, ADDR, Param { name: "bytes", kind: Kind::Bytes }],
        help: "Writes bytes, also where the program itself may only read and execute: it gets \
               its own copy of the page. Threads that run may see a part of it first.",
        examples: &["process 7\nattach 7\n> 10 [0] write_memory(7,0x1000,[9,9]); \
                     11 [0] read_memory(7,0x1000,3)\n\
                     < 10 [0] write_memory(0); 11 [0] read_memory(0,[9,9,2])"],
        act: row::Act::Manipulation(|ctx, args| {
            let bytes = args[2].bytes().unwrap_or_default().into_owned();
            let act = integer(&args[1], "address").map(|address| Act::Write(address, bytes));
            to_one(ctx, &args[0], act)
        }),
        ..CONTROLLED
    },
    Row {
        name: "stack_backtrace",
        takes: &[TID],
        gives: &[Given { name: "frames", kind: "{integer pc; integer fp}*" }],
        level: Level::HoldThread,
        help: "Who called whom, innermost first, in the first thread, or in the one that an event \
               holds. `fp` is the canonical frame address: the stack pointer before the call.",
        examples: &["process 7\nattach 7\n> 10 [0] stack_backtrace(7)\n\
                     < 10 [0] stack_backtrace(0,[4096,8192,4160,8224])"],
        act: row::Act::Synchronous(|ctx, args| {
            to_one(ctx, &args[0], Ok(Act::Backtrace(Names::Without)))
        }),
        ..CONTROLLED
    },
    Row {
        name: "stack_names",
        takes: &[TID],
        gives: &[Given { name: "frames", kind: "{integer pc; integer fp; string name}*" }],
        level: Level::HoldThread,
        help: "The same with the names of the procedures, empty where the file tells none. An \
               extension.",
        examples: &["process 7\nattach 7\n> 10 [0] stack_names(7)\n\
                     < 10 [0] stack_names(0,[4096,8192,\"work\",4160,8224,\"main\"])"],
        act: row::Act::Synchronous(stack_names),
        ..CONTROLLED
    },
    Row {
        name: "loader_information",
        takes: &[TID],
        gives: &[Given {
            name: "objects",
            kind: "{string path; string member; integer code, code_len, data, data_len, bss, \
                   bss_len}*",
        }],
        help: "Each object file of the process, and where its code, data and bss are: address and \
               length. `member` is always empty: no archive is mapped on Linux.",
        examples: &["process 7\nattach 7\n> 10 [0] loader_information(7)\n\
                     < 10 [0] loader_information(0,[\"/bin/a\",\"\",4096,256,8192,64,8256,32])"],
        act: row::Act::Synchronous(|ctx, args| to_one(ctx, &args[0], Ok(Act::Loader))),
        ..CONTROLLED
    },
];

fn stack_names(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    to_one(ctx, &args[0], Ok(Act::Backtrace(Names::With)))
}

fn count(value: &Value) -> Result<u64, Refusal> {
    let most = || Refusal::new(Status::RANGE, format!("{value} bytes: 0 to {MOST} at once"));
    value.integer().filter(|count| *count <= MOST).ok_or_else(most)
}

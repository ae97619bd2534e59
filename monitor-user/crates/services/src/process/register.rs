//! Registers of a thread: the first of the process, or the one that an event holds.
//!
//! Numbers are the DWARF numbers of the processor's psABI; docs/CONTROL.md lists those of x86-64.

use super::{CONTROLLED, TID, to_one};
use crate::ctx::Ctx;
use crate::outcome::Outcome;
use crate::row;
use crate::row::{Given, Level, Row, integer};
use monitor_event::outcome::Refusal;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};
use monitor_platform::Act;

const REG: Param = Param { name: "reg", kind: Kind::Integer };
const NUM: Param = Param { name: "num", kind: Kind::Integer };

/// What they have in common.
const OF_THREAD: Row = Row { level: Level::HoldThread, ..CONTROLLED };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "read_int_registers",
        aliases: &["read_int_regs"],
        takes: &[TID, REG, NUM],
        gives: &[Given { name: "values", kind: "integer*" }],
        help: "Reads integer registers from number `reg` on. On x86-64: 0 to 16 rax, rdx, rcx, \
               rbx, rsi, rdi, rbp, rsp, r8 to r15, rip; 49 the flags, 50 to 55 the segments, 58 \
               and 59 the bases of fs and gs.",
        examples: &["process 7\nattach 7\n> 10 [0] read_int_regs(7,6,2)\n\
                     < 10 [0] read_int_regs(0,[6,7])"],
        act: row::Act::Synchronous(|ctx, args| read(ctx, args, Act::Integers)),
        ..OF_THREAD
    },
    Row {
        name: "read_fp_registers",
        takes: &[TID, REG, NUM],
        gives: &[Given { name: "values", kind: "floating*" }],
        help: "Reads floating point registers. On x86-64: 17 to 32 the low lanes of xmm0 to \
               xmm15, 33 to 40 st0 to st7.",
        examples: &["process 7\nattach 7\n> 10 [0] read_fp_registers(7,17,2)\n\
                     < 10 [0] read_fp_registers(0,[17.0,18.0])"],
        act: row::Act::Synchronous(|ctx, args| read(ctx, args, Act::Floats)),
        ..OF_THREAD
    },
    Row {
        name: "write_int_registers",
        takes: &[TID, REG, Param { name: "values", kind: Kind::Some(&Kind::Integer) }],
        help: "Writes integer registers from number `reg` on. A system call that was interrupted \
               is not begun anew when rax or rip is written.",
        examples: &["process 7\nattach 7\n> 10 [0] write_int_registers(7,3,[-1]); \
                     11 [0] read_int_registers(7,3,1)\n< 10 [0] write_int_registers(0); \
                     11 [0] read_int_registers(0,[18446744073709551615])"],
        act: row::Act::Manipulation(|ctx, args| {
            let act = integer(&args[1], "register")
                .and_then(|first| Ok(Act::SetIntegers(first, words(&args[2])?)));
            to_one(ctx, &args[0], act)
        }),
        ..OF_THREAD
    },
    Row {
        name: "write_fp_registers",
        takes: &[TID, REG, Param { name: "values", kind: Kind::Some(&Kind::Float) }],
        help: "Writes floating point registers from number `reg` on; other lanes keep what they \
               have.",
        examples: &["process 7\nattach 7\n> 10 [0] write_fp_registers(7,17,[2.5]); \
                     11 [0] read_fp_registers(7,17,1)\n\
                     < 10 [0] write_fp_registers(0); 11 [0] read_fp_registers(0,[2.5])"],
        act: row::Act::Manipulation(|ctx, args| {
            let values = args[2].list().unwrap_or_default().iter().filter_map(Value::float);
            let values = values.collect();
            let act = integer(&args[1], "register").map(|first| Act::SetFloats(first, values));
            to_one(ctx, &args[0], act)
        }),
        ..OF_THREAD
    },
    Row {
        name: "goto",
        takes: &[TID, Param { name: "addr", kind: Kind::Integer }],
        help: "Lets the thread go on at another address, where code must be. Its stack and other \
               registers stay as they are; a system call that it was in is left.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] goto(7,4096); 11 [0] read_int_registers(7,16,1)\n\
                     < 10 [0] goto(0); 11 [0] read_int_registers(0,[4096])",
        ],
        act: row::Act::Manipulation(|ctx, args| {
            let act = integer(&args[1], "address").map(Act::Goto);
            to_one(ctx, &args[0], act)
        }),
        ..OF_THREAD
    },
];

fn read(ctx: &mut Ctx<'_>, args: &[Value], act: fn(u16, u16) -> Act) -> Outcome {
    let act = integer(&args[1], "register")
        .and_then(|first| Ok(act(first, integer(&args[2], "number of registers")?)));
    to_one(ctx, &args[0], act)
}

fn words(values: &Value) -> Result<Vec<u64>, Refusal> {
    values.list().unwrap_or_default().iter().map(row::word).collect()
}

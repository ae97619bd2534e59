//! What waits in a process: `queue_info`, and the buffer that it sends from: `message_buffer`.

use crate::ctx::Ctx;
use crate::row;
use crate::row::{Act, Flag, Given, Level, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::Right;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::text::Binary;
use monitor_omis::{Dialect, Status, Value};
use monitor_platform::queue::{Depth, Message, Queue};

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "queue_info",
        takes: &[
            Param { name: "tid", kind: Kind::Process },
            Param { name: "flags", kind: Kind::Integer },
        ],
        gives: &[
            Given { name: "queue_length", kind: "integer" },
            Given { name: "messages", kind: "{any...}*" },
        ],
        flags: FLAGS,
        right: Right::Control,
        level: Level::HoldProcess,
        help: "Tells what has arrived in a process and was not received: the queue of PVM 3.4, \
               the unexpected messages of Open MPI 4 (with its own matching, pml/ob1), or the \
               queue of System V or POSIX that the process reads. Of a queue of POSIX only the \
               length can be told, and of MPICH nothing. What is still in a socket, or with a \
               daemon of the library, has not arrived.",
        examples: &[
            "process 7\nattach 7\nmessage 7 sender=262146 tag=100 content=abcd\n\
                     message 7 sender=262146 tag=101 content=x\n> 10 [0] queue_info(7,7)\n\
                     < 10 [0] queue_info(0,2,[262146,100,4,262146,101,1])\n\
                     > 11 [0] queue_info(7,10)\n\
                     < 11 [0] queue_info(0,2,[100,#4:61626364,101,#1:78])",
            "process 7\nattach 7\nmessage 7 tag=100\nmessage 7 tag=101 mark=5\n\
             > 10 [0] queue_info(7,18)\n< 10 [0] queue_info(0,2,[100,0,0,101,1,5])",
        ],
        act: Act::Synchronous(|ctx, args| queue_info(ctx, args).into()),
        ..Row::BLANK
    },
    Row {
        name: "message_buffer",
        takes: &[Param { name: "tid", kind: Kind::Process }],
        gives: &[
            Given { name: "address", kind: "integer" },
            Given { name: "size", kind: "integer" },
        ],
        right: Right::Control,
        level: Level::HoldProcess,
        help: "Tells where the message is that a process of PVM is packing, and how long it is so \
               far. It may be in several pieces: the address is that of the first.",
        examples: &["process 7\nattach 7\n> 10 [0] message_buffer(7)\n\
                     < 10 [0] message_buffer(402,0,\"no message to send: the script has none\")"],
        act: Act::Synchronous(|ctx, args| message_buffer(ctx, args).into()),
        ..Row::BLANK
    },
];

/// Which bit asks for the contents.
const CONTENTS: u8 = 3;
const TAGGED: u8 = 4;

const FLAGS: &[Flag] = &[
    Flag::new(
        0,
        "sender",
        "integer",
        "as the library numbers it: task of PVM, rank; -1 if unknown",
    ),
    Flag::new(1, "msgtag", "integer", "the tag; of System V the type"),
    Flag::new(2, "size", "integer", "length in bytes"),
    Flag::new(CONTENTS, "contents", "integer*", "the bytes, as many as are there; at most 1 MiB"),
    Flag::new(TAGGED, "tagged_by_monitor", "integer, integer", TAGGED_HELP),
];

const TAGGED_HELP: &str = "1 and what `tag_message` has put on it, or 0 and 0";

fn queue_info(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let [named, flags] = args else { unreachable!("the row takes two parameters") };
    let flags = row::flags(Some(flags), FLAGS)?;
    let process = ctx.process(named)?;
    let depth = if flags >> CONTENTS & 1 == 1 { Depth::Contents } else { Depth::Heads };
    let messages = match ctx.ground.queue(process.id, depth)? {
        Queue::Messages(messages) => messages,
        Queue::Length(length) if flags == 0 => {
            return Ok(Done::with(vec![Value::from(length), Value::List(Vec::new())]));
        }
        Queue::Length(length) => {
            let text = format!(
                "{length} messages wait in its queue of POSIX, and to read one would be to take \
                 it; ask with flags 0 for their number"
            );
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        }
    };
    let length = u64::try_from(messages.len()).unwrap_or(u64::MAX);
    let dialect = ctx.session.dialect;
    let wanted = FLAGS.iter().filter(|flag| flags >> flag.bit & 1 == 1);
    let told =
        messages.iter().flat_map(|it| wanted.clone().flat_map(|flag| told(it, flag.bit, dialect)));
    Ok(Done::with(vec![Value::from(length), Value::List(told.collect())]))
}

fn told(it: &Message, bit: u8, dialect: Dialect) -> Vec<Value> {
    let is_marked = u8::from(it.mark.is_some());
    let told = match bit {
        TAGGED => return vec![is_marked.into(), it.mark.unwrap_or(0).into()],
        0 => Value::from(it.sender.unwrap_or(-1)),
        1 => Value::from(it.tag),
        2 => Value::from(it.bytes),
        _ => match dialect {
            Dialect::Extended => Value::Binary(Binary::from(it.content.clone())),
            Dialect::Strict => {
                Value::List(it.content.iter().map(|byte| Value::from(*byte)).collect())
            }
        },
    };
    vec![told]
}

fn message_buffer(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let process = ctx.process(&args[0])?;
    let (address, size) = ctx.ground.send_buffer(process.id)?;
    Ok(Done::with(vec![Value::from(address), Value::from(size)]))
}

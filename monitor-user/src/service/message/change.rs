//! Messages put into a queue and taken out: `insert_message`, `remove_message`.

use crate::omis::kind::{Kind, Param};
use crate::omis::{Status, Value};
use crate::probe::queue::{Depth, Queue};
use crate::service::ctx::Ctx;
use crate::service::outcome::{Done, Refusal};
use crate::service::row::{self, Act, Level, Right, Row};

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "insert_message",
        takes: &[
            Param { name: "tid", kind: Kind::Process },
            Param { name: "msg", kind: Kind::Bytes },
            Param { name: "pos", kind: Kind::Integer },
        ],
        right: Right::Control,
        level: Level::HoldProcess,
        help: "Puts a message into the queue of a process. The kernel takes messages at the end \
               only, so `pos` is -1 or the length of the queue. It is done for queues of System V; \
               the message has type 1. PVM and MPI keep their queues in the memory of the process, \
               where nothing is changed from outside.",
        examples: &["process 7\nattach 7\nmessage 7 sender=1 tag=5 content=a\n\
                     > 10 [0] insert_message(7,[98,99],-1)\n< 10 [0] insert_message(0)\n\
                     > 11 [0] queue_info(7,6)\n< 11 [0] queue_info(0,2,[5,1,1,2])"],
        act: Act::Manipulation(|ctx, args| insert(ctx, args).into()),
        ..Row::BLANK
    },
    Row {
        name: "remove_message",
        takes: &[
            Param { name: "tid", kind: Kind::Process },
            Param { name: "pos", kind: Kind::Integer },
        ],
        right: Right::Control,
        level: Level::HoldProcess,
        help: "Takes the message at a position, from 0, out of the queue of a process, and drops \
               it. It is done for queues of System V, where it must be the first of its type.",
        examples: &["process 7\nattach 7\nmessage 7 sender=1 tag=5 content=a\n\
                     > 10 [0] remove_message(7,0)\n< 10 [0] remove_message(0)\n\
                     > 11 [0] queue_info(7,0)\n< 11 [0] queue_info(0,0,[])"],
        act: Act::Manipulation(|ctx, args| remove(ctx, args).into()),
        ..Row::BLANK
    },
];

/// What a number that is none is said not to be.
const POSITION: &str = "position; the first is 0";

fn insert(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let [named, content, position] = args else { unreachable!("the row takes three parameters") };
    let process = ctx.process(named)?;
    let position: i64 = row::integer(position, POSITION)?;
    let length = match ctx.ground.queue(process.id, Depth::Heads)? {
        Queue::Messages(messages) => i64::try_from(messages.len()).unwrap_or(i64::MAX),
        Queue::Length(length) => i64::try_from(length).unwrap_or(i64::MAX),
    };
    if position != -1 && position != length {
        let text = format!("a message goes to the end only, which is position {length} or -1");
        return Err(Refusal::new(Status::UNSUPPORTED, text));
    }
    ctx.ground.append(process.id, &content.bytes().unwrap_or_default())?;
    Ok(Done::ok())
}

fn remove(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let [named, position] = args else { unreachable!("the row takes two parameters") };
    let process = ctx.process(named)?;
    let position: usize = row::integer(position, POSITION)?;
    ctx.ground.remove(process.id, position)?;
    Ok(Done::ok())
}

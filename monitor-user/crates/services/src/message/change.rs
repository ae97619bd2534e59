//! Messages put into a queue and taken out: `insert_message`, `remove_message`.

use crate::ctx::Ctx;
use crate::outcome::{Outcome, outcome};
use crate::row;
use crate::row::{Act, Level, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::Right;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};
use monitor_platform as ground;
use monitor_platform::queue::Change;

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
        help: "Puts a message into the queue of a process, at position `pos`, from 0, or at the \
               end, which is -1. Of PVM 3.4 it is one of raw bytes with tag 0 from task 0, in the \
               context of the process; the process is made to call the library, so no thread of it \
               may be inside the library, as one that waits in `pvm_recv` is: then it is refused \
               with WRONG_STATE. Queues of the system get it at their end only, those of System V \
               with type 1, those of POSIX with priority 0: to take messages out and put them back \
               would lose them if the monitor were killed. Of Open MPI it is refused: its messages \
               are numbered by their senders. MPICH tells nothing of its queues.",
        examples: &["process 7\nattach 7\nmessage 7 sender=1 tag=5 content=a\n\
                     > 10 [0] insert_message(7,[98,99],0); 11 [0] insert_message(7,#1:63,-1)\n\
                     < 10 [0] insert_message(0); 11 [0] insert_message(0)\n\
                     > 12 [0] queue_info(7,6)\n< 12 [0] queue_info(0,3,[0,2,5,1,0,1])"],
        act: Act::Manipulation(|ctx, args| outcome(insert(ctx, args))),
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
               it. Of PVM 3.4 no thread may be inside the library, see `insert_message`. Of queues \
               of System V it must be the first of its type, of those of POSIX the first: the \
               kernel gives out no other. Of MPI it is refused.",
        examples: &["process 7\nattach 7\nmessage 7 sender=1 tag=5 content=a\n\
                     > 10 [0] remove_message(7,0)\n< 10 [0] remove_message(0)\n\
                     > 11 [0] queue_info(7,0)\n< 11 [0] queue_info(0,0,[])"],
        act: Act::Manipulation(|ctx, args| outcome(remove(ctx, args))),
        ..Row::BLANK
    },
];

/// What a number that is none is said not to be.
const POSITION: &str = "position; the first is 0";

fn insert(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [named, content, position] = args else { unreachable!("the row takes three parameters") };
    let process = ctx.process(named)?;
    let position = match row::integer::<i64>(position, POSITION)? {
        -1 => None,
        _ => Some(row::integer(position, POSITION)?),
    };
    let content = content.bytes().unwrap_or_default();
    let change = ctx.ground.insert(process.id, position, &content)?;
    Ok(changed(ctx, named, change))
}

fn remove(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [named, position] = args else { unreachable!("the row takes two parameters") };
    let process = ctx.process(named)?;
    let position: usize = row::integer(position, POSITION)?;
    let change = ctx.ground.remove(process.id, position)?;
    Ok(changed(ctx, named, change))
}

/// What the system has not done, the process is made to do.
pub(super) fn changed(ctx: &mut Ctx<'_>, named: &Value, change: Change) -> Outcome {
    match change {
        Change::Done => Done::ok().into(),
        Change::Work(work) => {
            let list = Value::List(vec![named.clone()]);
            ctx.act(&list, &ground::Act::Work(work), |ctx, report| ctx.acknowledge(report))
        }
    }
}

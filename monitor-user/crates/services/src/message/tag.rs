//! Messages that are marked on their way: `tag_message`, `tagged_message_recv`.

use super::change::changed;
use crate::ctx::Ctx;
use crate::event::call::{only_in, tapped};
use crate::outcome::{Outcome, outcome};
use crate::row;
use crate::row::{Act, Given, Level, Row};
use monitor_event::occurrence::{Predicate, EventKind, EventFilter};
use monitor_event::outcome::Refusal;
use monitor_event::right::Right;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};
use monitor_platform::call::RECEIPT;

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "tag_message",
        takes: &[
            Param { name: "tid", kind: Kind::Process },
            Param { name: "msg_ptr", kind: Kind::Integer },
            Param { name: "tag", kind: Kind::Integer },
        ],
        right: Right::Control,
        level: Level::HoldProcess,
        help: "Marks the message that a process of PVM 3.4 is packing; call it right before it is \
               sent, while the process stands. `msg_ptr` is where `message_buffer` finds it, or 0 \
               for whichever it is; `tag` is not 0. The mark lies in a field of the header that \
               only daemons use among themselves, goes with the message to other nodes, and \
               changes nothing of what the receiver reads. Each sending of the same buffer has it. \
               Of other libraries it is refused: no such field is in their messages.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] tag_message(7,0,5); 11 [0] tag_message(7,0,0)\n\
                     < 10 [0] tag_message(0); 11 [0] tag_message(105,0,\"0 is no mark: take one \
                     from -2147483648 to 2147483647, but for 0\")",
        ],
        act: Act::Manipulation(|ctx, args| outcome(tag(ctx, args))),
        ..Row::BLANK
    },
    Row {
        name: "tagged_message_recv",
        takes: &[
            Param { name: "tid_list", kind: Kind::Many(&Kind::Process) },
            Param { name: "monitor_tag", kind: Kind::Integer },
        ],
        gives: &[
            Given { name: "tid", kind: "integer" },
            Given { name: "sender", kind: "integer" },
            Given { name: "msgtag", kind: "integer" },
        ],
        right: Right::Control,
        level: Level::Kernel,
        help: "Occurs when one of the processes receives a message of PVM 3.4 that `tag_message` \
               has marked with this number and that arrived while the request was enabled. Of \
               other libraries it is refused, as `tag_message` is.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_setrbuf\n\
                     > 10 [0] tagged_message_recv([7],5): 11 [0] print([$1,$2,$3])\n\
                     < 10 [0] tagged_message_recv(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms received 7 262147 100 6\nat 2ms received 7 262147 101 5\n\
                     < 11 [0] print(0,[7,262147,101])"],
        act: Act::Event(received),
        ..Row::BLANK
    },
];

fn tag(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [named, buffer, mark] = args else { unreachable!("the row takes three parameters") };
    let process = ctx.process(named)?;
    let wrong = || {
        let text =
            format!("{mark} is no mark: take one from {} to {}, but for 0", i32::MIN, i32::MAX);
        Refusal::new(Status::RANGE, text)
    };
    let number: i32 = mark.integer().filter(|mark| *mark != 0).ok_or_else(wrong)?;
    let buffer: u64 = row::integer(buffer, "address")?;
    let change = ctx.ground.mark(process.id, buffer, number)?;
    Ok(changed(ctx, named, change))
}

fn received(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, mark] = args else { unreachable!("the row takes two parameters") };
    let check = Predicate::OneOf(3, vec![mark.clone()]);
    let tap = Tap { name: RECEIPT.to_owned(), edge: Edge::Start };
    tapped(ctx, list, &tap, EventKind::Received, Some(check))
        .map_err(|why| only_in("messages are marked in PVM 3.4 alone", why))
}

//! Threads that wait, run on, and change places on a processor.

use super::on;
use crate::ctx::Ctx;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::{EventKind, EventFilter, ProcessSelector};
use monitor_event::outcome::Refusal;
use monitor_event::right::Right;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};

const TID: Given = Given { name: "tid", kind: "integer" };
const TIDS: Param = Param { name: "tid_list", kind: Kind::Many(&Kind::Process) };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "process_blocked",
        takes: &[TIDS],
        gives: &[TID],
        right: Right::Observe,
        help: "Occurs when a thread of one of the processes gives up its processor to wait: for a \
               message, a lock, a disk, the clock. One that is preempted, stopped or ends does not \
               wait. A library that polls never waits.",
        examples: &["process 7\nattach 7\n> 10 [0] process_blocked([7]): 11 [0] print([$1])\n\
                     < 10 [0] process_blocked(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms block 7\n< 11 [0] print(0,[7])"],
        act: Act::Event(|ctx, args| on(ctx, &args[0], EventKind::Blocked, None)),
        ..Row::BLANK
    },
    Row {
        name: "process_unblocked",
        takes: &[TIDS],
        gives: &[TID],
        right: Right::Observe,
        help: "Occurs when a thread of one of the processes is woken and can run on. It may find \
               that it has to wait again.",
        examples: &["process 7\nattach 7\n> 10 [0] process_unblocked([]): 11 [0] print([$1])\n\
                     < 10 [0] process_unblocked(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms unblock 7\n< 11 [0] print(0,[7])"],
        act: Act::Event(|ctx, args| on(ctx, &args[0], EventKind::Unblocked, None)),
        ..Row::BLANK
    },
    Row {
        name: "scheduling",
        gives: &[
            Given { name: "old_tid", kind: "integer" },
            Given { name: "new_tid", kind: "integer" },
            Given { name: "cpu", kind: "integer" },
        ],
        right: Right::Observe,
        help: "Occurs when a processor goes from one thread to another, and one of the two is of \
               an attached process; -1 stands for any other. Two threads of one process give the \
               same number twice. `$3` is the processor, an extension.",
        examples: &["process 7\nprocess 8\nattach 7\n\
                     > 10 [0] scheduling(): 11 [0] print([$1,$2,$3])\n< 10 [0] scheduling(0)\n\
                     > 12 [0] enable(10)\n< 12 [0] enable(0)\nat 1ms switch 7 8 1\n\
                     < 11 [0] print(0,[7,-1,1])"],
        act: Act::Event(scheduling),
        ..Row::BLANK
    },
];

fn scheduling(_: &mut Ctx<'_>, _: &[Value]) -> Result<EventFilter, Refusal> {
    Ok(EventFilter { topic: EventKind::Scheduled, whose: ProcessSelector::Attached, check: None })
}

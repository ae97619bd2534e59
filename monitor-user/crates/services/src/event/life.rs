//! Processes that come and go.

use super::on;
use crate::ctx::Ctx;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::{EventKind, EventFilter, ProcessSelector};
use monitor_event::outcome::Refusal;
use monitor_event::right::Right;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};

const TID: Given = Given { name: "tid", kind: "integer" };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "new_process",
        gives: &[TID],
        right: Right::Observe,
        help: "Occurs when a process joins those that are attached: a child of one of them, or \
               one that an attachment by cgroup or command name is waiting for.",
        examples: &["process 7\nattach 7\n> 10 [0] new_process(): 11 [0] print([$1])\n\
                     < 10 [0] new_process(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 8 ppid=7\n< 11 [0] print(0,[8])"],
        act: Act::Event(new_process),
        ..Row::BLANK
    },
    Row {
        name: "process_terminated",
        takes: &[Param { name: "tid_list", kind: Kind::Many(&Kind::Process) }],
        gives: &[TID, Given { name: "code", kind: "integer" }],
        right: Right::Observe,
        help: "Occurs when one of the processes has ended. `$2` is its exit code, or 128 and the \
               number of the signal that ended it, and -1 where nobody knows; it is an extension.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] process_terminated([7]): 11 [0] print([$1,$2])\n\
                     < 10 [0] process_terminated(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms end 7 exit_code=3\n< 11 [0] print(0,[7,3])",
        ],
        act: Act::Event(|ctx, args| on(ctx, &args[0], EventKind::Ended, None)),
        ..Row::BLANK
    },
];

fn new_process(_: &mut Ctx<'_>, _: &[Value]) -> Result<EventFilter, Refusal> {
    Ok(EventFilter { topic: EventKind::Born, whose: ProcessSelector::Attached, check: None })
}

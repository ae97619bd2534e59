//! Processes that go to another node, and come from one.

use super::on;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::{Predicate, EventKind, EventFilter, ProcessSelector};
use monitor_event::right::Right;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::object::{Object, Objects};
use monitor_omis::{Token, Value};

const TIDS: &[Param] = &[Param { name: "tid_list", kind: Kind::Many(&Kind::Process) }];
const TID: Given = Given { name: "tid", kind: "integer" };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "ready_to_migrate",
        takes: TIDS,
        gives: &[TID, Given { name: "dest_node", kind: "integer" }],
        right: Right::Observe,
        help: "Occurs on the node that one of the processes is about to leave, when nothing is in \
               the way of that. It leaves when the actions are done: what a tool has in it is \
               best disabled there.",
        examples: &["nodes 2\ncriu 4.1\n1: criu 4.1\nprocess 7\nattach 7\n\
                     > 10 [0] ready_to_migrate([7]): 11 [0] print([$1,$2])\n\
                     < 10 [0] ready_to_migrate(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     > 13 [0] migrate_process(7,1)\n< 11 [0] print(0,[7,1])\n\
                     < 13 [0] migrate_process(0)"],
        act: Act::Event(|ctx, args| on(ctx, &args[0], EventKind::Leaving, None)),
        ..Row::BLANK
    },
    Row {
        name: "migration_finished",
        takes: TIDS,
        gives: &[TID, Given { name: "pid", kind: "integer" }],
        right: Right::Observe,
        help: "Occurs on the node that a process has come to, for the session that has moved it: \
               there it is attached. The list has the numbers that processes bear elsewhere; an \
               empty one stands for all. `$2` is its number in the system, an extension.",
        examples: &["nodes 2\ncriu 4.1\n1: criu 4.1\nprocess 7\nattach 7\n\
                     > 10 [1] migration_finished([7]): 11 [1] print([$1])\n\
                     < 10 [1] migration_finished(0)\n> 12 [1] enable(10)\n< 12 [1] enable(0)\n\
                     > 13 [0] migrate_process(7,1)\n< 13 [0] migrate_process(0)\n\
                     at 1ms 1: process 7 nice=1\n< 11 [1] print(0,[7])"],
        act: Act::Event(|_, args| Ok(finished(&args[0]))),
        ..Row::BLANK
    },
];

/// Those that come have no object here before.
fn finished(list: &Value) -> EventFilter {
    let number = |object| match object {
        Object::Token(Token { serial, .. }) => Value::from(serial),
        Object::Number(number) => Value::Integer(number),
    };
    let check = match Objects::from_value(list) {
        Some(Objects::Only(these)) => {
            Some(Predicate::OneOf(1, these.into_iter().map(number).collect()))
        }
        Some(Objects::All) | None => None,
    };
    EventFilter { topic: EventKind::Arrived, whose: ProcessSelector::Attached, check }
}

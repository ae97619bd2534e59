//! `ready_to_migrate` and `migration_finished`.

use super::process_filter;
use crate::{Handler, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{EventFilter, EventKind, Predicate, ProcessSelector, Right};
use monitor_omis::object::{Object, Objects};
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Token, Value};

const TIDS: &[Param] = &[param("tid_list", ParamType::Many(&ParamType::Process))];
const TID: ResultSpec = ResultSpec::new("tid", "integer");

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "ready_to_migrate",
        params: TIDS,
        results: &[TID, ResultSpec::new("dest_node", "integer")],
        right: Right::ObserveInFull,
        help: "Occurs on the node that one of the processes is about to leave, when it can \
               migrate. It leaves when the actions are done: they should disable the requests \
               that act on the process.",
        examples: &["nodes 2\ncriu 4.1\n1: criu 4.1\nprocess 7\nattach 7\n\
                     > 10 [0] ready_to_migrate([7]): 11 [0] print([$1,$2])\n\
                     < 10 [0] ready_to_migrate(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     > 13 [0] migrate_process(7,1)\n< 11 [0] print(0,[7,1])\n\
                     < 13 [0] migrate_process(0)"],
        handler: Handler::Event(|ctx, args| {
            process_filter(ctx, &args[0], EventKind::Migrating, None)
        }),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "migration_finished",
        params: TIDS,
        results: &[TID, ResultSpec::new("pid", "integer")],
        right: Right::Nothing,
        help: "Occurs on the node that a process has migrated to, for the session that moved it: \
               there it is attached. The list has the numbers of the processes on other nodes; \
               an empty list matches all. `$2` is its pid, an extension.",
        examples: &["nodes 2\ncriu 4.1\n1: criu 4.1\nprocess 7\nattach 7\n\
                     > 10 [1] migration_finished([7]): 11 [1] print([$1])\n\
                     < 10 [1] migration_finished(0)\n> 12 [1] enable(10)\n< 12 [1] enable(0)\n\
                     > 13 [0] migrate_process(7,1)\n< 13 [0] migrate_process(0)\n\
                     at 1ms 1: process 7 nice=1\n< 11 [1] print(0,[7])"],
        handler: Handler::Event(|_, args| Ok(finished(&args[0]))),
        ..ServiceSpec::BASE
    },
];

/// Processes that migrate here have no object here before.
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
    EventFilter {
        kind: EventKind::Migrated,
        processes: ProcessSelector::Attached,
        predicate: check,
    }
}

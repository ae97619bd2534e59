//! Events of migration. No process is moved, so a request that waits for one is refused.

use crate::omis::kind::{Kind, Param};
use crate::omis::{Status, Value};
use crate::service::ctx::Ctx;
use crate::service::desk::Watch;
use crate::service::outcome::Refusal;
use crate::service::row::{Act, Given, Right, Row};

const TIDS: &[Param] = &[Param { name: "tid_list", kind: Kind::Many(&Kind::Process) }];
const TID: Given = Given { name: "tid", kind: "integer" };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "ready_to_migrate",
        takes: TIDS,
        gives: &[TID, Given { name: "dest_node", kind: "integer" }],
        right: Right::Observe,
        help: "Would occur on the node that a process is about to leave. Refused, since no \
               process is moved: what is connected by sockets does not survive it.",
        examples: &["> 10 [0] ready_to_migrate([]): 11 [0] print($2)\n\
                     < 10 [0] ready_to_migrate(402,0,\"it would never occur: no process is moved, \
                     since its sockets would not survive it\")"],
        act: Act::Event(never),
        ..Row::BLANK
    },
    Row {
        name: "migration_finished",
        takes: TIDS,
        gives: &[TID],
        right: Right::Observe,
        help: "Would occur on the node that a process has come to. Refused, since no process is \
               moved.",
        examples: &["> 10 [0] migration_finished([]): 11 [0] print($1)\n\
                     < 10 [0] migration_finished(402,0,\"it would never occur: no process is \
                     moved, since its sockets would not survive it\")"],
        act: Act::Event(never),
        ..Row::BLANK
    },
];

fn never(_: &mut Ctx<'_>, _: &[Value]) -> Result<Watch, Refusal> {
    let why = "it would never occur: no process is moved, since its sockets would not survive it";
    Err(Refusal::new(Status::UNSUPPORTED, why))
}

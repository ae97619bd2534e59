//! Moving processes from node to node: refused, with what is missing.

use super::{CONTROLLED, TID};
use crate::omis::Status;
use crate::omis::kind::{Kind, Param};
use crate::service::outcome::{Done, Outcome, Refusal};
use crate::service::row::{self, Level, Row};

const ANYWHERE: Row = Row { level: Level::Anywhere, ..CONTROLLED };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "prepare_checkpoint",
        help: "Refused: messages that are on their way can be brought home only by the library \
               that sent them, and none of those that are known offers it to others.",
        examples: &["> 10 [0] prepare_checkpoint()\n< 10 [0] prepare_checkpoint(402,0,\
                     \"no message library lets others drain its connections\")"],
        act: row::Act::Manipulation(|_, _| {
            refused("no message library lets others drain its connections")
        }),
        ..ANYWHERE
    },
    Row {
        name: "migrate_process",
        takes: &[TID, Param { name: "node", kind: Kind::Node }],
        help: "Refused: CRIU is not asked yet, and without it no process can be moved.",
        examples: &["process 7\nattach 7\n> 10 [0] migrate_process(7,1)\n\
                     < 10 [0] migrate_process(402,0,\"no process is moved: CRIU is not asked \
                     yet\")"],
        act: row::Act::Manipulation(|_, _| refused("no process is moved: CRIU is not asked yet")),
        ..ANYWHERE
    },
];

fn refused(why: &str) -> Outcome {
    Done::from(Refusal::new(Status::UNSUPPORTED, why)).into()
}

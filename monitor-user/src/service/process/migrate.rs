//! Moving processes from node to node: refused, with what is missing.

use super::{CONTROLLED, TID};
use crate::omis::Status;
use crate::omis::kind::{Kind, Param};
use crate::service::outcome::{Done, Outcome, Refusal};
use crate::service::row::{self, Level, Row};
use std::path::Path;

const ANYWHERE: Row = Row { level: Level::Anywhere, ..CONTROLLED };
/// Where packages put it.
const PLACES: &[&str] = &["/usr/sbin/criu", "/usr/bin/criu", "/usr/local/sbin/criu"];

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
        help: "Refused: it needs CRIU 4.1 or newer on both nodes, a free process id on the other, \
               and no connection to anybody who stays. The refusal says whether CRIU is here.",
        act: row::Act::Manipulation(|_, _| match PLACES.iter().find(|it| Path::new(it).exists()) {
            Some(place) => refused(&format!("{place} is not asked by this version")),
            None => refused("it needs CRIU, which is not installed here"),
        }),
        ..ANYWHERE
    },
];

fn refused(why: &str) -> Outcome {
    Done::from(Refusal::new(Status::UNSUPPORTED, why)).into()
}

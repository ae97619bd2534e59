//! Dumping processes, and moving them from node to node: refused, with what is missing here.
//!
//! CRIU is asked each time: it may have been installed since, or the kernel be another one.

use super::{CONTROLLED, TID};
use crate::omis::kind::{Kind, Param};
use crate::omis::{Status, Value};
use crate::service::ctx::Ctx;
use crate::service::ground::Act;
use crate::service::outcome::{Done, Later, Outcome, Refusal, Report, Then};
use crate::service::row::{self, Level, Row};

const ANYWHERE: Row = Row { level: Level::Anywhere, ..CONTROLLED };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "prepare_checkpoint",
        help: "Refused, with what is missing on the node: CRIU, or what CRIU misses of the \
               kernel; or that messages on their way can be brought home only by the library \
               that sent them, and none of those that are known offers it to others.",
        examples: &["> 10 [0] prepare_checkpoint()\n< 10 [0] prepare_checkpoint(402,0,\
                     \"CRIU is not installed: the script has none\")"],
        act: row::Act::Manipulation(|ctx, _| asked(ctx, undrained)),
        ..ANYWHERE
    },
    Row {
        name: "migrate_process",
        takes: &[TID, Param { name: "node", kind: Kind::Node }],
        help: "Refused, with what is missing on the node: CRIU, or what CRIU misses of the \
               kernel; or that the sockets of the process would not survive it, that of its \
               message library among them.",
        examples: &["process 7\nattach 7\n> 10 [0] migrate_process(7,1)\n\
                     < 10 [0] migrate_process(402,0,\"CRIU is not installed: the script has \
                     none\")"],
        act: row::Act::Manipulation(|ctx, args| match ctx.process(&args[0]) {
            Ok(_) => asked(ctx, unmoved),
            Err(why) => Done::from(why).into(),
        }),
        ..ANYWHERE
    },
];

/// Asks CRIU first.
fn asked(ctx: &mut Ctx<'_>, then: Then) -> Outcome {
    match ctx.order(&Act::Checkpoint, &[]) {
        Some(each) => then(ctx, Report { each, failed: Vec::new() }).into(),
        None => Outcome::Later(Later { then, failed: Vec::new() }),
    }
}

fn undrained(_: &mut Ctx<'_>, report: Report) -> Done {
    refused(report, "messages on their way are lost: no library lets others drain its connections")
}

fn unmoved(_: &mut Ctx<'_>, report: Report) -> Done {
    refused(report, "no process is moved, since its sockets would not survive it")
}

/// What CRIU misses, or what is missing beside it.
fn refused(report: Report, otherwise: &str) -> Done {
    let answer = report.each.into_iter().next().map(|(_, answer)| answer);
    let why = match answer {
        Some(Err(why)) => why,
        Some(Ok(version)) => {
            let version = version.first().and_then(Value::text);
            let version = version.map(|it| it.to_str_lossy().into_owned()).unwrap_or_default();
            let text = format!("CRIU {version} works here, but {otherwise}");
            Refusal::new(Status::UNSUPPORTED, text)
        }
        None => Refusal::new(Status::INTERNAL, "nobody asked CRIU"),
    };
    why.into()
}

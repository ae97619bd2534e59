//! Starting programs.

use super::CONTROLLED;
use crate::omis::kind::{Kind, Param};
use crate::omis::{Dialect, Status, Value};
use crate::service::ctx::Ctx;
use crate::service::ground::Act;
use crate::service::ground::act::Program;
use crate::service::outcome::{Done, Later, Outcome, Refusal, Report};
use crate::service::row::{self, Given, Level, Row};
use crate::service::session::right::Reach;
use crate::service::session::scope::is_same;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

const EXEC: Param = Param { name: "exec", kind: Kind::Text };
const ARGV: Param = Param { name: "argv", kind: Kind::Many(&Kind::Text) };
const TID: Given = Given { name: "tid", kind: "integer" };
const ANYWHERE: Row = Row { level: Level::Anywhere, ..CONTROLLED };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "start",
        takes: &[EXEC, ARGV],
        gives: &[TID],
        help: "Starts a program with these arguments, its own name not among them, as the user \
               who asks, in `/`, with nothing to read and its output thrown away. It is attached. \
               Its number is an extension; it outlives the tool.",
        examples: &["> 10 [0] start(\"/bin/true\",[])\n< 10 [0] start(0,101)"],
        act: row::Act::Manipulation(|ctx, args| start(ctx, args, false)),
        ..ANYWHERE
    },
    Row {
        name: "start_stopped",
        takes: &[EXEC, ARGV],
        gives: &[TID],
        help: "The same, stopped by this tool before its first instruction. An extension.",
        examples: &["> 10 [0] start_stopped(\"/bin/cat\",[\"-\"]); 11 [0] process_info([],4)\n\
                     < 10 [0] start_stopped(0,101); 11 [0] process_info(0,1,[101,6])"],
        act: row::Act::Manipulation(|ctx, args| start(ctx, args, true)),
        ..ANYWHERE
    },
];

fn start(ctx: &mut Ctx<'_>, args: &[Value], stopped: bool) -> Outcome {
    let tool = ctx.session.tool;
    if tool.acts == Reach::Nobody {
        let text = format!("user {} is not granted \"control-own\" here; ask root", tool.uid);
        return Done::from(Refusal::new(Status::PERMISSION, text)).into();
    }
    let text = |value: &Value| value.text().map(|it| it.as_bytes().to_vec()).unwrap_or_default();
    let program = Program {
        path: OsStr::from_bytes(&text(&args[0])).into(),
        arguments: args[1].list().unwrap_or_default().iter().map(text).collect(),
        environment: None,
        folder: None,
        streams: [None, None, None],
        stopped,
    };
    match ctx.ground.act(ctx.ticket, &tool, &Act::Start(program), &[]) {
        Some(each) => started(ctx, Report { each, failed: Vec::new() }).into(),
        None => Outcome::Later(Later { then: started, failed: Vec::new() }),
    }
}

fn started(ctx: &mut Ctx<'_>, report: Report) -> Done {
    match report.each.into_iter().next() {
        Some((started, Ok(_))) => {
            // Whoever reads processes here may know its start more precisely.
            let seen = ctx.ground.look(&[started.pid]).unwrap_or_default().into_iter().next();
            let seen = seen.map(|it| it.id).filter(|id| is_same(*id, started));
            let id = seen.unwrap_or(started);
            ctx.session.attach(id);
            match ctx.session.dialect {
                Dialect::Extended => Done::with(vec![ctx.number(id)]),
                Dialect::Strict => Done::ok(),
            }
        }
        Some((_, Err(why))) => why.into(),
        None => Refusal::new(Status::INTERNAL, "nothing was started").into(),
    }
}

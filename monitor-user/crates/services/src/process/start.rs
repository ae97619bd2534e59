//! Starting programs, with what they are given besides arguments.

use super::CONTROLLED;
use crate::ctx::Ctx;
use crate::outcome::{Later, Outcome};
use crate::row;
use crate::row::{Given, Level, Row};
use monitor_control::Program;
use monitor_event::outcome::{Done, Refusal, Report};
use monitor_event::right::Reach;
use monitor_model::id::is_same;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Dialect, Status, Value};
use monitor_platform::Act;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

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
               who asks, in the folder, environment and streams of `start_options`. It is \
               attached. Its number is an extension; it outlives the tool.",
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
                     < 10 [0] start_stopped(0,101); 11 [0] process_info(0,1,[101,5])"],
        act: row::Act::Manipulation(|ctx, args| start(ctx, args, true)),
        ..ANYWHERE
    },
    Row {
        name: "start_options",
        takes: &[
            Param { name: "folder", kind: Kind::Text },
            Param { name: "environment", kind: Kind::Many(&Kind::Text) },
            Param { name: "streams", kind: Kind::Many(&Kind::Text) },
        ],
        help: "What programs have that this session starts on this node from now on: the folder, \
               or \"\" for `/`; all variables of the environment as \"NAME=VALUE\", or none for \
               that of the monitor's hand; the files for input, output and errors, or \"\" for \
               nothing to read and output thrown away. Files are opened as the user who asks; \
               output goes to their end. An extension: OMIS leaves these open.",
        examples: &["> 10 [0] start_options(\"/srv\",[\"A=b\"],[\"\",\"/srv/out\"])\n\
                     < 10 [0] start_options(0)\n> 11 [0] start_options(\"srv\",[],[])\n\
                     < 11 [0] start_options(105,0,\"\\\"srv\\\" is no whole path: it must begin \
                     with a slash\")\n> 12 [0] start_options(\"\",[\"A\"],[])\n\
                     < 12 [0] start_options(105,0,\"\\\"A\\\" is no variable: write \
                     \\\"NAME=VALUE\\\"\")"],
        act: row::Act::Manipulation(|ctx, args| options(ctx, args).into()),
        ..ANYWHERE
    },
];

/// What programs get that a session starts on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    folder: Option<PathBuf>,
    environment: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    streams: [Option<PathBuf>; 3],
}

fn options(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let [folder, environment, streams] = args else {
        unreachable!("the row takes three parameters")
    };
    let variables = environment.list().unwrap_or_default().iter().map(variable);
    let variables = variables.collect::<Result<Vec<_>, _>>()?;
    let names = streams.list().unwrap_or_default();
    let mut streams = [None, None, None];
    if names.len() > streams.len() {
        let text = format!("{} streams: there are input, output and errors", names.len());
        return Err(Refusal::new(Status::RANGE, text));
    }
    for (place, name) in streams.iter_mut().zip(names) {
        *place = whole(name)?;
    }
    ctx.session.start = Options {
        folder: whole(folder)?,
        environment: (!variables.is_empty()).then_some(variables),
        streams,
    };
    Ok(Done::ok())
}

/// A path from the root; none, if it is empty.
fn whole(value: &Value) -> Result<Option<PathBuf>, Refusal> {
    let text = bytes(value);
    match text.first() {
        None => Ok(None),
        Some(b'/') => Ok(Some(OsStr::from_bytes(&text).into())),
        Some(_) => {
            let text = format!("{value} is no whole path: it must begin with a slash");
            Err(Refusal::new(Status::RANGE, text))
        }
    }
}

fn variable(value: &Value) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let text = bytes(value);
    let equals = text.iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
    let equals = equals.ok_or_else(|| {
        let text = format!("{value} is no variable: write \"NAME=VALUE\"");
        Refusal::new(Status::RANGE, text)
    })?;
    Ok((text[..equals].to_vec(), text[equals + 1..].to_vec()))
}

fn bytes(value: &Value) -> Vec<u8> {
    value.text().map(|it| it.as_bytes().to_vec()).unwrap_or_default()
}

fn start(ctx: &mut Ctx<'_>, args: &[Value], stopped: bool) -> Outcome {
    if let Err(why) = may_start(ctx) {
        return Done::from(why).into();
    }
    let Options { folder, environment, streams } = ctx.session.start.clone();
    let program = Program {
        path: OsStr::from_bytes(&bytes(&args[0])).into(),
        arguments: args[1].list().unwrap_or_default().iter().map(bytes).collect(),
        environment,
        folder,
        streams,
        stopped,
    };
    match ctx.order(&Act::Start(program), &[]) {
        Some(each) => started(ctx, Report { each, failed: Vec::new() }).into(),
        None => Outcome::Later(Later { then: started, failed: Vec::new() }),
    }
}

/// Whether the caller may have processes of his own made.
pub(super) fn may_start(ctx: &Ctx<'_>) -> Result<(), Refusal> {
    let tool = ctx.session.tool;
    if tool.acts != Reach::Nobody {
        return Ok(());
    }
    let text = format!("user {} is not granted \"control-own\" here; ask root", tool.uid);
    Err(Refusal::new(Status::PERMISSION, text))
}

/// Who was started, or came, is attached.
pub(super) fn started(ctx: &mut Ctx<'_>, report: Report) -> Done {
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

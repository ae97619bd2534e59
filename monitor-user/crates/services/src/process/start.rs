//! `start`, `start_stopped`, `start_options`: programs with their arguments, environment and
//! streams.

use super::CONTROLLED;
use crate::spec::{error, param, params};
use crate::{
    CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec, session::StartOptions,
};
use monitor_control::LaunchSpec;
use monitor_event::{ActionReport, CallResult, Refusal};
use monitor_model::id::is_same;
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Dialect, Status, Value};
use monitor_platform::ProcessAction;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

const EXEC: Param = param("exec", ParamType::Text);
const ARGV: Param = param("argv", ParamType::Many(&ParamType::Text));
const TID: ResultSpec = ResultSpec::new("tid", "integer");
const ANYWHERE: ServiceSpec = ServiceSpec { level: ExecutionLevel::Anywhere, ..CONTROLLED };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "start",
        params: &[EXEC, ARGV],
        results: &[TID],
        help: "Starts a program with these arguments, its own name not among them, as the \
               calling user, in the folder, environment and streams of `start_options`. It is \
               attached. Its number is an extension; it outlives the tool.",
        examples: &["> 10 [0] start(\"/bin/true\",[])\n< 10 [0] start(0,101)"],
        handler: Handler::Manipulation(|ctx, args| start(ctx, args, false)),
        ..ANYWHERE
    },
    ServiceSpec {
        name: "start_stopped",
        params: &[EXEC, ARGV],
        results: &[TID],
        help: "Like `start`, stopped by this tool before its first instruction. An extension.",
        examples: &["> 10 [0] start_stopped(\"/bin/cat\",[\"-\"]); 11 [0] process_info([],4)\n\
                     < 10 [0] start_stopped(0,101); 11 [0] process_info(0,1,[101,5])"],
        handler: Handler::Manipulation(|ctx, args| start(ctx, args, true)),
        ..ANYWHERE
    },
    ServiceSpec {
        name: "start_options",
        params: &[
            param("folder", ParamType::Text),
            param("environment", ParamType::Many(&ParamType::Text)),
            param("streams", ParamType::Many(&ParamType::Text)),
        ],
        help: "Sets the options of programs that this session starts on this node from now on: \
               the folder, or \"\" for `/`; all variables of the environment as \"NAME=VALUE\", \
               or none for that of the user worker; the files for input, output and errors, or \
               \"\" for /dev/null. Files are opened as the calling user; output is appended. An \
               extension: OMIS leaves these open.",
        examples: &["> 10 [0] start_options(\"/srv\",[\"A=b\"],[\"\",\"/srv/out\"])\n\
                     < 10 [0] start_options(0)\n> 11 [0] start_options(\"srv\",[],[])\n\
                     < 11 [0] start_options(105,0,\"path \\\"srv\\\": expected an absolute \
                     path\")\n> 12 [0] start_options(\"\",[\"A\"],[])\n\
                     < 12 [0] start_options(105,0,\"variable \\\"A\\\": expected \
                     \\\"NAME=VALUE\\\"\")"],
        errors: &[error(
            Status::RANGE,
            "a path that is not absolute, or a variable without `=`",
            "> 10 [0] start_options(\"srv\",[],[])",
        )],
        handler: Handler::Manipulation(options),
        ..ANYWHERE
    },
];

fn options(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [folder, environment, streams] = params(args);
    let variables = environment.list().unwrap_or_default().iter().map(variable);
    let variables = variables.collect::<Result<Vec<_>, _>>()?;
    let names = streams.list().unwrap_or_default();
    let mut streams = [None, None, None];
    if names.len() > streams.len() {
        let text = format!("{} streams: expected at most 3: input, output and errors", names.len());
        return Err(Refusal::new(Status::RANGE, text));
    }
    for (place, name) in streams.iter_mut().zip(names) {
        *place = absolute_path(name)?;
    }
    ctx.session.start_options = StartOptions {
        folder: absolute_path(folder)?,
        environment: (!variables.is_empty()).then_some(variables),
        streams,
    };
    Ok(CallResult::ok().into())
}

/// An absolute path; `None` if it is empty.
fn absolute_path(value: &Value) -> Result<Option<PathBuf>, Refusal> {
    let text = bytes(value);
    match text.first() {
        None => Ok(None),
        Some(b'/') => Ok(Some(OsStr::from_bytes(&text).into())),
        Some(_) => {
            let text = format!("path {value}: expected an absolute path");
            Err(Refusal::new(Status::RANGE, text))
        }
    }
}

fn variable(value: &Value) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let text = bytes(value);
    let equals = text.iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
    let equals = equals.ok_or_else(|| {
        let text = format!("variable {value}: expected \"NAME=VALUE\"");
        Refusal::new(Status::RANGE, text)
    })?;
    Ok((text[..equals].to_vec(), text[equals + 1..].to_vec()))
}

/// The bytes of a text.
pub fn bytes(value: &Value) -> Vec<u8> {
    value.text().map(|it| it.as_bytes().to_vec()).unwrap_or_default()
}

fn start(ctx: &mut CallContext<'_>, args: &[Value], stopped: bool) -> Result<Outcome, Refusal> {
    ctx.session.tool.may_start()?;
    let arguments = args[1].list().unwrap_or_default().iter().map(bytes).collect();
    let program = launch_spec(ctx, OsStr::from_bytes(&bytes(&args[0])), arguments);
    let program = LaunchSpec { stopped, ..program };
    ctx.act_on_none(&ProcessAction::Start(program), attach_started)
}

/// A program with these arguments, and the options of the session.
pub fn launch_spec(ctx: &CallContext<'_>, path: &OsStr, arguments: Vec<Vec<u8>>) -> LaunchSpec {
    let StartOptions { folder, environment, streams } = ctx.session.start_options.clone();
    LaunchSpec { path: path.into(), arguments, environment, folder, streams, stopped: false }
}

/// Attaches a process that was started or restored.
pub fn attach_started(
    ctx: &mut CallContext<'_>,
    report: ActionReport,
) -> Result<CallResult, Refusal> {
    match report.by_process.into_iter().next() {
        Some((started, Ok(_))) => {
            // The backend may know its start time more precisely.
            let seen =
                ctx.platform.read_processes(&[started.pid]).unwrap_or_default().into_iter().next();
            let seen = seen.map(|it| it.id).filter(|id| is_same(*id, started));
            let id = seen.unwrap_or(started);
            ctx.session.attach(id);
            Ok(match ctx.session.dialect {
                Dialect::Extended => CallResult::with(vec![ctx.number(id)]),
                Dialect::Strict => CallResult::ok(),
            })
        }
        Some((_, Err(why))) => Err(why),
        None => Err(Refusal::new(Status::INTERNAL, "the action has no result")),
    }
}

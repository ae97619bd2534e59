//! `save_recording`: what the flight recorder kept, on demand or whenever an event occurs.

use super::ctx::Ctx;
use super::outcome::{Later, Outcome};
use super::row::{Act, Given, Row};
use monitor_event::outcome::{Done, Refusal, Report};
use monitor_model::id::Ns;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};
use monitor_sampling::veil::Veil;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const SECOND_NS: u64 = 1_000_000_000;

/// The services.
pub const ROWS: &[Row] = &[Row {
    name: "save_recording",
    takes: &[
        Param { name: "file", kind: Kind::Text },
        Param { name: "seconds", kind: Kind::Integer },
    ],
    gives: &[Given { name: "file", kind: "string" }],
    help: "Writes what the flight recorder of the service has kept of the last so many seconds, \
           of all if it is 0, into a file that is not there yet, and tells its name. Of a folder, \
           whose name ends with `/`, it is a new file in it each time. The file is written by the \
           user who asks, with his rights, and takes `observe-all`, since it has all processes. \
           As an action it keeps what led to the event; one that occurs again within a second is \
           answered `BUSY`. It is an extension.",
    examples: &["> 10 [0] save_recording(\"/var/tmp/r.mon\",60)\n\
                 < 10 [0] save_recording(0,\"/var/tmp/r.mon\")\n\
                 > 11 [0] save_recording(\"r.mon\",60)\n\
                 < 11 [0] save_recording(105,0,\"file r.mon: name it from / on\")"],
    act: Act::Synchronous(save_recording),
    ..Row::BLANK
}];

fn save_recording(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    match begun(ctx, args) {
        Ok(None) => Outcome::Later(Later { then: saved, failed: Vec::new() }),
        Ok(Some(report)) => saved(ctx, report).into(),
        Err(why) => Done::from(why).into(),
    }
}

fn begun(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Option<Report>, Refusal> {
    let tool = ctx.session.tool;
    if tool.sees != Veil::None {
        let text = "the flight recorder has all processes: it takes \"observe-all\"; ask root";
        return Err(Refusal::new(Status::PERMISSION, text));
    }
    let bytes = args[0].text().map(|it| it.as_bytes()).unwrap_or_default();
    let file = Path::new(OsStr::from_bytes(bytes));
    if !file.is_absolute() {
        let text = format!("file {}: name it from / on", file.display());
        return Err(Refusal::new(Status::RANGE, text));
    }
    let seconds = args[1].integer::<u64>().filter(|it| *it <= u64::MAX / SECOND_NS);
    let seconds = seconds.ok_or_else(|| Refusal::new(Status::RANGE, "seconds: from 0 on"))?;
    let last = (seconds > 0).then_some(Ns(seconds * SECOND_NS));
    let each = ctx.ground.save(ctx.ticket, &tool, (file, last))?;
    Ok(each.map(|each| Report { each, failed: Vec::new() }))
}

fn saved(_: &mut Ctx<'_>, report: Report) -> Done {
    match report.each.into_iter().next() {
        Some((_, Ok(values))) => Done::with(values),
        Some((_, Err(why))) => why.into(),
        None => Refusal::new(Status::INTERNAL, "nothing was begun").into(),
    }
}

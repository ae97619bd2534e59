//! `save_recording`: writes the flight recorder to a file, on request or when an event occurs.

use super::{CallContext, Handler, Outcome, PendingCall, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{ActionReport, CallResult, Refusal};
use monitor_model::Ns;
use monitor_omis::{Status, Value, param_type::ParamType};
use monitor_sampling::visibility::Visibility;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

const SECOND_NS: u64 = 1_000_000_000;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "save_recording",
    params: &[param("file", ParamType::Text), param("seconds", ParamType::Integer)],
    results: &[ResultSpec::new("file", "string")],
    help: "Writes what the flight recorder of the service has kept of the last `seconds` \
           seconds, of all if it is 0, into a new file, and returns the file's name. If the name \
           ends with `/`, it is a folder, and each call makes a new file in it. The file is \
           written as the calling user and with the user's rights; the service needs \
           `observe-all`, since the recorder has all processes. As an action it keeps what led \
           to the event; an event that occurs again within a second is answered with `BUSY`. An \
           extension.",
    examples: &["> 10 [0] save_recording(\"/var/tmp/r.mon\",60)\n\
                 < 10 [0] save_recording(0,\"/var/tmp/r.mon\")\n\
                 > 11 [0] save_recording(\"r.mon\",60)\n\
                 < 11 [0] save_recording(105,0,\"file r.mon: expected an absolute path\")"],
    handler: Handler::Synchronous(save_recording),
    ..ServiceSpec::BASE
}];

fn save_recording(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let tool = ctx.session.tool;
    if tool.visibility != Visibility::All {
        let text = "the flight recorder has all processes: this needs \"observe-all\"; ask root";
        return Err(Refusal::new(Status::PERMISSION, text));
    }
    let bytes = args[0].text().map(|it| it.as_bytes()).unwrap_or_default();
    let file = Path::new(OsStr::from_bytes(bytes));
    if !file.is_absolute() {
        let text = format!("file {}: expected an absolute path", file.display());
        return Err(Refusal::new(Status::RANGE, text));
    }
    let seconds = args[1].integer::<u64>().filter(|it| *it <= u64::MAX / SECOND_NS);
    let seconds =
        seconds.ok_or_else(|| Refusal::new(Status::RANGE, "seconds: expected 0 or more"))?;
    let last = (seconds > 0).then_some(Ns(seconds * SECOND_NS));
    let failed = Vec::new();
    Ok(match ctx.platform.save_recording(ctx.ticket, &tool, (file, last))? {
        None => Outcome::Pending(PendingCall { then: save_result, failed }),
        Some(by_process) => save_result(ctx, ActionReport { by_process, failed })?.into(),
    })
}

fn save_result(_: &mut CallContext<'_>, report: ActionReport) -> Result<CallResult, Refusal> {
    let none = || Refusal::new(Status::INTERNAL, "the action has no result");
    let (_, saved) = report.by_process.into_iter().next().ok_or_else(none)?;
    saved.map(CallResult::with)
}

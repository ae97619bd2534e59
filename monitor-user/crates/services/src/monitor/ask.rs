//! What the services of `mon_` say to the monitors of the node, and what they make of the answer.

use super::{heard, value};
use crate::ctx::Ctx;
use crate::outcome::{Later, Outcome, Then};
use monitor_event::occurrence::{Predicate, EventKind, EventFilter};
use monitor_event::outcome::{Done, Refusal, Report};
use monitor_event::right::SessionId;
use monitor_omis::{Status, Value};
use monitor_protocol::call::Call;
use monitor_protocol::params::Cancel;
use serde_json::{Map, Value as Json, json};

const SECOND_NS: f64 = 1e9;

/// One sample.
pub fn sample(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [part, fields, options] = args else { unreachable!("the row takes three parameters") };
    let call = request((part, fields, options), Vec::new())?;
    say(ctx, call, |_, report| shaped(report, &["sample", "notes"]))
}

/// A monitor, and its first sample.
pub fn start(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [name, part, fields, every, options] = args else {
        unreachable!("the row takes five parameters")
    };
    let call = request((part, fields, options), series(name, every)?)?;
    say(ctx, call, |_, report| shaped(report, &["id", "sample", "notes"]))
}

/// Somebody promises to beat.
pub fn heartbeat(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [name, every, options] = args else { unreachable!("the row takes three parameters") };
    let mut params = value::options(value::HEARTBEAT, options)?;
    spoken_for(ctx, &params)?;
    add(&mut params, series(name, every)?);
    say(ctx, call("heartbeat", params)?, |_, report| shaped(report, &["id"]))
}

/// The tool lives.
pub fn beat(ctx: &mut Ctx<'_>) -> Result<Outcome, Refusal> {
    at_home(ctx, "ask there")?;
    say(ctx, Call::Beat, |_, report| shaped(report, &[]))
}

/// A file should change.
pub fn file(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [name, path, every, options] = args else { unreachable!("the row takes four parameters") };
    let mut params = value::options(value::FILE, options)?;
    // Other bytes than those that were written would be another file.
    let path = path.text().and_then(|it| std::str::from_utf8(it.as_bytes()).ok());
    let path = path.ok_or_else(|| Refusal::new(Status::RANGE, "path: wanted UTF-8"))?;
    add(&mut params, series(name, every)?);
    add(&mut params, vec![("path", json!(path))]);
    say(ctx, call("file", params)?, |_, report| shaped(report, &["id"]))
}

/// A process is a rank of a parallel job.
pub fn register(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [namespace, rank, options] = args else { unreachable!("the row takes three parameters") };
    let mut params = value::options(value::REGISTER, options)?;
    spoken_for(ctx, &params)?;
    let Some(number) = rank.integer::<u32>() else {
        return Err(Refusal::new(Status::RANGE, format!("rank {rank}: wanted one from 0")));
    };
    let namespace = text(namespace).unwrap_or_default();
    add(&mut params, vec![("namespace", json!(namespace)), ("rank", json!(number))]);
    say(ctx, call("register", params)?, |_, report| shaped(report, &["namespace", "rank", "pid"]))
}

/// No more of a monitor, or of all.
pub fn cancel(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let call = Call::Cancel(Cancel { id: text(&args[0]), ..Cancel::default() });
    say(ctx, call, |_, report| shaped(report, &["cancelled"]))
}

/// The monitors that there are.
pub fn list(ctx: &mut Ctx<'_>) -> Result<Outcome, Refusal> {
    say(ctx, Call::List, listed)
}

fn listed(_: &mut Ctx<'_>, report: Report) -> Done {
    match answer(report) {
        Ok(all) => Done::with(vec![all]),
        Err(why) => why.into(),
    }
}

/// What a monitor tells.
pub fn watch(ctx: &Ctx<'_>, args: &[Value], topic: fn(SessionId) -> EventKind) -> EventFilter {
    let mut watch = EventFilter::all(topic(ctx.session.tool.session));
    watch.check = text(&args[0]).map(|_| Predicate::OneOf(0, vec![args[0].clone()]));
    watch
}

/// A name; nothing, if it is empty.
fn text(name: &Value) -> Option<String> {
    let name = name.text().map(|it| it.to_str_lossy().into_owned());
    name.filter(|name| !name.is_empty())
}

/// The call that these parameters mean. Which nodes are asked the request itself says.
fn request(
    (part, fields, options): (&Value, &Value, &Value),
    more: Vec<(&str, Json)>,
) -> Result<Call, Refusal> {
    let mut params = value::options(value::MONITOR, options)?;
    let names = fields.list().unwrap_or_default().iter().filter_map(Value::text);
    let names: Vec<_> = names.map(|it| it.to_str_lossy()).collect();
    let all = [("part", json!(text(part).unwrap_or_default())), ("local_only", json!(true))];
    let fields = (!names.is_empty()).then(|| ("fields", json!(names)));
    add(&mut params, all.into_iter().chain(fields).chain(more).collect());
    call("monitor", params)
}

/// What a series has besides: its name, if it is given one, and how often.
fn series(name: &Value, every: &Value) -> Result<Vec<(&'static str, Json)>, Refusal> {
    let ns = every.float().map(|seconds| seconds * SECOND_NS);
    let ns = ns.filter(|ns| *ns >= 1.0 && *ns < u64::MAX as f64).ok_or_else(|| {
        Refusal::new(Status::RANGE, format!("every {every}: wanted seconds, more than 0"))
    })?;
    let mut all = vec![("every_ns", json!(ns as u64))];
    all.extend(text(name).map(|name| ("id", json!(name))));
    Ok(all)
}

fn add(params: &mut Map<String, Json>, more: Vec<(&str, Json)>) {
    params.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
}

/// The call of this method with these parameters.
fn call(method: &str, params: Map<String, Json>) -> Result<Call, Refusal> {
    let line = json!({ "method": method, "params": params }).to_string();
    let read = Call::from_line(line.as_bytes());
    read.map(|(_, call)| call).map_err(|fault| {
        // The place is one in a line that nobody has written.
        let message = fault.message.rsplit_once(" at line ").map(|(what, _)| what.to_owned());
        heard::refusal(fault.code, message.unwrap_or(fault.message))
    })
}

/// Whether it is known for whom the tool speaks: a process that it names, or its own.
fn spoken_for(ctx: &Ctx<'_>, params: &Map<String, Json>) -> Result<(), Refusal> {
    match params.contains_key("pid") {
        true => Ok(()),
        false => at_home(ctx, "name one of this node, with \"pid\""),
    }
}

/// The process of a tool is on the node that the tool is connected to.
fn at_home(ctx: &Ctx<'_>, else_do: &str) -> Result<(), Refusal> {
    let home = ctx.session.tool.session.entry;
    if home == ctx.node.0 {
        return Ok(());
    }
    let text = format!("the process of the tool is on node {home}: {else_do}");
    Err(Refusal::new(Status::NO_SUCH_OBJECT, text))
}

/// Says it to the monitors of the node, in the name of the tool.
fn say(ctx: &mut Ctx<'_>, call: Call, then: Then) -> Result<Outcome, Refusal> {
    let tool = ctx.session.tool;
    Ok(match ctx.ground.monitors().call((ctx.ticket, ctx.now), &tool, call)? {
        Some(each) => then(ctx, Report { each, failed: Vec::new() }).into(),
        None => Outcome::Later(Later { then, failed: Vec::new() }),
    })
}

/// What was answered.
fn answer(report: Report) -> Result<Value, Refusal> {
    let first = report.each.into_iter().next().map(|(_, result)| result);
    let first = first.transpose()?.and_then(|values| values.into_iter().next());
    first.ok_or_else(|| Refusal::new(Status::INTERNAL, "nothing was answered"))
}

/// The answer's values of these names; a list of nothing for one that it does not have.
fn shaped(report: Report, names: &[&str]) -> Done {
    let answer = match answer(report) {
        Ok(answer) => answer,
        Err(why) => return why.into(),
    };
    let of = |name: &&str| value::pick(&answer, name).unwrap_or_else(|| Vec::new().into());
    let is_partial = value::pick(&answer, "status").as_ref().and_then(text);
    let is_partial = is_partial.as_deref() == Some("PARTIAL_SUCCESS");
    let status = if is_partial { Status::PARTIAL } else { Status::OK };
    Done { status, results: names.iter().map(of).collect(), reason: None }
}

//! The calls of `mon_` services to the monitors of the node, and the results of their replies.
//!
//! In: parameters of a service. Out: a call of docs/SOCKET.md, checked as one from the socket; its
//! reply becomes the result of the service.

use super::json_value;
use crate::{CallContext, Outcome, PendingCall, context::Completion, spec::params};
use monitor_event::{
    ActionReport, CallResult, EventFilter, EventKind, Predicate, Refusal, SessionId,
};
use monitor_omis::{Status, Value};
use monitor_protocol::{call::Call, params::Cancel};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

const SECOND_NS: f64 = 1e9;

/// Reads one sample.
pub fn sample(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [part, fields, options] = params(args);
    let call = request((part, fields, options), Vec::new())?;
    send(ctx, call, |_, report| from_reply(report, &["sample", "notes"]))
}

/// Starts a monitor, and returns its first sample.
pub fn start(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [name, part, fields, every, options] = params(args);
    let call = request((part, fields, options), series(name, every)?)?;
    send(ctx, call, |_, report| from_reply(report, &["id", "sample", "notes"]))
}

/// Starts a heartbeat watch.
pub fn heartbeat(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [name, every, options] = params(args);
    let mut params = json_value::options(json_value::HEARTBEAT, options)?;
    check_process_known(ctx, &params)?;
    add(&mut params, series(name, every)?);
    let call = Call::Heartbeat(typed("heartbeat", params)?);
    send(ctx, call, |_, report| from_reply(report, &["id"]))
}

/// Sends a heartbeat of the tool's process.
pub fn send_heartbeat(ctx: &mut CallContext<'_>) -> Result<Outcome, Refusal> {
    check_node(ctx, "send the request there")?;
    send(ctx, Call::SendHeartbeat, |_, report| from_reply(report, &[]))
}

/// Starts a file watch.
pub fn file(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [name, path, every, options] = params(args);
    let mut params = json_value::options(json_value::FILE, options)?;
    // A lossy conversion would name another file.
    let path = path.text().and_then(|it| std::str::from_utf8(it.as_bytes()).ok());
    let path = path.ok_or_else(|| Refusal::new(Status::RANGE, "path: expected UTF-8"))?;
    add(&mut params, series(name, every)?);
    add(&mut params, vec![("path", json!(path))]);
    let call = Call::File(typed("file", params)?);
    send(ctx, call, |_, report| from_reply(report, &["id"]))
}

/// Registers a process as a rank of a parallel job.
pub fn register(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [namespace, rank, options] = params(args);
    let mut params = json_value::options(json_value::REGISTER, options)?;
    check_process_known(ctx, &params)?;
    let Some(number) = rank.integer::<u32>() else {
        return Err(Refusal::new(Status::RANGE, format!("rank {rank}: expected 0 or more")));
    };
    let namespace = text(namespace).unwrap_or_default();
    add(&mut params, vec![("namespace", json!(namespace)), ("rank", json!(number))]);
    let call = Call::Register(typed("register", params)?);
    send(ctx, call, |_, report| from_reply(report, &["namespace", "rank", "pid"]))
}

/// Cancels a monitor, or all.
pub fn cancel(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let call = Call::Cancel(Cancel { id: text(&args[0]), ..Cancel::default() });
    send(ctx, call, |_, report| from_reply(report, &["cancelled"]))
}

/// Lists the monitors.
pub fn list(ctx: &mut CallContext<'_>) -> Result<Outcome, Refusal> {
    send(ctx, Call::List, |_, report| Ok(CallResult::with(vec![reply_value(report)?])))
}

/// The filter for events of a monitor.
pub fn filter(
    ctx: &CallContext<'_>,
    args: &[Value],
    kind: fn(SessionId) -> EventKind,
) -> EventFilter {
    let mut watch = EventFilter::all(kind(ctx.session.tool.session));
    watch.predicate = text(&args[0]).map(|_| Predicate::OneOf(0, vec![args[0].clone()]));
    watch
}

/// A name; `None` if it is empty.
fn text(name: &Value) -> Option<String> {
    let name = name.text().map(|it| it.to_str_lossy().into_owned());
    name.filter(|name| !name.is_empty())
}

/// The call `monitor` for these parameters, for this node: the request itself selects the nodes.
fn request(
    (part, fields, options): (&Value, &Value, &Value),
    more: Vec<(&str, Json)>,
) -> Result<Call, Refusal> {
    let mut params = json_value::options(json_value::MONITOR, options)?;
    let names = fields.list().unwrap_or_default().iter().filter_map(Value::text);
    let names: Vec<_> = names.map(|it| it.to_str_lossy()).collect();
    let all = [("part", json!(text(part).unwrap_or_default())), ("local_only", json!(true))];
    let fields = (!names.is_empty()).then(|| ("fields", json!(names)));
    add(&mut params, all.into_iter().chain(fields).chain(more).collect());
    Ok(Call::Monitor(typed("monitor", params)?))
}

/// The additional parameters of a series: its interval, and its name if it has one.
fn series(name: &Value, every: &Value) -> Result<Vec<(&'static str, Json)>, Refusal> {
    let ns = every.float().map(|seconds| seconds * SECOND_NS);
    let ns = ns.filter(|ns| *ns >= 1.0 && *ns < u64::MAX as f64).ok_or_else(|| {
        Refusal::new(Status::RANGE, format!("every {every}: expected seconds, more than 0"))
    })?;
    let mut all = vec![("every_ns", json!(ns as u64))];
    all.extend(text(name).map(|name| ("id", json!(name))));
    Ok(all)
}

fn add(params: &mut Map<String, Json>, more: Vec<(&str, Json)>) {
    params.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
}

/// The parameters of a call, checked as those of a client.
fn typed<T: DeserializeOwned>(method: &str, params: Map<String, Json>) -> Result<T, Refusal> {
    let read = serde_path_to_error::deserialize(Json::Object(params));
    read.map_err(|why| Refusal::new(Status::RANGE, format!("{method}: {why}")))
}

/// Checks that the process is known: the named one, or the tool's own on this node.
fn check_process_known(ctx: &CallContext<'_>, params: &Map<String, Json>) -> Result<(), Refusal> {
    match params.contains_key("pid") {
        true => Ok(()),
        false => check_node(ctx, "name a process of this node with \"pid\""),
    }
}

/// Checks that the process of the tool is on this node: that is the node it is connected to.
fn check_node(ctx: &CallContext<'_>, else_do: &str) -> Result<(), Refusal> {
    let home = ctx.session.tool.session.entry;
    if home == ctx.node.0 {
        return Ok(());
    }
    let text = format!("the process of the tool is on node {home}: {else_do}");
    Err(Refusal::new(Status::NO_SUCH_OBJECT, text))
}

/// Sends a call to the monitors of the node for the tool.
fn send(ctx: &mut CallContext<'_>, call: Call, then: Completion) -> Result<Outcome, Refusal> {
    let tool = ctx.session.tool;
    Ok(match ctx.platform.monitors().call((ctx.ticket, ctx.now), &tool, call)? {
        Some(each) => then(ctx, ActionReport { by_process: each, failed: Vec::new() })?.into(),
        None => Outcome::Pending(PendingCall { then, failed: Vec::new() }),
    })
}

/// The value of the reply.
fn reply_value(report: ActionReport) -> Result<Value, Refusal> {
    let first = report.by_process.into_iter().next().map(|(_, result)| result);
    let first = first.transpose()?.and_then(|values| values.into_iter().next());
    first.ok_or_else(|| Refusal::new(Status::INTERNAL, "the reply has no result"))
}

/// The values of these keys of the reply; an empty list for a missing one.
fn from_reply(report: ActionReport, names: &[&str]) -> Result<CallResult, Refusal> {
    let answer = reply_value(report)?;
    let of = |name: &&str| json_value::get(&answer, name).unwrap_or_else(|| Vec::new().into());
    let is_partial = json_value::get(&answer, "status").as_ref().and_then(text);
    let is_partial = is_partial.as_deref() == Some("PARTIAL_SUCCESS");
    let status = if is_partial { Status::PARTIAL } else { Status::OK };
    Ok(CallResult { status, results: names.iter().map(of).collect(), reason: None })
}

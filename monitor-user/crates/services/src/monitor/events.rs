//! Lines of the monitoring service for a tool, as platform events.
//!
//! In: lines of docs/SOCKET.md. Out: the result of a call, or an event. The request engine matches
//! them with pending calls and stored requests.

use super::json_value;
use monitor_event::{EventKind, EventParam, NodeEvent, Refusal, SessionId, Ticket};
use monitor_model::{Identity, Ns, status::Status as Said};
use monitor_omis::{Status, Value};
use monitor_platform::PlatformEvent;
use monitor_protocol::event::{Alert, Event};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct MonitorLine<'l> {
    id: Option<Ticket>,
    #[serde(borrow)]
    result: Option<&'l RawValue>,
    error: Option<LineError>,
    params: Option<Event>,
}

#[derive(Deserialize)]
struct LineError {
    code: i32,
    message: String,
}

/// The events in the lines for a session.
pub fn platform_events(session: SessionId, lines: &[u8]) -> Vec<PlatformEvent> {
    let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines
        .flat_map(|line| match serde_json::from_slice(line) {
            Ok(line) => events_of_line(session, line),
            Err(why) => {
                tracing::error!("malformed line from the monitoring service: {why}");
                Vec::new()
            }
        })
        .collect()
}

/// The result of the call with this ticket.
pub fn completed(ticket: Ticket, result: Result<Value, Refusal>) -> PlatformEvent {
    PlatformEvent::ActionDone(ticket, vec![(Identity::default(), result.map(|it| vec![it]))])
}

fn events_of_line(session: SessionId, line: MonitorLine<'_>) -> Vec<PlatformEvent> {
    match (line.id, line.params) {
        (Some(ticket), _) => {
            let result = match (line.result, line.error) {
                (Some(result), _) => json_value(result),
                (None, Some(fault)) => Err(refusal(fault.code, fault.message)),
                (None, None) => {
                    Err(refusal(Said::Error.number(), "the reply has no result".to_owned()))
                }
            };
            vec![completed(ticket, result)]
        }
        (None, Some(event)) => monitor_events(session, &event),
        (None, None) => Vec::new(),
    }
}

fn json_value(json: &RawValue) -> Result<Value, Refusal> {
    json_value::value(json.get()).map_err(|why| Refusal::new(Status::INTERNAL, why.to_string()))
}

/// The events of a line: a sample or an alert, and the end of the monitor.
fn monitor_events(session: SessionId, event: &Event) -> Vec<PlatformEvent> {
    let sample = event.sample.as_deref().and_then(|it| json_value(it).ok());
    let sampled = sample.map(|it| (EventKind::Sampled(session), sample_params(event, it)));
    let alerted =
        event.alert.as_ref().map(|it| (EventKind::Alerted(session), alert_params(event, it)));
    let ended = event.ended.map(|reason| {
        let message = event.message.as_deref().unwrap_or_default();
        let values = vec![event.id.as_str().into(), reason.name().into(), message.into()];
        (EventKind::MonitorEnded(session), values)
    });
    let occurred = |(kind, values): (EventKind, Vec<Value>)| {
        let params = values.into_iter().map(EventParam::Value).collect();
        PlatformEvent::Event(NodeEvent::new(kind, Ns(0), params))
    };
    [sampled, alerted, ended].into_iter().flatten().map(occurred).collect()
}

fn sample_params(event: &Event, sample: Value) -> Vec<Value> {
    let notes = event.notes.iter().map(|it| Value::from(it.as_str())).collect();
    vec![
        Value::from(event.id.as_str()),
        event.seq.into(),
        event.missed.into(),
        event.dropped.into(),
        sample,
        Value::List(notes),
    ]
}

/// The parameters of an alert; its kind is one of them, so that a request can filter by it.
fn alert_params(event: &Event, alert: &Alert) -> Vec<Value> {
    let all =
        json_value::from_serializable(alert).expect("names, numbers and texts serialize to JSON");
    let [_, kind, rest @ ..] = all.list().unwrap_or_default() else {
        unreachable!("an alert begins with its kind")
    };
    vec![
        Value::from(event.id.as_str()),
        event.seq.into(),
        event.code.unwrap_or_default().into(),
        kind.clone(),
        Value::List(rest.to_vec()),
    ]
}

/// A refusal with the OMIS status for an error code of the socket.
pub fn refusal(code: i32, message: String) -> Refusal {
    let status = match Said::from_number(code) {
        Some(Said::Success) => Status::OK,
        Some(Said::PartialSuccess) => Status::PARTIAL,
        Some(Said::Exists) => Status::EXISTS,
        Some(Said::NoPermissions) => Status::PERMISSION,
        Some(Said::Timeout) => Status::TIMEOUT,
        Some(Said::Unreach) => Status::NODE_DOWN,
        Some(Said::BadParam) => Status::RANGE,
        Some(Said::OutOfResource) => Status::RESOURCE,
        Some(Said::NotFound) => Status::NO_SUCH_OBJECT,
        Some(Said::NotSupported) => Status::UNSUPPORTED,
        Some(Said::NotAvailable) => Status::INTERRUPTED,
        Some(Said::Error) => Status::IO,
        None => Status::INTERNAL,
    };
    Refusal::new(status, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId { entry: 0, conn: 7 };

    #[test]
    fn a_reply_completes_its_call() {
        let got =
            platform_events(SESSION, b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":1}}\n");
        assert_eq!(got, [completed(3, Ok(Value::from(vec!["a".into(), 1.into()])))]);
        let line = br#"{"id":4,"error":{"code":-46,"message":"no process 9"}}"#;
        let why = Refusal::new(Status::NO_SUCH_OBJECT, "no process 9");
        assert_eq!(platform_events(SESSION, line), [completed(4, Err(why))]);
    }

    #[test]
    fn the_last_sample_is_a_sample_event_and_an_end_event() {
        let line = br#"{"method":"event","params":{"id":"x","seq":3,"missed":1,"dropped":2,
            "node":"n","time_unix_ns":5,"ended":"count","sample":{"processes":[]}}}"#;
        let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != b'\n').collect();
        let got = platform_events(SESSION, &line);
        let event = |kind, values: Vec<Value>| {
            let params = values.into_iter().map(EventParam::Value).collect();
            PlatformEvent::Event(NodeEvent::new(kind, Ns(0), params))
        };
        let sample = Value::from(vec!["processes".into(), Value::List(Vec::new())]);
        let (name, none) = (Value::from("x"), Value::List(Vec::new()));
        let values = vec![name.clone(), 3.into(), 1.into(), 2.into(), sample, none];
        let ended = vec![name, "count".into(), "".into()];
        let want = [
            event(EventKind::Sampled(SESSION), values),
            event(EventKind::MonitorEnded(SESSION), ended),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn an_alert_has_its_kind_and_its_values() {
        let line = br#"{"method":"event","params":{"id":"f","seq":2,"code":-110,"missed":0,
            "node":"n","time_unix_ns":5,"alert":{"kind":"file","path":"/a","unchanged":3,
            "missing":true}}}"#;
        let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != b'\n').collect();
        let rest: [Value; 6] =
            ["path".into(), "/a".into(), "unchanged".into(), 3.into(), "missing".into(), 1.into()];
        let rest = Value::List(rest.to_vec());
        let values: [Value; 5] = ["f".into(), 2.into(), (-110).into(), "file".into(), rest];
        let params = values.into_iter().map(EventParam::Value).collect();
        let want = NodeEvent::new(EventKind::Alerted(SESSION), Ns(0), params);
        assert_eq!(platform_events(SESSION, &line), [PlatformEvent::Event(want)]);
    }

    #[test]
    fn a_malformed_line_has_no_event() {
        assert_eq!(platform_events(SESSION, b"}{\n"), []);
    }
}

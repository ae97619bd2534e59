//! What the monitoring service says to a tool, as things that happened.
//!
//! In: lines of docs/SOCKET.md. Out: the end of a call, or an occurrence. Whoever waits for it the
//! engine of requests knows.

use super::value;
use monitor_event::occurrence::{EventKind, NodeEvent};
use monitor_event::outcome::{Refusal, Told};
use monitor_event::right::SessionId;
use monitor_event::thread::Ticket;
use monitor_model::id::{Identity, Ns};
use monitor_model::status::Status as Said;
use monitor_omis::{Status, Value};
use monitor_platform::Happening;
use monitor_protocol::event::{Alert, Event};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'l> {
    id: Option<Ticket>,
    #[serde(borrow)]
    result: Option<&'l RawValue>,
    error: Option<Fault>,
    params: Option<Event>,
}

#[derive(Deserialize)]
struct Fault {
    code: i32,
    message: String,
}

/// What these lines, which are for a session, tell.
pub fn happenings(session: SessionId, lines: &[u8]) -> Vec<Happening> {
    let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines
        .flat_map(|line| match serde_json::from_slice(line) {
            Ok(line) => of_line(session, line),
            Err(why) => {
                tracing::error!("the monitoring service said what is no line: {why}");
                Vec::new()
            }
        })
        .collect()
}

/// How a call ended, for whoever said it under a ticket.
pub fn ended(ticket: Ticket, result: Result<Value, Refusal>) -> Happening {
    Happening::Acted(ticket, vec![(Identity::default(), result.map(|it| vec![it]))])
}

fn of_line(session: SessionId, line: Line<'_>) -> Vec<Happening> {
    match (line.id, line.params) {
        (Some(ticket), _) => {
            let result = match (line.result, line.error) {
                (Some(result), _) => read(result),
                (None, Some(fault)) => Err(refusal(fault.code, fault.message)),
                (None, None) => Err(refusal(Said::Error.number(), "no answer".to_owned())),
            };
            vec![ended(ticket, result)]
        }
        (None, Some(event)) => occurrences(session, &event),
        (None, None) => Vec::new(),
    }
}

fn read(json: &RawValue) -> Result<Value, Refusal> {
    value::value(json.get()).map_err(|why| Refusal::new(Status::INTERNAL, why.to_string()))
}

/// A sample or an alert, and that it was the last.
fn occurrences(session: SessionId, event: &Event) -> Vec<Happening> {
    let sample = event.sample.as_deref().and_then(|it| read(it).ok());
    let sampled = sample.map(|it| (EventKind::Sampled(session), sampled(event, it)));
    let alerted = event.alert.as_ref().map(|it| (EventKind::Alerted(session), alerted(event, it)));
    let ended = event.ended.map(|reason| {
        let message = event.message.as_deref().unwrap_or_default();
        let values = vec![event.id.as_str().into(), reason.name().into(), message.into()];
        (EventKind::Unsampled(session), values)
    });
    let occurred = |(topic, values): (EventKind, Vec<Value>)| {
        let told = values.into_iter().map(Told::Value).collect();
        Happening::Occurred(NodeEvent::new(topic, Ns(0), told))
    };
    [sampled, alerted, ended].into_iter().flatten().map(occurred).collect()
}

fn sampled(event: &Event, sample: Value) -> Vec<Value> {
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

/// Its kind stands apart, so that a request can tell one from the other.
fn alerted(event: &Event, alert: &Alert) -> Vec<Value> {
    let all = value::of(alert).expect("names, numbers and texts have a form in JSON");
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

/// The same refusal in the numbers of the language.
pub fn refusal(code: i32, message: String) -> Refusal {
    let status = match Said::of(code) {
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
    fn a_reply_ends_its_call() {
        let got = happenings(SESSION, b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":1}}\n");
        assert_eq!(got, [ended(3, Ok(Value::from(vec!["a".into(), 1.into()])))]);
        let line = br#"{"id":4,"error":{"code":-46,"message":"no process 9"}}"#;
        let why = Refusal::new(Status::NO_SUCH_OBJECT, "no process 9");
        assert_eq!(happenings(SESSION, line), [ended(4, Err(why))]);
    }

    #[test]
    fn the_last_sample_is_a_sample_and_an_end() {
        let line = br#"{"method":"event","params":{"id":"x","seq":3,"missed":1,"dropped":2,
            "node":"n","time_unix_ns":5,"ended":"count","sample":{"processes":[]}}}"#;
        let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != b'\n').collect();
        let got = happenings(SESSION, &line);
        let told = |topic, values: Vec<Value>| {
            let told = values.into_iter().map(Told::Value).collect();
            Happening::Occurred(NodeEvent::new(topic, Ns(0), told))
        };
        let sample = Value::from(vec!["processes".into(), Value::List(Vec::new())]);
        let (name, none) = (Value::from("x"), Value::List(Vec::new()));
        let values = vec![name.clone(), 3.into(), 1.into(), 2.into(), sample, none];
        let ended = vec![name, "count".into(), "".into()];
        let want =
            [told(EventKind::Sampled(SESSION), values), told(EventKind::Unsampled(SESSION), ended)];
        assert_eq!(got, want);
    }

    #[test]
    fn an_alert_is_its_kind_and_what_it_has_besides() {
        let line = br#"{"method":"event","params":{"id":"f","seq":2,"code":-110,"missed":0,
            "node":"n","time_unix_ns":5,"alert":{"kind":"file","path":"/a","unchanged":3,
            "missing":true}}}"#;
        let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != b'\n').collect();
        let rest: [Value; 6] =
            ["path".into(), "/a".into(), "unchanged".into(), 3.into(), "missing".into(), 1.into()];
        let rest = Value::List(rest.to_vec());
        let values: [Value; 5] = ["f".into(), 2.into(), (-110).into(), "file".into(), rest];
        let told = values.into_iter().map(Told::Value).collect();
        let want = NodeEvent::new(EventKind::Alerted(SESSION), Ns(0), told);
        assert_eq!(happenings(SESSION, &line), [Happening::Occurred(want)]);
    }

    #[test]
    fn what_is_no_line_tells_nothing() {
        assert_eq!(happenings(SESSION, b"}{\n"), []);
    }
}

//! What the monitors report to a session, as platform events.
//!
//! In: the answer of a call, or an event of a monitor. Out: the result of the call, or an event.
//! The request engine matches them with pending calls and stored requests.

use super::json_value;
use monitor_event::{EventKind, EventParam, NodeEvent, Refusal, SessionId, Ticket};
use monitor_model::{Identity, Ns, status::Refusal as Refused, status::Status as Said};
use monitor_omis::{Status, Value};
use monitor_platform::PlatformEvent;
use monitor_protocol::event::{Alert, Event};
use serde::Serialize;
use serde_json::value::RawValue;

/// The result of the call with this ticket.
pub fn completed(ticket: Ticket, answer: Result<impl Serialize, Refused>) -> PlatformEvent {
    let result = match answer {
        Ok(answer) => json_value::from_serializable(&answer).map_err(malformed),
        Err(why) => Err(refusal(why)),
    };
    PlatformEvent::ActionDone(ticket, vec![(Identity::default(), result.map(|it| vec![it]))])
}

fn malformed(why: serde_json::Error) -> Refusal {
    Refusal::new(Status::INTERNAL, why.to_string())
}

fn json_value(json: &RawValue) -> Result<Value, Refusal> {
    json_value::value(json.get()).map_err(malformed)
}

/// The events in one of a monitor: a sample or an alert, and the end of the monitor.
pub fn monitor_events(session: SessionId, event: &Event) -> Vec<PlatformEvent> {
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

/// A refusal with the OMIS status for a status of the monitors.
fn refusal(why: Refused) -> Refusal {
    let status = match why.status {
        Said::Success => Status::OK,
        Said::PartialSuccess => Status::PARTIAL,
        Said::Exists => Status::EXISTS,
        Said::NoPermissions => Status::PERMISSION,
        Said::Timeout => Status::TIMEOUT,
        Said::Unreach => Status::NODE_DOWN,
        Said::BadParam => Status::RANGE,
        Said::OutOfResource => Status::RESOURCE,
        Said::NotFound => Status::NO_SUCH_OBJECT,
        Said::NotSupported => Status::UNSUPPORTED,
        Said::NotAvailable => Status::INTERRUPTED,
        Said::Error => Status::IO,
    };
    Refusal::new(status, why.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId { entry: 0, conn: 7 };

    fn event(json: &str) -> Event {
        serde_json::from_str(json).expect("an event")
    }

    #[test]
    fn an_answer_completes_its_call() {
        let done = |ticket, result: Result<Vec<Value>, Refusal>| {
            PlatformEvent::ActionDone(ticket, vec![(Identity::default(), result)])
        };
        let value = Value::from(vec!["a".into(), 1.into()]);
        assert_eq!(completed(3, Ok(serde_json::json!({"a": 1}))), done(3, Ok(vec![value])));
        let why = Refusal::new(Status::NO_SUCH_OBJECT, "no process 9");
        assert_eq!(completed(4, Err::<(), _>(Refused::absent("no process 9"))), done(4, Err(why)));
    }

    #[test]
    fn the_last_sample_is_a_sample_event_and_an_end_event() {
        let last = event(
            r#"{"id":"x","seq":3,"missed":1,"dropped":2,"node":"n","time_unix_ns":5,
            "ended":"count","sample":{"processes":[]}}"#,
        );
        let got = monitor_events(SESSION, &last);
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
        let alert = event(
            r#"{"id":"f","seq":2,"code":-110,"missed":0,"node":"n","time_unix_ns":5,
            "alert":{"kind":"file","path":"/a","unchanged":3,"missing":true}}"#,
        );
        let rest: [Value; 6] =
            ["path".into(), "/a".into(), "unchanged".into(), 3.into(), "missing".into(), 1.into()];
        let rest = Value::List(rest.to_vec());
        let values: [Value; 5] = ["f".into(), 2.into(), (-110).into(), "file".into(), rest];
        let params = values.into_iter().map(EventParam::Value).collect();
        let want = NodeEvent::new(EventKind::Alerted(SESSION), Ns(0), params);
        assert_eq!(monitor_events(SESSION, &alert), [PlatformEvent::Event(want)]);
    }
}

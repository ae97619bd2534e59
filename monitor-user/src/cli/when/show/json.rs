//! Events and summary of `when` as JSON, one object per line (docs/OUTPUT.md).
//!
//! In: events. Out: JSON. Unknown values are absent.

use super::{ShownEvent, ShownEventKind, ShownValue, SummaryRow};
use monitor_event::tap::Edge;
use monitor_model::event;
use monitor_model::id::Ns;
use serde::Serialize;
use serde_json::Number;

/// The object of an event, with its keys in this order.
#[derive(Serialize)]
struct JsonLine<'a> {
    event: &'static str,
    time_unix_ns: u64,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<&'a str>,
    #[serde(flatten)]
    own: OwnFields<'a>,
}

/// Keys that only some events have.
#[derive(Serialize)]
#[serde(untagged)]
enum OwnFields<'a> {
    Call { function: &'a str, values: Vec<JsonValue<'a>> },
    Signal { signal: JsonSignal },
    Status { exit_code: u64 },
    Nothing {},
}

#[derive(Serialize)]
struct JsonValue<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonSignal {
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize)]
struct Summary<'a> {
    event: &'static str,
    counts: Vec<JsonCount<'a>>,
    lost: u64,
}

#[derive(Serialize)]
struct JsonCount<'a> {
    what: &'a str,
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<u64>,
}

/// Formats an event with its time since 1970.
pub fn line(it: &ShownEvent, time: Ns) -> String {
    let (event, own) = match &it.kind {
        ShownEventKind::Call { edge, name, values } => {
            let event = if *edge == Edge::Start { "call" } else { "return" };
            (event, OwnFields::Call { function: name, values: values.iter().map(value).collect() })
        }
        ShownEventKind::Signal(it) => ("signal", OwnFields::Signal { signal: signal(it) }),
        ShownEventKind::Exec => ("exec", OwnFields::Nothing {}),
        ShownEventKind::End { status, signal: None } => {
            ("end", OwnFields::Status { exit_code: *status })
        }
        ShownEventKind::End { signal: Some(it), .. } => {
            ("end", OwnFields::Signal { signal: signal(it) })
        }
    };
    text(&JsonLine { event, time_unix_ns: time.0, pid: it.pid.0, comm: it.comm.as_deref(), own })
}

/// Formats the summary.
pub fn summary(rows: &[SummaryRow], n_lost: u64) -> String {
    let counts = rows.iter().map(count).collect();
    text(&Summary { event: "summary", counts, lost: n_lost }) + "\n"
}

fn count(it: &SummaryRow) -> JsonCount<'_> {
    let [half, most] = it.times.map_or([None; 2], |times| times.map(|it| Some(it.0)));
    JsonCount { what: &it.what, count: it.count, p50_ns: half, p99_ns: most }
}

fn value(it: &ShownValue) -> JsonValue<'_> {
    let number = it.number.and_then(Number::from_i128).map(serde_json::Value::from);
    let text = it.text.as_ref().map(|it| String::from_utf8_lossy(it).into_owned().into());
    let value: Option<serde_json::Value> = text.or(number);
    // `shown` would only repeat a text or a number without a name.
    let is_plain = match &value {
        Some(serde_json::Value::Number(number)) => number.to_string() == it.shown,
        _ => true,
    };
    let shown = (!is_plain).then_some(it.shown.as_str());
    JsonValue { name: &it.name, value, shown }
}

fn signal(it: &event::Signal) -> JsonSignal {
    JsonSignal { number: it.number, name: it.name() }
}

fn text(it: &impl Serialize) -> String {
    serde_json::to_string(it).expect("all keys are strings and all numbers integers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;

    fn event(what: ShownEventKind) -> ShownEvent {
        ShownEvent { at: Ns(5), pid: Pid(7), comm: Some("a\"b".into()), kind: what }
    }

    #[track_caller]
    fn check(what: ShownEventKind, want: &str) {
        let head = r#""time_unix_ns":1005,"pid":7,"comm":"a\"b""#;
        assert_eq!(line(&event(what), Ns(1005)), want.replace("HEAD", head));
    }

    #[test]
    fn a_value_has_its_number_or_text_and_its_symbolic_name() {
        let value = |name: &str, shown: &str, number, text: Option<&str>| ShownValue {
            name: name.into(),
            shown: shown.into(),
            number,
            text: text.map(|it| it.as_bytes().to_vec()),
        };
        let values = vec![
            value("path", "\"a\\n\"", Some(4096), Some("a\n")),
            value("flags", "O_RDWR", Some(2), None),
            value("size", "-1", Some(-1), None),
            value("far", "?", None, None),
        ];
        let want = concat!(
            r#"{"event":"call",HEAD,"function":"f","values":[{"name":"path","value":"a\n"},"#,
            r#"{"name":"flags","value":2,"shown":"O_RDWR"},{"name":"size","value":-1},"#,
            r#"{"name":"far"}]}"#
        );
        check(ShownEventKind::Call { edge: Edge::Start, name: "f".into(), values }, want);
    }

    #[test]
    fn signals_and_exits_have_numbers_and_names() {
        let signal = event::Signal { number: 9, code: 0, thread: None };
        check(
            ShownEventKind::Signal(signal),
            r#"{"event":"signal",HEAD,"signal":{"number":9,"name":"SIGKILL"}}"#,
        );
        check(ShownEventKind::Exec, r#"{"event":"exec",HEAD}"#);
        check(
            ShownEventKind::End { status: 3, signal: None },
            r#"{"event":"end",HEAD,"exit_code":3}"#,
        );
        let killed = ShownEventKind::End { status: 0, signal: Some(signal) };
        check(killed, r#"{"event":"end",HEAD,"signal":{"number":9,"name":"SIGKILL"}}"#);
    }

    #[test]
    fn the_summary_has_times_only_where_they_were_measured() {
        let rows = [
            SummaryRow { what: "call f".into(), count: 23, times: Some([Ns(1), Ns(2)]) },
            SummaryRow { what: "SIGTERM".into(), count: 1, times: None },
        ];
        let want = concat!(
            r#"{"event":"summary","counts":[{"what":"call f","count":23,"p50_ns":1,"p99_ns":2},"#,
            r#"{"what":"SIGTERM","count":1}],"lost":4}"#,
            "\n"
        );
        assert_eq!(summary(&rows, 4), want);
    }
}

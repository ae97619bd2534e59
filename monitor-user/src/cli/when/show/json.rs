//! Events and summary of `when`, for programs: an object on each line (docs/OUTPUT.md).
//!
//! In: what happened. Out: JSON. What is not known is absent.

use super::{Event, Row, Value, What};
use monitor_event::tap::Edge;
use monitor_model::event;
use monitor_model::id::Ns;
use serde::Serialize;
use serde_json::Number;

/// An object of an event, its keys in this order.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    time_unix_ns: u64,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<&'a str>,
    #[serde(flatten)]
    own: Own<'a>,
}

/// What only some events have.
#[derive(Serialize)]
#[serde(untagged)]
enum Own<'a> {
    Call { function: &'a str, values: Vec<Told<'a>> },
    Signal { signal: Signal },
    Status { exit_code: u64 },
    Nothing {},
}

#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<&'a str>,
}

#[derive(Serialize)]
struct Signal {
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize)]
struct Summary<'a> {
    event: &'static str,
    counts: Vec<Count<'a>>,
    lost: u64,
}

#[derive(Serialize)]
struct Count<'a> {
    what: &'a str,
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<u64>,
}

/// An event that happened so long after 1970.
pub fn line(it: &Event, time: Ns) -> String {
    let (event, own) = match &it.what {
        What::Call { edge, name, values } => {
            let event = if *edge == Edge::Start { "call" } else { "return" };
            (event, Own::Call { function: name, values: values.iter().map(value).collect() })
        }
        What::Signal(it) => ("signal", Own::Signal { signal: signal(it) }),
        What::Exec => ("exec", Own::Nothing {}),
        What::End { status, signal: None } => ("end", Own::Status { exit_code: *status }),
        What::End { signal: Some(it), .. } => ("end", Own::Signal { signal: signal(it) }),
    };
    text(&Line { event, time_unix_ns: time.0, pid: it.pid.0, comm: it.comm.as_deref(), own })
}

/// What closes it.
pub fn summary(rows: &[Row], n_lost: u64) -> String {
    let counts = rows.iter().map(count).collect();
    text(&Summary { event: "summary", counts, lost: n_lost }) + "\n"
}

fn count(it: &Row) -> Count<'_> {
    let [half, most] = it.times.map_or([None; 2], |times| times.map(|it| Some(it.0)));
    Count { what: &it.what, count: it.count, p50_ns: half, p99_ns: most }
}

fn value(it: &Value) -> Told<'_> {
    let number = it.number.and_then(Number::from_i128).map(serde_json::Value::from);
    let text = it.text.as_ref().map(|it| String::from_utf8_lossy(it).into_owned().into());
    let value: Option<serde_json::Value> = text.or(number);
    // A text is its own picture, and so is a number that has no name.
    let is_plain = match &value {
        Some(serde_json::Value::Number(number)) => number.to_string() == it.shown,
        _ => true,
    };
    let shown = (!is_plain).then_some(it.shown.as_str());
    Told { name: &it.name, value, shown }
}

fn signal(it: &event::Signal) -> Signal {
    Signal { number: it.number, name: it.name() }
}

fn text(it: &impl Serialize) -> String {
    serde_json::to_string(it).expect("keys are texts, and numbers are whole")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;

    fn event(what: What) -> Event {
        Event { at: Ns(5), pid: Pid(7), comm: Some("a\"b".into()), what }
    }

    #[track_caller]
    fn check(what: What, want: &str) {
        let head = r#""time_unix_ns":1005,"pid":7,"comm":"a\"b""#;
        assert_eq!(line(&event(what), Ns(1005)), want.replace("HEAD", head));
    }

    #[test]
    fn a_value_has_its_number_or_text_and_its_name_where_it_has_one() {
        let value = |name: &str, shown: &str, number, text: Option<&str>| Value {
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
        check(What::Call { edge: Edge::Start, name: "f".into(), values }, want);
    }

    #[test]
    fn signals_and_ends_tell_numbers_and_names() {
        let signal = event::Signal { number: 9, code: 0, thread: None };
        check(
            What::Signal(signal),
            r#"{"event":"signal",HEAD,"signal":{"number":9,"name":"SIGKILL"}}"#,
        );
        check(What::Exec, r#"{"event":"exec",HEAD}"#);
        check(What::End { status: 3, signal: None }, r#"{"event":"end",HEAD,"exit_code":3}"#);
        let killed = What::End { status: 0, signal: Some(signal) };
        check(killed, r#"{"event":"end",HEAD,"signal":{"number":9,"name":"SIGKILL"}}"#);
    }

    #[test]
    fn the_summary_has_times_where_there_are_any() {
        let rows = [
            Row { what: "call f".into(), count: 23, times: Some([Ns(1), Ns(2)]) },
            Row { what: "SIGTERM".into(), count: 1, times: None },
        ];
        let want = concat!(
            r#"{"event":"summary","counts":[{"what":"call f","count":23,"p50_ns":1,"p99_ns":2},"#,
            r#"{"what":"SIGTERM","count":1}],"lost":4}"#,
            "\n"
        );
        assert_eq!(summary(&rows, 4), want);
    }
}

//! Output of `monitor when`: events and the final summary, as text or as JSON.
//!
//! In: calls and records of rule programs. Out: events with symbolic names, and the summary: lines
//! and a table, or one JSON object per line (docs/OUTPUT.md). Control characters in command names
//! and arguments are escaped in the text; unknown values are absent in JSON.

use monitor_event::tap::Edge;
use monitor_format::{events, human};
use monitor_model::event::Signal;
use monitor_model::id::{Ns, Pid};
use monitor_platform::tap::CallRecord;
use monitor_protocol::terminal::json_text;
use monitor_symbols::elf::SymbolKind;
use monitor_symbols::resolve;
use monitor_symbols::signatures::call::ValueType;
use monitor_symbols::signatures::traced_values::RESULT;
use serde::Serialize;
use serde_json::Number;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

/// An event to print.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownEvent {
    /// Time on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The process.
    pub pid: Pid,
    /// Its command name; absent if it exited before the name was read.
    pub comm: Option<String>,
    /// What happened.
    pub kind: ShownEventKind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum ShownEventKind {
    /// A function was called or returned.
    Call { edge: Edge, name: String, values: Vec<ShownValue> },
    /// A signal was delivered.
    Signal(Signal),
    /// A program was executed.
    Exec,
    /// The process exited with this status or was killed by this signal.
    End { status: u64, signal: Option<Signal> },
}

/// An argument or result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownValue {
    /// Name of the parameter, or `RESULT`.
    pub name: String,
    /// The value in C syntax.
    pub shown: String,
    /// The value, if it is a known number.
    pub number: Option<i128>,
    /// The value, if it is a known text.
    pub text: Option<Vec<u8>>,
}

impl ShownEventKind {
    /// The result of a function that returned.
    fn result(&self) -> Option<&ShownValue> {
        match self {
            Self::Call { edge: Edge::End, values, .. } => {
                values.first().filter(|it| it.name == RESULT)
            }
            _ => None,
        }
    }
}

/// A row of the summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// The event.
    pub what: String,
    /// Number of occurrences; absent if it was not watched.
    pub count: Option<u64>,
    /// Median and 99th percentile of the duration of calls.
    pub times: Option<[Ns; 2]>,
}

/// Formats events; caches names of processes and addresses.
pub struct EventFormatter {
    /// One JSON object per line, instead of text.
    pub is_json: bool,
    begin: Ns,
    /// Difference between the wall clock and the boot clock.
    since_1970: Ns,
    comms: HashMap<Pid, Option<String>>,
    /// Addresses of named variables, by process.
    addresses: HashMap<Pid, HashMap<String, u64>>,
}

impl EventFormatter {
    /// Text shows times since `begin`, JSON since 1970, which was `since_1970` before boot.
    pub fn new(is_json: bool, begin: Ns, since_1970: Ns) -> Self {
        Self { is_json, begin, since_1970, comms: HashMap::new(), addresses: HashMap::new() }
    }

    /// Formats an event as one line.
    pub fn line(&self, it: &ShownEvent) -> String {
        match self.is_json {
            true => json_line(it, Ns(self.since_1970.0 + it.at.0)),
            false => text_line(it, self.begin),
        }
    }

    /// Formats the summary: counts and lost records.
    pub fn summary(&self, rows: &[SummaryRow], n_lost: u64) -> String {
        summary(rows, n_lost, self.is_json)
    }

    fn event(&mut self, at: Ns, pid: Pid, what: ShownEventKind) -> ShownEvent {
        let comm = self.comms.entry(pid).or_insert_with(|| {
            let text = std::fs::read_to_string(format!("/proc/{}/comm", pid.0));
            text.ok().map(|text| text.trim_end().to_owned())
        });
        ShownEvent { at, pid, comm: comm.clone(), kind: what }
    }

    /// A call or its return.
    pub fn call(&mut self, it: &CallRecord) -> ShownEvent {
        let values = it.plan.values.iter().zip(&it.values).map(|(spec, traced)| {
            let named = match (&spec.kind, traced.raw) {
                (ValueType::Named(names, width), Some(raw)) => {
                    let addresses = self.addresses.entry(it.pid).or_insert_with(|| {
                        let names: HashSet<&str> = names.variables().collect();
                        let process = (Path::new("/proc"), it.pid);
                        let found =
                            resolve::addresses(process, SymbolKind::Variable, &names, |_| true);
                        // Without symbols the handles are shown as addresses.
                        found.unwrap_or_default()
                    });
                    names.address_name(width.truncate(raw), addresses).map(str::to_owned)
                }
                _ => None,
            };
            ShownValue {
                name: spec.name.clone(),
                shown: named.unwrap_or_else(|| traced.to_text(spec)),
                number: traced.raw.and_then(|raw| spec.number(raw)),
                text: traced.text.clone(),
            }
        });
        let (edge, name) = (it.tap.edge, it.tap.name.clone());
        let what = ShownEventKind::Call { edge, name, values: values.collect() };
        self.event(it.at, it.pid, what)
    }

    /// A delivered signal.
    pub fn signal(&mut self, at: Ns, pid: Pid, number: u64) -> ShownEvent {
        self.event(at, pid, ShownEventKind::Signal(signal(number)))
    }

    /// An executed program. Cached names of the process become invalid.
    pub fn exec(&mut self, at: Ns, pid: Pid) -> ShownEvent {
        _ = self.comms.remove(&pid);
        _ = self.addresses.remove(&pid);
        self.event(at, pid, ShownEventKind::Exec)
    }

    /// An exited process, with its wait(2) status.
    pub fn end(&mut self, at: Ns, pid: Pid, code: u64) -> ShownEvent {
        let signal = Some(code & 0x7f).filter(|number| *number != 0).map(signal);
        self.event(at, pid, ShownEventKind::End { status: code >> 8 & 0xff, signal })
    }
}

/// Formats a summary: counts and lost records.
pub fn summary(rows: &[SummaryRow], n_lost: u64, is_json: bool) -> String {
    if is_json { json_summary(rows, n_lost) } else { table(rows) }
}

fn signal(number: u64) -> Signal {
    Signal { number: u32::try_from(number).unwrap_or(0), code: 0, thread: None }
}

/// Formats an event with the time since the beginning.
fn text_line(it: &ShownEvent, begin: Ns) -> String {
    let mut line = format!("{:12.6} {:>7} ", it.at.since(begin).seconds(), it.pid.0);
    human::escaped(it.comm.as_deref().unwrap_or("-"), &mut line);
    line.push(' ');
    match &it.kind {
        ShownEventKind::Call { edge, name, values } => {
            let mut values = values.iter().map(|it| (it.name.as_str(), it.shown.as_str()));
            _ = write!(line, "{name}");
            if *edge == Edge::Start {
                let values: Vec<String> =
                    values.map(|(name, value)| format!("{name}={value}")).collect();
                _ = write!(line, "({})", values.join(", "));
            } else {
                if let Some(result) = it.kind.result() {
                    _ = write!(line, " = {}", result.shown);
                    _ = values.next();
                }
                values.for_each(|(name, value)| _ = write!(line, " {name}={value}"));
            }
        }
        ShownEventKind::Signal(signal) => line += &events::signal_name(signal),
        ShownEventKind::Exec => line += "executed",
        ShownEventKind::End { status, signal: None } => _ = write!(line, "exited with {status}"),
        ShownEventKind::End { signal: Some(signal), .. } => {
            _ = write!(line, "killed by {}", events::signal_name(signal));
        }
    }
    line
}

/// Formats the summary as a table.
fn table(rows: &[SummaryRow]) -> String {
    let width = rows.iter().map(|row| row.what.len()).max().unwrap_or(0).max(5);
    let mut text = format!("{:<width$} {:>10} {:>8} {:>8}\n", "EVENT", "COUNT", "P50", "P99");
    for row in rows {
        let times = row.times.map(|times| times.map(span)).unwrap_or_default();
        let [half, most] = &times;
        let count = row.count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        _ = writeln!(text, "{:<width$} {count:>10} {half:>8} {most:>8}", row.what);
    }
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn span(ns: Ns) -> String {
    human::duration_text(ns.0 as f64)
}

/// The object of an event, with its keys in this order.
#[derive(Default, Serialize)]
struct JsonLine<'a> {
    event: &'static str,
    time_unix_ns: u64,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<JsonValue<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<JsonSignal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u64>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<u64>,
}

/// Formats an event with its time since 1970.
fn json_line(it: &ShownEvent, time: Ns) -> String {
    let comm = it.comm.as_deref();
    let mut line = JsonLine { time_unix_ns: time.0, pid: it.pid.0, comm, ..JsonLine::default() };
    line.event = match &it.kind {
        ShownEventKind::Call { edge, name, values } => {
            line.function = Some(name);
            line.values = Some(values.iter().map(json_value).collect());
            if *edge == Edge::Start { "call" } else { "return" }
        }
        ShownEventKind::Signal(signal) => {
            line.signal = Some(json_signal(signal));
            "signal"
        }
        ShownEventKind::Exec => "exec",
        ShownEventKind::End { status, signal } => {
            line.signal = signal.as_ref().map(json_signal);
            line.exit_code = signal.is_none().then_some(*status);
            "end"
        }
    };
    to_json(&line)
}

/// Formats the summary.
fn json_summary(rows: &[SummaryRow], n_lost: u64) -> String {
    let counts = rows.iter().map(json_count).collect();
    to_json(&Summary { event: "summary", counts, lost: n_lost }) + "\n"
}

fn json_count(it: &SummaryRow) -> JsonCount<'_> {
    let [half, most] = it.times.map_or([None; 2], |times| times.map(|it| Some(it.0)));
    JsonCount { what: &it.what, count: it.count, p50_ns: half, p99_ns: most }
}

fn json_value(it: &ShownValue) -> JsonValue<'_> {
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

fn json_signal(it: &Signal) -> JsonSignal {
    JsonSignal { number: it.number, name: it.name() }
}

fn to_json(it: &impl Serialize) -> String {
    json_text(it).expect("all keys are strings and all numbers integers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_times_only_where_they_were_measured() {
        let times = Some([Ns(1_200), Ns(3_400_000)]);
        let rows = [
            SummaryRow { what: "call MPI_Send".into(), count: Some(23), times },
            SummaryRow { what: "SIGTERM".into(), count: Some(1), times: None },
            SummaryRow { what: "call MPI_Sned".into(), count: None, times: None },
        ];
        let want = "\
EVENT              COUNT      P50      P99
call MPI_Send         23    1.2us    3.4ms
SIGTERM                1
call MPI_Sned          -
";
        assert_eq!(table(&rows), want);
    }

    fn event(what: ShownEventKind) -> ShownEvent {
        ShownEvent { at: Ns(5), pid: Pid(7), comm: Some("a\"b".into()), kind: what }
    }

    #[track_caller]
    fn check(what: ShownEventKind, want: &str) {
        let head = r#""time_unix_ns":1005,"pid":7,"comm":"a\"b""#;
        assert_eq!(json_line(&event(what), Ns(1005)), want.replace("HEAD", head));
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
        let signal = Signal { number: 9, code: 0, thread: None };
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
    fn the_json_summary_has_times_only_where_they_were_measured() {
        let rows = [
            SummaryRow { what: "call f".into(), count: Some(23), times: Some([Ns(1), Ns(2)]) },
            SummaryRow { what: "SIGTERM".into(), count: Some(1), times: None },
            SummaryRow { what: "call g".into(), count: None, times: None },
        ];
        let want = concat!(
            r#"{"event":"summary","counts":[{"what":"call f","count":23,"p50_ns":1,"p99_ns":2},"#,
            r#"{"what":"SIGTERM","count":1},{"what":"call g"}],"lost":4}"#,
            "\n"
        );
        assert_eq!(json_summary(&rows, 4), want);
    }
}

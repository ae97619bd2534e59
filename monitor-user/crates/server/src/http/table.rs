//! The table of processes that all viewers share: snapshots and changes.
//!
//! In: samples as JSON text. Out: JSON text. Values are compared as text, so that what is sent is
//! exactly what was read; an idle process takes no bytes in a change.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The columns of a process. The first two identify it.
pub const COLUMNS: [&str; 18] = [
    "pid",
    "start_time_ns",
    "ppid",
    "user",
    "comm",
    "cmdline",
    "state",
    "threads",
    "nice",
    "ended",
    "cpu_ns",
    "rss_bytes",
    "cpu_percent",
    "run_delay_percent",
    "read_bytes_per_s",
    "written_bytes_per_s",
    "tcp_received_bytes_per_s",
    "tcp_sent_bytes_per_s",
];

/// A process: pid and start time.
type RowKey = (u64, u64);
/// Its values as JSON text.
pub type Row = [Option<Box<str>>; COLUMNS.len()];

/// The table.
#[derive(Default)]
pub struct PageTable {
    rows: BTreeMap<RowKey, Row>,
    /// The part that every message contains: time, node, notes.
    head: String,
}

#[derive(serde::Deserialize)]
struct SampleText<'a> {
    #[serde(borrow)]
    time_unix_ns: &'a RawValue,
    #[serde(borrow)]
    node: &'a RawValue,
    #[serde(borrow)]
    backend: &'a RawValue,
    #[serde(borrow)]
    interval_ns: Option<&'a RawValue>,
    #[serde(borrow)]
    node_stats: Option<&'a RawValue>,
    #[serde(borrow)]
    notes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    processes: Vec<Values<'a>>,
}

/// The values of one process, by column.
struct Values<'a>([Option<&'a RawValue>; COLUMNS.len()]);

impl PageTable {
    /// Applies a sample, and returns the change; `None` if the text is not a sample.
    pub fn apply(&mut self, text: &str) -> Option<String> {
        let sample: SampleText<'_> = serde_json::from_str(text).ok()?;
        self.head.clear();
        sample.head(&mut self.head);
        let mut change = TableChange::default();
        let mut before = std::mem::take(&mut self.rows);
        for Values(values) in &sample.processes {
            let Some(key) = key(values) else { continue };
            let row = match before.remove(&key) {
                Some(mut row) => {
                    change.changed(&mut row, values);
                    row
                }
                None => {
                    change.added(values);
                    values.map(|it| it.map(|it| it.get().into()))
                }
            };
            self.rows.insert(key, row);
        }
        before.keys().for_each(|key| change.removed(*key));
        let TableChange { set, new, gone } = change;
        let head = &self.head;
        Some(format!("{{{head},\"set\":[{set}],\"new\":[{new}],\"gone\":[{gone}]}}"))
    }

    /// The pid and start time of the matching processes; `None` before the first sample.
    pub fn matching(&self, matches: impl Fn(&Row) -> bool) -> Option<String> {
        let matching = self.rows.iter().filter(|(_, row)| matches(row));
        let mut list = String::new();
        for ((pid, start), _) in matching {
            comma(&mut list);
            let _ = write!(list, "[{pid},{start}]");
        }
        (!self.head.is_empty()).then(|| format!("[{list}]"))
    }

    /// The whole table.
    pub fn snapshot(&self) -> String {
        let mut rows = String::new();
        for row in self.rows.values() {
            list(&mut rows, row.iter().map(Option::as_deref));
        }
        let columns = serde_json::to_string(&COLUMNS).expect("names are text");
        let head = if self.head.is_empty() { "\"t\":null" } else { &self.head };
        format!("{{{head},\"columns\":{columns},\"rows\":[{rows}]}}")
    }
}

impl SampleText<'_> {
    /// The part that every message contains. Writing to a `String` cannot fail.
    fn head(&self, out: &mut String) {
        let or = |it: Option<&RawValue>, other: &'static str| {
            it.map_or_else(|| other.to_owned(), |it| it.get().to_owned())
        };
        let _ = write!(
            out,
            "\"t\":{},\"node\":{},\"backend\":{},\"interval\":{},\"stats\":{},\"notes\":{}",
            self.time_unix_ns.get(),
            self.node.get(),
            self.backend.get(),
            or(self.interval_ns, "null"),
            or(self.node_stats, "null"),
            or(self.notes, "[]"),
        );
    }
}

/// The changes of one sample, as JSON lists.
#[derive(Default)]
struct TableChange {
    set: String,
    new: String,
    gone: String,
}

impl TableChange {
    /// A known process: pid, start time, and pairs of column and value for changed values. Writing
    /// to a `String` cannot fail.
    fn changed(&mut self, row: &mut Row, now: &[Option<&RawValue>; COLUMNS.len()]) {
        let mut is_changed = false;
        for (at, (old, new)) in row.iter_mut().zip(now).enumerate() {
            let new = new.map(RawValue::get);
            if old.as_deref() == new {
                continue;
            }
            *old = new.map(Into::into);
            if !is_changed {
                is_changed = true;
                comma(&mut self.set);
                let (pid, start) =
                    (now[0].map_or("0", RawValue::get), now[1].map_or("0", RawValue::get));
                let _ = write!(self.set, "[{pid},{start}");
            }
            let _ = write!(self.set, ",{at},{}", new.unwrap_or("null"));
        }
        if is_changed {
            self.set.push(']');
        }
    }

    fn added(&mut self, now: &[Option<&RawValue>; COLUMNS.len()]) {
        list(&mut self.new, now.iter().map(|it| it.map(RawValue::get)));
    }

    fn removed(&mut self, (pid, start): RowKey) {
        comma(&mut self.gone);
        let _ = write!(self.gone, "[{pid},{start}]");
    }
}

fn key(values: &[Option<&RawValue>]) -> Option<RowKey> {
    let number = |at: usize| values[at]?.get().parse().ok();
    Some((number(0)?, number(1)?))
}

fn comma(list: &mut String) {
    if !list.is_empty() {
        list.push(',');
    }
}

/// Appends a list of values.
fn list<'a>(out: &mut String, values: impl Iterator<Item = Option<&'a str>>) {
    comma(out);
    out.push('[');
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(value.unwrap_or("null"));
    }
    out.push(']');
}

impl<'de: 'a, 'a> Deserialize<'de> for Values<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Columns)
    }
}

struct Columns;

impl<'de> Visitor<'de> for Columns {
    type Value = Values<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a process")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values<'de>, A::Error> {
        let mut values = [None; COLUMNS.len()];
        while let Some((name, value)) = map.next_entry::<&str, &RawValue>()? {
            if let Some(at) = COLUMNS.iter().position(|it| *it == name) {
                values[at] = Some(value);
            }
        }
        Ok(Values(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn sample(processes: &str) -> String {
        format!(
            "{{\"time_unix_ns\":7,\"node\":\"n\",\"backend\":\"test\",\"notes\":[],\
             \"processes\":[{processes}]}}"
        )
    }

    fn change(table: &mut PageTable, processes: &str) -> Value {
        let text = table.apply(&sample(processes)).expect("a sample");
        serde_json::from_str(&text).expect("JSON")
    }

    const FIRST: &str = r#"{"pid":1,"start_time_ns":5,"comm":"a","cpu_ns":10,"cpu_percent":0.5}"#;

    #[test]
    fn only_changed_values_are_sent() {
        let mut table = PageTable::default();
        let new = change(&mut table, FIRST);
        assert_eq!(new["new"][0][4], "a");
        let same = change(&mut table, FIRST);
        assert_eq!(
            (&same["set"], &same["new"], &same["gone"]),
            (&json!([]), &json!([]), &json!([]))
        );
        let grown =
            change(&mut table, &FIRST.replace("10", "11").replace(",\"cpu_percent\":0.5", ""));
        assert_eq!(grown["set"], json!([[1, 5, 10, 11, 12, null]]));
        let reused = change(&mut table, &FIRST.replace("\":5,", "\":6,"));
        assert_eq!((&reused["gone"], &reused["new"][0][1]), (&json!([[1, 5]]), &json!(6)));
    }

    #[test]
    fn a_later_viewer_gets_the_current_snapshot() {
        let mut table = PageTable::default();
        assert_eq!(table.matching(|_| true), None);
        assert!(table.snapshot().starts_with("{\"t\":null,\"columns\":[\"pid\","));
        let _ = change(&mut table, FIRST);
        let _ = change(&mut table, &FIRST.replace("10", "12"));
        let whole: Value = serde_json::from_str(&table.snapshot()).expect("JSON");
        assert_eq!(
            table.matching(|row| row[10].as_deref() == Some("12")).as_deref(),
            Some("[[1,5]]")
        );
        assert_eq!(table.matching(|_| false).as_deref(), Some("[]"));
        assert_eq!((&whole["rows"][0][10], &whole["t"]), (&json!(12), &json!(7)));
    }

    #[test]
    fn a_malformed_sample_changes_nothing() {
        let mut table = PageTable::default();
        assert_eq!(table.apply("{}"), None);
        assert_eq!(table.apply("nonsense"), None);
    }
}

//! The table of processes that all viewers share: as a whole for who comes, and as what changed
//! for who is there.
//!
//! In: samples, as text. Out: text. A value is compared as it is written, so what is told and what
//! was read cannot differ; an idle process costs nothing to tell.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The columns of a process. The first two name it for ever.
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

/// A process, by id and start.
type Key = (u64, u64);
/// Its values as they are written; absent where they are.
pub type Row = [Option<Box<str>>; COLUMNS.len()];

/// The table.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<Key, Row>,
    /// What is told anew each time: the node, notes, when.
    head: String,
}

#[derive(serde::Deserialize)]
struct Sample<'a> {
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

impl Table {
    /// Takes a sample; gives what it changes, or nothing where it makes no sense.
    pub fn take(&mut self, text: &str) -> Option<String> {
        let sample: Sample<'_> = serde_json::from_str(text).ok()?;
        self.head.clear();
        sample.head(&mut self.head);
        let mut change = Change::default();
        let mut before = std::mem::take(&mut self.rows);
        for Values(values) in &sample.processes {
            let Some(key) = key(values) else { continue };
            let row = match before.remove(&key) {
                Some(mut row) => {
                    change.between(&mut row, values);
                    row
                }
                None => {
                    change.came(values);
                    values.map(|it| it.map(|it| it.get().into()))
                }
            };
            self.rows.insert(key, row);
        }
        before.keys().for_each(|key| change.gone(*key));
        let Change { set, new, gone } = change;
        let head = &self.head;
        Some(format!("{{{head},\"set\":[{set}],\"new\":[{new}],\"gone\":[{gone}]}}"))
    }

    /// Those who fit, by id and start; nothing, before there is anybody.
    pub fn fits(&self, is_fit: impl Fn(&Row) -> bool) -> Option<String> {
        let fit = self.rows.iter().filter(|(_, row)| is_fit(row));
        let mut list = String::new();
        for ((pid, start), _) in fit {
            comma(&mut list);
            let _ = write!(list, "[{pid},{start}]");
        }
        (!self.head.is_empty()).then(|| format!("[{list}]"))
    }

    /// All of it.
    pub fn whole(&self) -> String {
        let mut rows = String::new();
        for row in self.rows.values() {
            list(&mut rows, row.iter().map(Option::as_deref));
        }
        let columns = serde_json::to_string(&COLUMNS).expect("names are text");
        let head = if self.head.is_empty() { "\"t\":null" } else { &self.head };
        format!("{{{head},\"columns\":{columns},\"rows\":[{rows}]}}")
    }
}

impl Sample<'_> {
    /// The same in each message. Writing to a `String` cannot fail.
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

/// What one sample changes, as lists.
#[derive(Default)]
struct Change {
    set: String,
    new: String,
    gone: String,
}

impl Change {
    /// A process that was there: its id, and pairs of a column and a value. Writing to a `String`
    /// cannot fail.
    fn between(&mut self, row: &mut Row, now: &[Option<&RawValue>; COLUMNS.len()]) {
        let mut told = false;
        for (at, (old, new)) in row.iter_mut().zip(now).enumerate() {
            let new = new.map(RawValue::get);
            if old.as_deref() == new {
                continue;
            }
            *old = new.map(Into::into);
            if !told {
                told = true;
                comma(&mut self.set);
                let (pid, start) =
                    (now[0].map_or("0", RawValue::get), now[1].map_or("0", RawValue::get));
                let _ = write!(self.set, "[{pid},{start}");
            }
            let _ = write!(self.set, ",{at},{}", new.unwrap_or("null"));
        }
        if told {
            self.set.push(']');
        }
    }

    fn came(&mut self, now: &[Option<&RawValue>; COLUMNS.len()]) {
        list(&mut self.new, now.iter().map(|it| it.map(RawValue::get)));
    }

    fn gone(&mut self, (pid, start): Key) {
        comma(&mut self.gone);
        let _ = write!(self.gone, "[{pid},{start}]");
    }
}

fn key(values: &[Option<&RawValue>]) -> Option<Key> {
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

    fn change(table: &mut Table, processes: &str) -> Value {
        let text = table.take(&sample(processes)).expect("a sample");
        serde_json::from_str(&text).expect("JSON")
    }

    const FIRST: &str = r#"{"pid":1,"start_time_ns":5,"comm":"a","cpu_ns":10,"cpu_percent":0.5}"#;

    #[test]
    fn what_stays_is_not_told_again_and_what_changes_is() {
        let mut table = Table::default();
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
    fn who_comes_later_gets_what_the_others_have_by_then() {
        let mut table = Table::default();
        assert_eq!(table.fits(|_| true), None);
        assert!(table.whole().starts_with("{\"t\":null,\"columns\":[\"pid\","));
        let _ = change(&mut table, FIRST);
        let _ = change(&mut table, &FIRST.replace("10", "12"));
        let whole: Value = serde_json::from_str(&table.whole()).expect("JSON");
        assert_eq!(table.fits(|row| row[10].as_deref() == Some("12")).as_deref(), Some("[[1,5]]"));
        assert_eq!(table.fits(|_| false).as_deref(), Some("[]"));
        assert_eq!((&whole["rows"][0][10], &whole["t"]), (&json!(12), &json!(7)));
    }

    #[test]
    fn what_is_no_sample_changes_nothing() {
        let mut table = Table::default();
        assert_eq!(table.take("{}"), None);
        assert_eq!(table.take("nonsense"), None);
    }
}

//! Lines and tables of `when`.
//!
//! In: what happened. Out: text. What a process wrote in its name or its arguments moves no cursor.

use crate::format::{events, human};
use crate::model::event::Signal;
use crate::model::id::{Ns, Pid};
use crate::probe::description::call::Kind;
use crate::probe::find;
use crate::probe::tap::Called;
use crate::probe::tap::plan::Edge;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

/// What is known of processes that were shown before.
pub struct Show {
    begin: Ns,
    comms: HashMap<Pid, String>,
    /// Addresses that have names, by process.
    addresses: HashMap<Pid, HashMap<String, u64>>,
}

impl Show {
    /// Times are told since then.
    pub fn new(begin: Ns) -> Self {
        Self { begin, comms: HashMap::new(), addresses: HashMap::new() }
    }

    /// The beginning of a line: when, who.
    fn head(&mut self, at: Ns, pid: Pid) -> String {
        let comm = self.comms.entry(pid).or_insert_with(|| {
            let text = std::fs::read_to_string(format!("/proc/{}/comm", pid.0));
            text.unwrap_or_default().trim_end().to_owned()
        });
        let mut line = format!("{:12.6} {:>7} ", at.since(self.begin).seconds(), pid.0);
        human::escaped(comm, &mut line);
        line.push(' ');
        line
    }

    /// Another program is in the process: what was known of it does not hold.
    pub fn forget(&mut self, pid: Pid) {
        _ = self.comms.remove(&pid);
        _ = self.addresses.remove(&pid);
    }

    /// A call, or its return.
    pub fn call(&mut self, it: &Called) -> String {
        let mut line = self.head(it.at, it.pid);
        let mut values = it.plan.told.iter().zip(&it.values).map(|(told, heard)| {
            let named = match (&told.kind, heard.raw) {
                (Kind::Named(names, width), Some(raw)) => {
                    let addresses = self.addresses.entry(it.pid).or_insert_with(|| {
                        let names: HashSet<&str> = names.variables().collect();
                        let found = find::variables(Path::new("/proc"), it.pid, &names, |_| true);
                        // Without them the handles are shown as the addresses that they are.
                        found.unwrap_or_default()
                    });
                    names.of_address(width.cut(raw), addresses)
                }
                _ => None,
            };
            (told.name.as_str(), named.map_or_else(|| heard.shown(told), str::to_owned))
        });
        let name = &it.tap.name;
        match it.tap.edge {
            Edge::Start => {
                let values: Vec<String> =
                    values.map(|(name, value)| format!("{name}={value}")).collect();
                _ = write!(line, "{name}({})", values.join(", "));
            }
            Edge::End => {
                _ = write!(line, "{name}");
                let result = it.plan.told.first().is_some_and(|it| it.name == "result");
                if let Some((_, value)) = result.then(|| values.next()).flatten() {
                    _ = write!(line, " = {value}");
                }
                values.for_each(|(name, value)| _ = write!(line, " {name}={value}"));
            }
        }
        line
    }

    /// A signal that was taken.
    pub fn signal(&mut self, at: Ns, pid: Pid, number: u64) -> String {
        let number = u32::try_from(number).unwrap_or(0);
        let signal = Signal { number, code: 0, thread: None };
        self.head(at, pid) + &events::name(&signal)
    }

    /// A program that was executed.
    pub fn exec(&mut self, at: Ns, pid: Pid) -> String {
        self.forget(pid);
        self.head(at, pid) + "executed"
    }

    /// A process that ended, with what wait(2) tells.
    pub fn end(&mut self, at: Ns, pid: Pid, code: u64) -> String {
        let mut line = self.head(at, pid);
        let (status, signal) = (code >> 8 & 0xff, code & 0x7f);
        _ = match signal {
            0 => write!(line, "ended with {status}"),
            signal => {
                let number = u32::try_from(signal).unwrap_or(0);
                let signal = Signal { number, code: 0, thread: None };
                write!(line, "ended by {}", events::name(&signal))
            }
        };
        line
    }
}

/// A row of the table at the end.
pub struct Row {
    /// What happened.
    pub what: String,
    /// How often.
    pub count: u64,
    /// How long half of the calls took at most, and 99 of 100.
    pub times: Option<[Ns; 2]>,
}

/// The table.
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.what.len()).max().unwrap_or(0).max(5);
    let mut text = format!("{:<width$} {:>10} {:>8} {:>8}\n", "EVENT", "COUNT", "P50", "P99");
    for row in rows {
        let times = row.times.map(|times| times.map(span)).unwrap_or_default();
        let [half, most] = &times;
        _ = writeln!(text, "{:<width$} {:>10} {half:>8} {most:>8}", row.what, row.count);
    }
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn span(ns: Ns) -> String {
    let mut text = String::new();
    human::span(ns.0 as f64, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_times_where_there_are_any() {
        let times = Some([Ns(1_200), Ns(3_400_000)]);
        let rows = [
            Row { what: "call MPI_Send".into(), count: 23, times },
            Row { what: "SIGTERM".into(), count: 1, times: None },
        ];
        let want = "\
EVENT              COUNT      P50      P99
call MPI_Send         23    1.2us    3.4ms
SIGTERM                1
";
        assert_eq!(table(&rows), want);
    }
}

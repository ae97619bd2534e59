//! Lines and tables of `when`, for people.
//!
//! In: what happened. Out: text. What a process wrote in its name or its arguments moves no cursor.

use super::{Event, Row, What};
use monitor_event::tap::Edge;
use monitor_format::{events, human};
use monitor_model::id::Ns;
use std::fmt::Write as _;

/// A line for what happened, with the time since the beginning.
pub fn line(it: &Event, begin: Ns) -> String {
    let mut line = format!("{:12.6} {:>7} ", it.at.since(begin).seconds(), it.pid.0);
    human::escaped(it.comm.as_deref().unwrap_or("-"), &mut line);
    line.push(' ');
    match &it.what {
        What::Call { edge, name, values } => {
            let mut values = values.iter().map(|it| (it.name.as_str(), it.shown.as_str()));
            _ = write!(line, "{name}");
            if *edge == Edge::Start {
                let values: Vec<String> =
                    values.map(|(name, value)| format!("{name}={value}")).collect();
                _ = write!(line, "({})", values.join(", "));
            } else {
                if let Some(result) = it.what.result() {
                    _ = write!(line, " = {}", result.shown);
                    _ = values.next();
                }
                values.for_each(|(name, value)| _ = write!(line, " {name}={value}"));
            }
        }
        What::Signal(signal) => line += &events::name(signal),
        What::Exec => line += "executed",
        What::End { status, signal: None } => _ = write!(line, "ended with {status}"),
        What::End { signal: Some(signal), .. } => {
            _ = write!(line, "ended by {}", events::name(signal));
        }
    }
    line
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

//! Events and summary of `when` as text.
//!
//! In: events. Out: lines and a table. Control characters in command names and arguments are
//! escaped.

use super::{ShownEvent, ShownEventKind, SummaryRow};
use monitor_event::tap::Edge;
use monitor_format::{events, human};
use monitor_model::id::Ns;
use std::fmt::Write as _;

/// Formats an event with the time since the beginning.
pub fn line(it: &ShownEvent, begin: Ns) -> String {
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
pub fn table(rows: &[SummaryRow]) -> String {
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
    human::duration(ns.0 as f64, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_times_only_where_they_were_measured() {
        let times = Some([Ns(1_200), Ns(3_400_000)]);
        let rows = [
            SummaryRow { what: "call MPI_Send".into(), count: 23, times },
            SummaryRow { what: "SIGTERM".into(), count: 1, times: None },
        ];
        let want = "\
EVENT              COUNT      P50      P99
call MPI_Send         23    1.2us    3.4ms
SIGTERM                1
";
        assert_eq!(table(&rows), want);
    }
}

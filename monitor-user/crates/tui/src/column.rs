//! The columns of the table: which there are by default, how wide they are, what stands in them.
//!
//! Any field of the list can be a column. Those that nobody chose are as many as the line holds,
//! and none of them needs a hook that somebody has to ask for.

use monitor_format::human;
use monitor_model::field::{Category, Kind, ProcessField, Unit, Value};
use monitor_model::group::{Group, sum};
use monitor_model::sample::Process;

/// The columns of a newcomer, each with the width of the line from which it is shown.
const DEFAULT: [(ProcessField, u16); 13] = [
    (ProcessField::Pid, 0),
    (ProcessField::User, 100),
    (ProcessField::State, 0),
    (ProcessField::Threads, 60),
    (ProcessField::CpuPercent, 0),
    (ProcessField::RunDelayPercent, 50),
    (ProcessField::Rss, 0),
    (ProcessField::ReadRate, 70),
    (ProcessField::WrittenRate, 70),
    (ProcessField::TcpReceivedRate, 80),
    (ProcessField::TcpSentRate, 80),
    (ProcessField::Comm, 0),
    (ProcessField::Cmdline, 120),
];

/// The columns of a line of this width.
pub fn by_width(width: u16) -> Vec<ProcessField> {
    DEFAULT.iter().filter(|(_, from)| width >= *from).map(|(field, _)| *field).collect()
}

/// The columns that can be chosen: all but those that a row of the table does not have.
pub fn all() -> impl Iterator<Item = ProcessField> {
    ProcessField::all().filter(|field| !matches!(field, ProcessField::Tid | ProcessField::Ended))
}

/// Whether a column starts at its left end.
pub fn is_left(field: ProcessField) -> bool {
    matches!(field.field().kind, Kind::Text | Kind::Letter)
}

/// Cells of a column; a text that is the last one takes what is left of the line.
pub fn width(field: ProcessField) -> u16 {
    let least = match (field, field.field().unit) {
        (ProcessField::Pid | ProcessField::Ppid, _) => 7,
        (ProcessField::User, _) => 8,
        (ProcessField::Comm, _) => 15,
        (ProcessField::Job, _) => 16,
        (ProcessField::Cmdline | ProcessField::Cgroup | ProcessField::Path, _) => 24,
        (ProcessField::Threads, _) => 4,
        (_, Unit::Percent | Unit::Nanoseconds) => 6,
        (_, Unit::Bytes | Unit::BytesPerSecond | Unit::Count | Unit::PerSecond) => 5,
        (_, Unit::None) => 1,
    };
    let title = field.field().title.chars().count();
    u16::try_from(title).unwrap_or(least).max(least)
}

/// Appends what stands in a column of a process; `-` for what is absent.
pub fn of_process(process: &Process, field: ProcessField, out: &mut String) {
    if field == ProcessField::Comm {
        return human::escaped(&process.comm(), out);
    }
    write(process.value(field), field, out);
}

/// The same of a group: what adds up, and its name in place of a command.
pub fn of_group(group: &Group, field: ProcessField, out: &mut String) {
    if sum(field).is_some() {
        write(group.row.value(field), field, out);
    }
}

fn write(value: Option<Value<'_>>, field: ProcessField, out: &mut String) {
    match value {
        Some(value) => human::value(field.field(), value, out),
        None => out.push('-'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_columns_show_what_a_newcomer_looks_for_and_name_the_command() {
        let columns = by_width(80);
        let used: u16 = columns.iter().map(|field| width(*field) + 1).sum();
        assert!(columns.contains(&ProcessField::TcpSentRate) && used <= 80, "{used}");
    }

    #[test]
    fn a_wide_line_shows_users_and_arguments() {
        assert!(by_width(100).contains(&ProcessField::User));
        assert!(by_width(120).contains(&ProcessField::Cmdline));
    }

    #[test]
    fn no_default_column_attaches_what_nobody_asked_for() {
        use monitor_sampling::need;
        let columns = by_width(u16::MAX);
        let needed = need::capabilities(monitor_model::scope::Scope::All, &[], &columns);
        assert!(needed.iter().all(|capability| !capability.opt_in()), "{needed:?}");
    }
}

//! The columns of the screen's table: the default ones (`CPU%`, `DLY%` and others), their width and
//! their content; the title is that of the field in `monitor_model::field`. Those of `watch` and
//! `sample` are in the program's `columns`.
//!
//! Every process field can be a column. The default columns depend on the width of the line, and
//! none of them needs an optional hook.

use monitor_format::human;
use monitor_model::{
    Category, FieldValue, Group, Process, ProcessField, Unit, ValueKind, group::aggregation,
};

/// The default columns, each with the smallest line width that shows it.
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

/// The default columns for a line width.
pub fn by_width(width: u16) -> Vec<ProcessField> {
    DEFAULT.iter().filter(|(_, from)| width >= *from).map(|(field, _)| *field).collect()
}

/// The columns that can be selected: all fields of a row.
pub fn all() -> impl Iterator<Item = ProcessField> {
    ProcessField::all().filter(|field| !matches!(field, ProcessField::Tid | ProcessField::Ended))
}

/// Whether a column is left-aligned.
pub fn is_left(field: ProcessField) -> bool {
    matches!(field.field().kind, ValueKind::Text | ValueKind::Letter)
}

/// The width of a column in cells; a text in the last column takes the rest of the line.
pub fn width(field: ProcessField) -> u16 {
    let min = match (field, field.field().unit) {
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
    u16::try_from(title).unwrap_or(min).max(min)
}

/// Appends the value of a process in a column; `-` if it is absent.
pub fn process_cell(process: &Process, field: ProcessField, out: &mut String) {
    if field == ProcessField::Comm {
        return human::escaped(&process.comm(), out);
    }
    write(process.value(field), field, out);
}

/// Appends the value of a group in a column; nothing if the field is not aggregated.
pub fn group_cell(group: &Group, field: ProcessField, out: &mut String) {
    if aggregation(field).is_some() {
        write(group.row.value(field), field, out);
    }
}

fn write(value: Option<FieldValue<'_>>, field: ProcessField, out: &mut String) {
    match value {
        Some(value) => human::value(field.field(), value, out),
        None => out.push('-'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_columns_fit_eighty_cells() {
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
    fn no_default_column_needs_an_optional_capability() {
        use monitor_sampling::capability_deps;
        let columns = by_width(u16::MAX);
        let needed = capability_deps::capabilities(monitor_model::scope::Scope::All, &[], &columns);
        assert!(needed.iter().all(|capability| !capability.opt_in()), "{needed:?}");
    }
}

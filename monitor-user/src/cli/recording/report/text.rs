//! A report as text.

use super::input::{ReportInput, percent, span_text};
use monitor_format::grid::{Column, Grid, Side};
use monitor_format::human::{duration, escaped, scaled};
use monitor_model::field::{Category, ProcessField as F};
use monitor_model::group::GroupBy;
use monitor_model::id::Ns;
use monitor_sampling::usage_report::{ReportBy, UsageEntry};
use std::fmt::Write;

/// Maximum number of short-lived commands that are listed.
const BRIEF: usize = 5;

/// Formats the report for this width. Writing to a `String` cannot fail.
pub fn text(input: &ReportInput<'_>, width: usize) -> String {
    let (header, ledger) = (input.header, input.ledger);
    let mut out = String::new();
    let _ = write!(out, "{}  {}  ", header.node, header.backend);
    let _ = writeln!(out, "{} processors\n{}", header.processors, span_text(ledger));
    total(input, &mut out);
    out.push('\n');
    let mut grid = Grid::default();
    grid.begin(columns(input.by).into_iter());
    let entries = ledger.entries();
    for (_, entry) in entries.iter().take(input.top) {
        row(entry, input, &mut grid);
    }
    grid.lines(width, &mut out);
    let more = entries.len().saturating_sub(input.top) as u64 + ledger.unlisted();
    if more > 0 {
        let _ = writeln!(out, "and {more} more with lower usage");
    }
    brief(input, &mut out);
    out
}

fn bytes(value: Option<u64>, out: &mut String) {
    match value {
        Some(bytes) => scaled(bytes as f64, 1024.0, out),
        None => out.push('-'),
    }
}

fn total(input: &ReportInput<'_>, out: &mut String) {
    let total = input.ledger.total();
    let cpu = total.used(F::CpuTime).unwrap_or(0);
    duration(cpu as f64, out);
    let [busy, most] = input.busy();
    let _ = write!(out, " of CPU, {busy:.2} processors busy on average, {most:.2} at most; ");
    bytes(total.used(F::ReadBytes), out);
    out.push_str(" read, ");
    bytes(total.used(F::WrittenBytes), out);
    out.push_str(" written\n");
}

fn columns(of: ReportBy) -> Vec<Column> {
    let right = |title| Column { title, min_width: 0, side: Side::Right };
    let first = match of {
        ReportBy::Process => &["PID"][..],
        ReportBy::Group(_) => &["PROCS", "ENDED"],
    };
    let name = match of {
        ReportBy::Process => "COMMAND",
        ReportBy::Group(GroupBy::Rule) => "RULE",
        ReportBy::Group(by) => by.field().field().title,
    };
    let rest = ["CPU", "CPU%", "P50", "P95", "MAX", "RSS P95", "MAX", "READ", "WRITTEN"];
    let columns = first.iter().chain(&rest).map(|title| right(title));
    columns.chain([Column { title: name, min_width: 0, side: Side::Left }]).collect()
}

fn row(entry: &UsageEntry, input: &ReportInput<'_>, grid: &mut Grid) {
    match entry.id {
        Some(id) => grid.cell(|out| out.push_str(&id.pid.0.to_string())),
        None => {
            grid.cell(|out| out.push_str(&entry.processes.to_string()));
            grid.cell(|out| out.push_str(&entry.ended.to_string()));
        }
    }
    let cpu = entry.used(F::CpuTime);
    grid.cell(|out| match cpu {
        Some(cpu) => duration(cpu as f64, out),
        None => out.push('-'),
    });
    let percentiles = [entry.cpu.percentile(50.0), entry.cpu.percentile(95.0), entry.cpu.largest()];
    for value in [input.cpu_percent(entry)].into_iter().chain(percentiles.map(|it| it.map(percent)))
    {
        grid.cell(|out| match value {
            Some(value) => out.push_str(&format!("{value:.1}")),
            None => out.push('-'),
        });
    }
    for value in [entry.resident.percentile(95.0), entry.resident.largest()] {
        grid.cell(|out| bytes(value.map(|kib| kib << 10), out));
    }
    for field in [F::ReadBytes, F::WrittenBytes] {
        grid.cell(|out| bytes(entry.used(field), out));
    }
    grid.cell(|out| escaped(&entry.name, out));
}

/// Processes that started and exited between two samples.
fn brief(input: &ReportInput<'_>, out: &mut String) {
    let all = input.ledger.short_lived();
    let processes: u64 = all.iter().map(|(_, it)| it.processes).sum();
    if processes == 0 {
        return;
    }
    let cpu = Ns(all.iter().map(|(_, it)| it.cpu.0).sum());
    let _ = write!(out, "\n{processes} processes lived for less than one interval: ");
    duration(cpu.0 as f64, out);
    out.push_str(" of CPU\n ");
    for (name, it) in all.iter().take(BRIEF) {
        out.push(' ');
        escaped(name, out);
        let _ = write!(out, " x{} ", it.processes);
        duration(it.cpu.0 as f64, out);
        out.push(',');
    }
    out.truncate(out.trim_end_matches(',').len());
    let more = all.len().saturating_sub(BRIEF);
    out.push_str(&if more > 0 { format!(", {more} more\n") } else { "\n".into() });
}

//! A report as one self-contained HTML file.

use super::chart::{STYLE, each, quoted};
use super::input::{ReportInput, percent, span_text};
use monitor_format::human;
use monitor_model::field::ProcessField as F;
use monitor_sampling::usage_report::{ReportBy, UsageEntry};
use std::fmt::Write;

/// Maximum rows of the table.
const ROWS: usize = 1000;

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem} h2{font-size:1.1rem;margin-top:2rem} p{margin:.4rem 0}
svg{width:100%;height:auto;display:block;margin:1rem 0}
.wide{overflow-x:auto} table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .5rem;text-align:right;white-space:nowrap;border-bottom:1px solid #8884}
th.name,td.name{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:14rem}
.note{color:#b00} @media (prefers-color-scheme:dark){.note{color:#f88}}";

/// Formats the page. Writing to a `String` cannot fail.
pub fn page(input: &ReportInput<'_>) -> String {
    let (header, ledger) = (input.header, input.ledger);
    let (node, path) = (quoted(&header.node), quoted(&input.path.display().to_string()));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{node}: resource usage</title>\n\
         <style>{PAGE_STYLE}\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{node}</h1>\n<p>{path}: {}; read by {}, {} processors</p>\n",
        span_text(ledger),
        quoted(&header.backend),
        header.processors,
    );
    let cpu = ledger.total().used(F::CpuTime).unwrap_or(0);
    let [busy, most] = input.busy();
    let _ = writeln!(
        out,
        "<p>{} of CPU: {busy:.2} processors busy on average, {most:.2} at most</p>",
        time(cpu),
    );
    for note in input.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", quoted(note));
    }
    each(input).iter().for_each(|plot| out.push_str(plot));
    table(input, &mut out);
    brief(input, &mut out);
    out + "</body>\n</html>\n"
}

fn time(ns: u64) -> String {
    human::duration_text(ns as f64)
}

fn bytes(value: Option<u64>) -> String {
    value.map_or_else(|| "–".into(), |bytes| human::scaled_text(bytes as f64, 1024.0))
}

fn table(input: &ReportInput<'_>, out: &mut String) {
    let process = input.by == ReportBy::Process;
    let kind = input.by.name();
    let _ = writeln!(out, "<h2>By {kind}</h2>\n<div class=\"wide\"><table>\n<tr>");
    let first = if process { &["pid", "user"][..] } else { &["processes", "ended"] };
    let shares = ["CPU", "CPU %", "p50", "p95", "p99", "max", "memory p95", "max"];
    let rest = ["waited", "read", "written", "TCP in", "TCP out"];
    let _ = write!(out, "<th class=\"name\">{kind}</th>");
    for title in first.iter().chain(&shares).chain(&rest) {
        let _ = write!(out, "<th>{title}</th>");
    }
    out.push_str("</tr>\n");
    let entries = input.ledger.entries();
    for (_, entry) in entries.iter().take(ROWS) {
        row(entry, input, out);
    }
    out.push_str("</table></div>\n");
    let more = entries.len().saturating_sub(ROWS) as u64 + input.ledger.unlisted();
    if more > 0 {
        let _ = writeln!(out, "<p>and {more} more with lower usage</p>");
    }
}

fn row(entry: &UsageEntry, input: &ReportInput<'_>, out: &mut String) {
    let cpu = entry.used(F::CpuTime);
    let share = |value: Option<f64>| value.map_or("–".into(), |it| format!("{it:.1}"));
    let at = |percentile| share(entry.cpu.percentile(percentile).map(percent));
    let name = entry.cmdline.as_ref().unwrap_or(&entry.name);
    let _ = write!(out, "<tr><td class=\"name\">{}</td>", quoted(name));
    let (first, second) = match entry.id {
        Some(id) => (id.pid.0.to_string(), quoted(entry.user.as_deref().unwrap_or("–"))),
        None => (entry.processes.to_string(), entry.ended.to_string()),
    };
    let cells = [
        first,
        second,
        cpu.map_or("–".into(), time),
        share(input.cpu_percent(entry)),
        at(50.0),
        at(95.0),
        at(99.0),
        share(entry.cpu.largest().map(percent)),
        bytes(entry.resident.percentile(95.0).map(|kib| kib << 10)),
        bytes(entry.resident.largest().map(|kib| kib << 10)),
        entry.used(F::RunDelay).map_or("–".into(), time),
        bytes(entry.used(F::ReadBytes)),
        bytes(entry.used(F::WrittenBytes)),
        bytes(entry.used(F::TcpReceived)),
        bytes(entry.used(F::TcpSent)),
    ];
    for cell in cells {
        let _ = write!(out, "<td>{cell}</td>");
    }
    out.push_str("</tr>\n");
}

/// Processes that started and exited between two samples.
fn brief(input: &ReportInput<'_>, out: &mut String) {
    let all = input.ledger.short_lived();
    if all.is_empty() {
        return;
    }
    out.push_str("<h2>Processes that lived for less than one interval</h2>\n<table>\n");
    out.push_str("<tr><th class=\"name\">command</th><th>processes</th><th>CPU</th></tr>\n");
    for (name, it) in all.iter().take(ROWS) {
        let _ = writeln!(
            out,
            "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td></tr>",
            quoted(name),
            it.processes,
            time(it.cpu.0)
        );
    }
    out.push_str("</table>\n");
}

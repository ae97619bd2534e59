//! The node summary: backend, uptime, load, processors, memory, pressure, and the busiest disks and
//! interfaces with their history.

use super::line::{LineWriter, level, width};
use crate::state::layout::{Cpus, WITH_DIVISION, cpus};
use crate::state::trend::{KEPT, busy, memory};
use crate::theme::{Role, Theme};
use crate::{feed_source::PlaybackPos, state::ScreenState, state::row::counts};
use monitor_format::human;
use monitor_model::{
    BackendKind, Category, CpuField, Device, DiskField, NetField, Node, NodeField, NodeRow, Row,
};
use monitor_protocol::doctor::CapabilityReport;
use ratatui::{buffer::Buffer, layout::Rect};
use std::fmt::Write;

/// Draws the lines above the table.
pub fn draw(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    summary(state, first, buffer);
    let Some(node) = &state.update.rates.sample.node_stats else { return };
    let shape = cpus(node.cpus.len(), state.size);
    let of_cpus: Vec<Rect> = lines.by_ref().take(shape.lines.into()).collect();
    processors((state, node), shape, &of_cpus, buffer);
    if state.size.height >= WITH_DIVISION
        && let Some(line) = lines.next()
    {
        division(&node.row, LineWriter::new(buffer, state.theme, line));
    }
    if let Some(line) = lines.next() {
        memory_and_pressure((state, node), line, buffer);
    }
    if let Some(line) = lines.next() {
        devices((state, node), line, buffer);
    }
}

/// A value with its unit; `-` if it is absent.
fn value_text<F: Category, const N: usize>(row: &Row<F, N>, field: F) -> String {
    let mut text = String::new();
    match row.value(field) {
        Some(value) => human::value(field.field(), value, &mut text),
        None => text.push('-'),
    }
    text
}

fn summary(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
    let (update, sample) = (&state.update, &state.update.rates.sample);
    let right = cost(state);
    let left = Rect { width: area.width.saturating_sub(width(&right) + 1), ..area };
    let mut line = LineWriter::new(buffer, state.theme, left);
    line.text(Role::Title, &human::escaped_text(&sample.node)).skip(1);
    if !state.has_data {
        line.text(Role::Dim, "reading ...");
        return;
    }
    line.text(Role::Accent, sample.backend.name());
    line.whole(&[(Role::Dim, if sample.relayed { ", by the daemon" } else { "" })]);
    if let Some(it) = update.playback {
        playback(it, &mut line);
    }
    if state.view.frozen {
        line.skip(1).whole(&[(Role::Chosen, " FROZEN ")]);
    }
    if let Some(node) = &sample.node_stats {
        load(node, &mut line);
    }
    if update.rates.groups.is_none() {
        let living = counts(&update.rates).living;
        let living = update.matched.map_or(living, |matched| matched.max(living)).to_string();
        line.whole(&[(Role::Dim, "  "), (Role::Text, &living), (Role::Dim, " processes")]);
    }
    LineWriter::new(buffer, state.theme, area).at_end(Role::Dim, &right);
}

/// The position in a recording.
pub fn playback(it: PlaybackPos, line: &mut LineWriter<'_>) {
    let mut when = String::from(" ");
    human::timestamp(it.unix, &mut when);
    line.whole(&[(Role::Title, &when)]);
    line.whole(&[(Role::Title, &format!(" {} of {}", span(it.elapsed), span(it.length)))]);
}

/// Uptime and load.
fn load(node: &Node, line: &mut LineWriter<'_>) {
    let up = value_text(&node.row, NodeField::Uptime);
    line.whole(&[(Role::Dim, "  up "), (Role::Text, &up)]);
    let loads = [NodeField::Load1, NodeField::Load5, NodeField::Load15];
    let loads = loads.map(|field| value_text(&node.row, field)).join(" ");
    line.whole(&[(Role::Dim, "  load "), (Role::Text, &loads)]);
}

fn span(time: std::time::Duration) -> String {
    human::duration_text(time.as_nanos() as f64)
}

/// The usage of the monitor, and the state of its probes.
fn cost(state: &ScreenState) -> String {
    let mut text = String::new();
    for cost in &state.update.cost {
        let _ = write!(text, "{} ", cost.part);
        if let Some(percent) = cost.cpu_percent {
            let _ = write!(text, "{percent:.1}% ");
        }
        if let Some(bytes) = cost.rss_bytes {
            text += &human::scaled_text(bytes as f64, 1024.0);
            text.push(' ');
        }
    }
    text + probes(state)
}

/// The state of the requested probes, in short.
fn probes(state: &ScreenState) -> &'static str {
    let is_out = |it: &CapabilityReport| ["no", "failed"].contains(&&*it.state);
    match state.update.rates.sample.backend {
        _ if !state.has_data => "",
        BackendKind::Procfs => "no probes",
        _ if state.update.probes.iter().any(is_out) => "probe out: p",
        _ => "probes ok",
    }
}

/// How the time of all processors is divided, in percent of one; the last is the part of it that is
/// of no visible process. Then the time in which all tasks waited.
fn division(row: &NodeRow, mut line: LineWriter<'_>) {
    const PARTS: [(&str, NodeField); 8] = [
        ("user ", NodeField::UserPercent),
        (" nice ", NodeField::NicePercent),
        (" sys ", NodeField::SystemPercent),
        (" irq ", NodeField::IrqPercent),
        (" soft ", NodeField::SoftirqPercent),
        (" steal ", NodeField::StealPercent),
        (" idle ", NodeField::IdlePercent),
        (" other ", NodeField::UnattributedPercent),
    ];
    const FULL: [(&str, NodeField); 2] = [
        ("  all wait for mem ", NodeField::PsiMemoryFullPercent),
        (" io ", NodeField::PsiIoFullPercent),
    ];
    for (name, field) in PARTS {
        line.whole(&[(Role::Accent, name), (Role::Text, &value_text(row, field))]);
    }
    for (name, field) in FULL {
        let unit = if row.get(field).is_some() { "%" } else { "" };
        line.whole(&[(Role::Accent, name), (Role::Text, &(value_text(row, field) + unit))]);
    }
}

fn memory_and_pressure((state, node): (&ScreenState, &Node), area: Rect, buffer: &mut Buffer) {
    let mut line = LineWriter::new(buffer, state.theme, area);
    let bytes = |number| human::scaled_text(number, 1024.0);
    let mut share = |name: &str, used: f64, total: f64, cells: u16| {
        line.text(Role::Accent, name).skip(1).bar(used / total.max(1.0), cells).skip(1);
        line.whole(&[(Role::Text, &format!("{}/{}", bytes(used), bytes(total)))]).skip(2);
    };
    let cells = (area.width / 8).clamp(6, 20);
    if let Some((used, total)) = memory(&state.update.rates) {
        share("mem", used, total, cells);
    }
    let swap = |field| node.row.get(field).map(|it| it as f64);
    if let (Some(total), Some(free)) = (swap(NodeField::SwapTotal), swap(NodeField::SwapFree)) {
        share("swap", (total - free).max(0.0), total, cells / 2);
    }
    let stalls = [
        ("stall cpu ", NodeField::PsiCpuPercent),
        (" mem ", NodeField::PsiMemoryPercent),
        (" io ", NodeField::PsiIoPercent),
    ];
    for (name, field) in stalls {
        let unit = if node.row.get(field).is_some() { "%" } else { "" };
        line.whole(&[(Role::Accent, name), (Role::Text, &(value_text(&node.row, field) + unit))]);
    }
    process_counts(state, area, buffer);
}

/// The numbers of running, new and ended processes, at the end of the line.
fn process_counts(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
    let counts = counts(&state.update.rates);
    let text = format!("{} running +{} -{}", counts.running, counts.came, counts.went);
    if state.update.rates.groups.is_none() && area.width >= 96 {
        LineWriter::new(buffer, state.theme, area).at_end(Role::Dim, &text);
    }
}

/// Draws the processors on these lines.
fn processors(
    (state, node): (&ScreenState, &Node),
    shape: Cpus,
    lines: &[Rect],
    buffer: &mut Buffer,
) {
    let used = |row: &Row<CpuField, { CpuField::COUNT }>| {
        let idle = row.get(CpuField::IdlePercent).map(f64::from_bits);
        idle.map(|idle| (100.0 - idle).clamp(0.0, 100.0))
    };
    if shape.dense {
        return dense((state, node), lines, buffer);
    }
    for (chunk, area) in node.cpus.chunks(shape.per_line.into()).zip(lines) {
        let cell = area.width / shape.per_line;
        for ((number, row), nth) in chunk.iter().zip(0..) {
            let area = Rect { x: area.x + nth * cell, width: cell, ..*area };
            let mut line = LineWriter::new(buffer, state.theme, area);
            line.right(Role::Accent, &number.to_string(), 3).skip(1);
            let share = used(row);
            let percent = share.map_or_else(|| "-".into(), |it| format!("{it:.0}%"));
            let bar = line.left().saturating_sub(6);
            line.bar(share.unwrap_or(0.0) / 100.0, bar).right(Role::Text, &percent, 5);
        }
    }
}

/// Many processors: a symbol for each, and the mean.
fn dense((state, node): (&ScreenState, &Node), lines: &[Rect], buffer: &mut Buffer) {
    let levels = state.theme.spark_symbols();
    let Some(first) = lines.first() else { return };
    let beside = usize::from(first.width.saturating_sub(12).max(1));
    for (chunk, area) in node.cpus.chunks(beside).zip(lines) {
        let mut line = LineWriter::new(buffer, state.theme, *area);
        line.text(Role::Accent, "cpu ");
        for (_, row) in chunk {
            let Some(idle) = row.get(CpuField::IdlePercent).map(f64::from_bits) else {
                line.text(Role::Dim, "-");
                continue;
            };
            let share = (100.0 - idle) / 100.0;
            line.text(Theme::level(share), level(&levels, share));
        }
    }
    if let Some(mean) = busy(node) {
        let mut line = LineWriter::new(buffer, state.theme, *first);
        line.to(first.right().saturating_sub(7)).right(Role::Text, &format!("{mean:.1}%"), 6);
    }
}

/// The width of a device with its history, in cells.
const DEVICE_CELLS: u16 = 40;

/// Draws as many devices as fit.
fn devices((state, node): (&ScreenState, &Node), area: Rect, buffer: &mut Buffer) {
    let beside = (area.width / DEVICE_CELLS).max(1);
    let cell = area.width / beside;
    let disks = busiest(&node.disks, [DiskField::ReadBytes, DiskField::WrittenBytes], is_whole);
    let nets = busiest(&node.nets, [NetField::ReceivedBytes, NetField::SentBytes], |all, it| {
        it != "lo" || all.len() == 1
    });
    let of_disks =
        usize::from(beside.div_ceil(2)).max(usize::from(beside).saturating_sub(nets.len()));
    let disks = disks.into_iter().take(of_disks).map(|disk| {
        let rates = [("r", DiskField::ReadRate), ("w", DiskField::WrittenRate)];
        let busy = format!(" {}%", value_text(&disk.row, DiskField::BusyPercent));
        (&disk.name, rates.map(|(name, field)| (name, value_text(&disk.row, field))), busy)
    });
    let nets = nets.into_iter().map(|net| {
        let rates = [("in", NetField::ReceivedRate), ("out", NetField::SentRate)];
        (&net.name, rates.map(|(name, field)| (name, value_text(&net.row, field))), String::new())
    });
    for ((name, rates, more), nth) in disks.chain(nets).zip(0..beside) {
        let width = cell.saturating_sub(1);
        let mut line = LineWriter::new(buffer, state.theme, Rect { x: nth * cell, width, ..area });
        line.text(Role::Accent, name);
        for (label, rate) in rates {
            line.text(Role::Dim, &format!(" {label} ")).text(Role::Text, &rate);
            line.text(Role::Dim, "/s");
        }
        line.text(Role::Text, &more).skip(1);
        if let Some(series) = state.trends.device(name) {
            let room = usize::from(line.left()).min(KEPT);
            line.spark(series.last(room), series.max(room));
        }
    }
}

/// Devices by the bytes since boot, so that their order is stable.
fn busiest<F: Category, const N: usize>(
    all: &[Device<Row<F, N>>],
    totals: [F; 2],
    is_shown: impl Fn(&[&str], &str) -> bool,
) -> Vec<&Device<Row<F, N>>> {
    let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
    let mut shown: Vec<_> = all.iter().filter(|it| is_shown(&names, &it.name)).collect();
    let total_bytes = |it: &&Device<Row<F, N>>| -> u64 {
        totals.iter().filter_map(|field| it.row.get(*field)).sum()
    };
    shown.sort_by_key(|it| std::cmp::Reverse(total_bytes(it)));
    shown
}

/// Whether a disk is not a partition of another.
fn is_whole(all: &[&str], name: &str) -> bool {
    let is_part = |disk: &&str| {
        let rest = name.strip_prefix(*disk).unwrap_or_default();
        let number = rest.strip_prefix('p').unwrap_or(rest);
        !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
    };
    !all.iter().any(is_part)
}

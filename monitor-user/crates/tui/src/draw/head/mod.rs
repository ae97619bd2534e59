//! The node summary: backend, uptime, load, processors, memory, pressure, devices.

mod devices;
mod processors;

use super::line::LineWriter;
use crate::feed_source::PlaybackPos;
use crate::state::ScreenState;
use crate::state::layout::cpus;
use crate::state::row::counts;
use crate::state::trend::memory;
use crate::theme::Role;
use monitor_format::human;
use monitor_model::field::{Category, NodeField, Row};
use monitor_model::sample::{BackendKind, Node};
use monitor_protocol::doctor::CapabilityReport;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Draws the lines above the table.
pub fn draw(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    summary(state, first, buffer);
    let Some(node) = &state.update.rates.sample.node_stats else { return };
    let shape = cpus(node.cpus.len(), state.size);
    let of_cpus: Vec<Rect> = lines.by_ref().take(shape.lines.into()).collect();
    processors::draw((state, node), shape, &of_cpus, buffer);
    if let Some(line) = lines.next() {
        memory_and_pressure((state, node), line, buffer);
    }
    if let Some(line) = lines.next() {
        devices::draw((state, node), line, buffer);
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
    let width = u16::try_from(right.width()).unwrap_or(u16::MAX);
    let left = Rect { width: area.width.saturating_sub(width + 1), ..area };
    let mut line = LineWriter::new(buffer, state.theme, left);
    let mut node = String::new();
    human::escaped(&sample.node, &mut node);
    line.text(Role::Title, &node).skip(1);
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
    LineWriter::new(buffer, state.theme, area).to(area.right() - width).text(Role::Dim, &right);
}

/// The position in a recording.
fn playback(it: PlaybackPos, line: &mut LineWriter<'_>) {
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
    let mut text = String::new();
    human::duration(time.as_nanos() as f64, &mut text);
    text
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
            human::scaled(bytes as f64, 1024.0, &mut text);
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

fn memory_and_pressure((state, node): (&ScreenState, &Node), area: Rect, buffer: &mut Buffer) {
    let mut line = LineWriter::new(buffer, state.theme, area);
    let bytes = |number: f64| {
        let mut text = String::new();
        human::scaled(number, 1024.0, &mut text);
        text
    };
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
    let width = u16::try_from(text.len()).unwrap_or(u16::MAX);
    if state.update.rates.groups.is_none() && area.width >= 96 {
        let mut line = LineWriter::new(buffer, state.theme, area);
        line.to(area.right().saturating_sub(width)).text(Role::Dim, &text);
    }
}

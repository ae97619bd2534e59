//! The node: who reads, how long it is up, its load, processors, memory, pressure, devices.

mod devices;
mod processors;

use super::line::Line;
use crate::feed::Place;
use crate::look::Role;
use crate::state::State;
use crate::state::layout::cpus;
use crate::state::row::counts;
use crate::state::trend::memory;
use monitor_format::human;
use monitor_model::field::{Category, NodeField, Row};
use monitor_model::sample::{Node, Source};
use monitor_sampling::examination::Entry;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Draws the lines above the table.
pub fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    summary(state, first, buffer);
    let Some(node) = &state.news.rates.sample.node_stats else { return };
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

/// A number in its unit; `-`, if it is absent.
fn shown<F: Category, const N: usize>(row: &Row<F, N>, field: F) -> String {
    let mut text = String::new();
    match row.value(field) {
        Some(value) => human::value(field.field(), value, &mut text),
        None => text.push('-'),
    }
    text
}

fn summary(state: &State, area: Rect, buffer: &mut Buffer) {
    let (news, sample) = (&state.news, &state.news.rates.sample);
    let right = cost(state);
    let width = u16::try_from(right.width()).unwrap_or(u16::MAX);
    let left = Rect { width: area.width.saturating_sub(width + 1), ..area };
    let mut line = Line::new(buffer, state.look, left);
    let mut node = String::new();
    human::escaped(&sample.node, &mut node);
    line.text(Role::Title, &node).skip(1);
    if !state.begun {
        line.text(Role::Dim, "reading ...");
        return;
    }
    line.text(Role::Accent, sample.source.name());
    line.whole(&[(Role::Dim, if sample.relayed { ", by the daemon" } else { "" })]);
    if let Some(it) = news.place {
        place(it, &mut line);
    }
    if state.view.frozen {
        line.skip(1).whole(&[(Role::Chosen, " FROZEN ")]);
    }
    if let Some(node) = &sample.node_stats {
        load(node, &mut line);
    }
    if news.rates.groups.is_none() {
        let living = counts(&news.rates).living;
        let living = news.matched.map_or(living, |matched| matched.max(living)).to_string();
        line.whole(&[(Role::Dim, "  "), (Role::Text, &living), (Role::Dim, " processes")]);
    }
    Line::new(buffer, state.look, area).to(area.right() - width).text(Role::Dim, &right);
}

/// Where in a recording this is.
fn place(it: Place, line: &mut Line<'_>) {
    let mut when = String::from(" ");
    human::moment(it.unix, &mut when);
    line.whole(&[(Role::Title, &when)]);
    line.whole(&[(Role::Title, &format!(" {} of {}", span(it.at), span(it.of)))]);
}

/// How long the node is up, and what waits on it.
fn load(node: &Node, line: &mut Line<'_>) {
    let up = shown(&node.row, NodeField::Uptime);
    line.whole(&[(Role::Dim, "  up "), (Role::Text, &up)]);
    let loads = [NodeField::Load1, NodeField::Load5, NodeField::Load15];
    let loads = loads.map(|field| shown(&node.row, field)).join(" ");
    line.whole(&[(Role::Dim, "  load "), (Role::Text, &loads)]);
}

fn span(time: std::time::Duration) -> String {
    let mut text = String::new();
    human::span(time.as_nanos() as f64, &mut text);
    text
}

/// What the monitor costs, and whether its probes are well.
fn cost(state: &State) -> String {
    let mut text = String::new();
    for cost in &state.news.cost {
        let _ = write!(text, "{} ", cost.who);
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

/// How the probes are, in a word: of those that were asked for.
fn probes(state: &State) -> &'static str {
    let is_out = |it: &Entry| ["no", "failed"].contains(&&*it.state);
    match state.news.rates.sample.source {
        _ if !state.begun => "",
        Source::Procfs => "no probes",
        _ if state.news.probes.iter().any(is_out) => "probe out: p",
        _ => "probes ok",
    }
}

fn memory_and_pressure((state, node): (&State, &Node), area: Rect, buffer: &mut Buffer) {
    let mut line = Line::new(buffer, state.look, area);
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
    if let Some((used, total)) = memory(&state.news.rates) {
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
        line.whole(&[(Role::Accent, name), (Role::Text, &(shown(&node.row, field) + unit))]);
    }
    came_and_went(state, area, buffer);
}

/// How many run, came and went, at the end of the line.
fn came_and_went(state: &State, area: Rect, buffer: &mut Buffer) {
    let counts = counts(&state.news.rates);
    let text = format!("{} running +{} -{}", counts.running, counts.came, counts.went);
    let width = u16::try_from(text.len()).unwrap_or(u16::MAX);
    if state.news.rates.groups.is_none() && area.width >= 96 {
        let mut line = Line::new(buffer, state.look, area);
        line.to(area.right().saturating_sub(width)).text(Role::Dim, &text);
    }
}

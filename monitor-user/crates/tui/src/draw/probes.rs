//! The panel of the probes: their state, and the usage of the monitor.

use super::panel;
use crate::feed_source::Usage;
use crate::state::ScreenState;
use crate::theme::Role;
use monitor_format::human;
use monitor_format::wrap::wrap;
use monitor_protocol::doctor::CapabilityReport;
use ratatui::buffer::Buffer;

const WIDTH: u16 = 78;

/// Draws the panel from this line on.
pub fn draw(state: &ScreenState, from: u16, buffer: &mut Buffer) {
    panel::lines(state, ("Probes and cost", WIDTH), (&lines(state), from), buffer);
}

fn lines(state: &ScreenState) -> Vec<(Role, String)> {
    let mut lines: Vec<_> = state.update.cost.iter().map(|it| (Role::Text, cost(it))).collect();
    let title =
        format!("{:<14} {:<9} {:>10} {:>6} {:>7}", "PROBE", "STATE", "EVENTS", "LOST", "MAPS");
    lines.push((Role::Title, title));
    for it in state.update.probes.iter() {
        lines.push(probe(it));
        lines.extend(it.why.iter().chain(&it.fix).flat_map(|why| sentence(why)));
    }
    lines.extend(state.update.rates.sample.notes.iter().flat_map(|note| sentence(&note.text)));
    lines
}

/// The usage of a part of the monitor.
fn cost(it: &Usage) -> String {
    let mut text = format!("{:<8}", it.part);
    if let Some(percent) = it.cpu_percent {
        text += &format!(" {percent:.2}% of one processor");
    }
    if let Some(bytes) = it.rss_bytes {
        text.push_str("  resident ");
        human::scaled(bytes as f64, 1024.0, &mut text);
    }
    text
}

fn probe(it: &CapabilityReport) -> (Role, String) {
    let (events, lost) = (count(it.events, 1000.0), count(it.lost, 1000.0));
    let maps = count(it.map_bytes, 1024.0);
    let text = format!("{:<14} {:<9} {events:>10} {lost:>6} {maps:>7}", it.name, it.state);
    let role = match &*it.state {
        "no" | "failed" => Role::Full,
        "off" => Role::Dim,
        _ => Role::Text,
    };
    (role, text)
}

fn count(number: Option<u64>, base: f64) -> String {
    let mut text = String::new();
    match number {
        Some(number) => human::scaled(number as f64, base, &mut text),
        None => text.push('-'),
    }
    text
}

/// An explanation below a line, indented.
fn sentence(text: &str) -> Vec<(Role, String)> {
    const INDENT: usize = 2;
    let mut out = " ".repeat(INDENT);
    wrap(text, INDENT, usize::from(WIDTH) - 4, &mut out);
    out.lines().map(|line| (Role::High, line.to_owned())).collect()
}

//! Health of the probes, and what the monitor costs.

use super::panel;
use crate::format::human;
use crate::format::wrap::wrap;
use crate::serve::tui::look::Role;
use crate::serve::tui::state::State;
use ratatui::buffer::Buffer;

const WIDTH: u16 = 78;

/// Draws them from this line on.
pub fn draw(state: &State, from: u16, buffer: &mut Buffer) {
    panel::lines(state, ("Probes and cost", WIDTH), (&lines(state), from), buffer);
}

fn lines(state: &State) -> Vec<(Role, String)> {
    let mut lines = Vec::new();
    for cost in &state.news.cost {
        let mut text = format!("{:<8}", cost.who);
        if let Some(percent) = cost.cpu_percent {
            text += &format!(" {percent:.2}% of one processor");
        }
        if let Some(bytes) = cost.rss_bytes {
            text.push_str("  resident ");
            human::scaled(bytes as f64, 1024.0, &mut text);
        }
        lines.push((Role::Text, text));
    }
    let title =
        format!("{:<14} {:<9} {:>10} {:>6} {:>7}", "PROBE", "STATE", "EVENTS", "LOST", "MAPS");
    lines.push((Role::Title, title));
    for it in state.news.probes.iter() {
        let count = |number: Option<u64>, base| {
            let mut text = String::new();
            match number {
                Some(number) => human::scaled(number as f64, base, &mut text),
                None => text.push('-'),
            }
            text
        };
        let (events, lost) = (count(it.events, 1000.0), count(it.lost, 1000.0));
        let maps = count(it.map_bytes, 1024.0);
        let text = format!("{:<14} {:<9} {events:>10} {lost:>6} {maps:>7}", it.name, it.state);
        let role = match &*it.state {
            "no" | "failed" => Role::Full,
            "off" => Role::Dim,
            _ => Role::Text,
        };
        lines.push((role, text));
        for why in it.why.iter().chain(&it.fix) {
            let more = wrapped(why);
            lines.extend(more.into_iter().map(|text| (Role::High, text)));
        }
    }
    for note in &state.news.rates.sample.notes {
        lines.extend(wrapped(&note.text).into_iter().map(|text| (Role::High, text)));
    }
    lines
}

/// A sentence below what it is about.
fn wrapped(text: &str) -> Vec<String> {
    const INDENT: usize = 2;
    let mut out = " ".repeat(INDENT);
    wrap(text, INDENT, usize::from(WIDTH) - 4, &mut out);
    out.lines().map(str::to_owned).collect()
}

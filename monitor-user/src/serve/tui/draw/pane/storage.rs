//! Block I/O: what was transferred, and how long requests took.

use super::{PAIR, pairs};
use crate::format::human;
use crate::model::field::ProcessField as F;
use crate::model::histogram::Histogram;
use crate::model::sample::Process;
use crate::serve::tui::draw::line::Line;
use crate::serve::tui::draw::plot;
use crate::serve::tui::look::Role;
use crate::serve::tui::state::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const STORAGE: [F; 12] = [
    F::BlockReadRate,
    F::BlockReadBytes,
    F::BlockReads,
    F::BlockReadP50,
    F::BlockReadP99,
    F::BlockFlushes,
    F::BlockWrittenRate,
    F::BlockWrittenBytes,
    F::BlockWrites,
    F::BlockWriteP50,
    F::BlockWriteP99,
    F::BlockDiscards,
];

/// Draws it.
pub fn draw((state, process): (&State, &Process), area: Rect, buffer: &mut Buffer) {
    let above = 12_u16.div_ceil((area.width / PAIR).max(1)).min(area.height);
    pairs((state, process), &STORAGE, Rect { height: above, ..area }, buffer);
    let below = Rect { y: area.y + above, height: area.height - above, ..area };
    let half = below.width / 2;
    let parts = [
        (&process.latencies.block_read, "read latency", below.x),
        (&process.latencies.block_write, "write latency", below.x + half),
    ];
    for (histogram, name, x) in parts {
        let area = Rect { x, width: half, ..below };
        match histogram {
            Some(histogram) => latencies(state, (histogram, name), area, buffer),
            None => {
                let relayed = state.news.rates.sample.relayed;
                let why = if relayed { "the daemon tells percentiles" } else { "none counted yet" };
                let text = format!(" {name}: {why}");
                let _ = Line::new(buffer, state.look, area).text(Role::Dim, &text);
            }
        }
    }
}

/// How long requests took: a line for each power of two, the most frequent as long as the area.
fn latencies(
    state: &State,
    (histogram, name): (&Histogram, &str),
    area: Rect,
    buffer: &mut Buffer,
) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    let title = format!(" {name}, requests by longest time");
    Line::new(buffer, state.look, first).text(Role::Dim, &title);
    let bars = plot::powers(histogram, usize::from(area.height).saturating_sub(1));
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    for ((until, count), line) in bars.iter().zip(lines) {
        let mut text = String::new();
        human::span(*until as f64, &mut text);
        let mut it = Line::new(buffer, state.look, line);
        it.right(Role::Accent, &text, 8).skip(1);
        let cells = it.left().saturating_sub(10);
        let full = (*count as f64 / most as f64 * f64::from(cells)).ceil() as usize;
        it.text(Role::Low, &state.look.filling()[0].repeat(full)).skip(1);
        it.text(Role::Text, &count.to_string());
    }
}

//! The page of block I/O: requests by kind, bytes and latencies.

use crate::{column, draw::line::LineWriter, draw::plot, state::ScreenState, theme::Role};
use monitor_format::human;
use monitor_model::{Histogram, Process, field::ProcessField as F};
use ratatui::{buffer::Buffer, layout::Rect};

/// A line for each kind of request, with the fields of its columns.
const KINDS: [(&str, &[F]); 4] = {
    use F::{
        BlockDiscardedBytes, BlockDiscards, BlockFlushes, BlockReadBytes, BlockReadP50,
        BlockReadP99, BlockReadRate, BlockReads, BlockWriteP50, BlockWriteP99, BlockWrites,
        BlockWrittenBytes, BlockWrittenRate,
    };
    [
        ("reads", &[BlockReads, BlockReadBytes, BlockReadRate, BlockReadP50, BlockReadP99]),
        (
            "writes",
            &[BlockWrites, BlockWrittenBytes, BlockWrittenRate, BlockWriteP50, BlockWriteP99],
        ),
        ("discards", &[BlockDiscards, BlockDiscardedBytes]),
        ("flushes", &[BlockFlushes]),
    ]
};
const TITLES: [&str; 5] = ["REQUESTS", "BYTES", "BYTES/s", "P50", "P99"];
/// The widths of a name and of a number, in cells.
const NAME: u16 = 10;
const NUMBER: u16 = 9;

/// Draws the page.
pub fn draw((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
    let above = 5.min(area.height);
    counts((state, process), Rect { height: above, ..area }, buffer);
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
                let relayed = state.update.rates.sample.relayed;
                let why =
                    if relayed { "the daemon sends only percentiles" } else { "none counted yet" };
                let text = format!(" {name}: {why}");
                let _ = LineWriter::new(buffer, state.theme, area).text(Role::Dim, &text);
            }
        }
    }
}

/// The table of requests, bytes, rates and percentiles.
fn counts((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    let mut titles = LineWriter::new(buffer, state.theme, first);
    titles.skip(1 + NAME);
    for title in TITLES {
        titles.right(Role::Title, title, NUMBER);
    }
    let mut text = String::new();
    for ((name, fields), line) in KINDS.iter().zip(lines) {
        let mut it = LineWriter::new(buffer, state.theme, line);
        it.skip(1).text(Role::Accent, name).to(line.x + 1 + NAME);
        for field in *fields {
            text.clear();
            column::process_cell(process, *field, &mut text);
            it.right(Role::Text, &text, NUMBER);
        }
    }
}

/// A histogram of latencies: a bar for each power of two.
fn latencies(
    state: &ScreenState,
    (histogram, name): (&Histogram, &str),
    area: Rect,
    buffer: &mut Buffer,
) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    let title = format!(" {name}, requests by longest time");
    LineWriter::new(buffer, state.theme, first).text(Role::Dim, &title);
    let bars = plot::powers(histogram, usize::from(area.height).saturating_sub(1));
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    for ((until, count), line) in bars.iter().zip(lines) {
        let text = human::duration_text(*until as f64);
        let mut it = LineWriter::new(buffer, state.theme, line);
        it.right(Role::Accent, &text, 8).skip(1);
        let cells = it.left().saturating_sub(10);
        let full = (*count as f64 / most as f64 * f64::from(cells)).ceil() as usize;
        it.text(Role::Low, &state.theme.bar_symbols()[0].repeat(full)).skip(1);
        it.text(Role::Text, &count.to_string());
    }
}

//! Processors: a bar for each, or a symbol if there are many.

use crate::draw::line::{LineWriter, level};
use crate::state::ScreenState;
use crate::state::layout::Cpus;
use crate::state::trend::busy;
use crate::theme::{Role, Theme};
use monitor_model::field::{CpuField, Row};
use monitor_model::sample::Node;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the processors on these lines.
pub fn draw(
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
            let idle = row.get(CpuField::IdlePercent).map_or(100.0, f64::from_bits);
            let share = (100.0 - idle) / 100.0;
            line.text(Theme::level(share), level(&levels, share));
        }
    }
    if let Some(mean) = busy(node) {
        let mut line = LineWriter::new(buffer, state.theme, *first);
        line.to(first.right().saturating_sub(7)).right(Role::Text, &format!("{mean:.1}%"), 6);
    }
}

//! Plots: the history of a process in braille, and histograms by powers of two.

use super::line::LineWriter;
use crate::state::trend::{KEPT, PLOTTED, Series};
use crate::{state::ScreenState, theme::Role};
use monitor_format::human;
use monitor_model::{Category, Histogram, Identity, Unit};
use ratatui::widgets::canvas::{Canvas, Line as Segment};
use ratatui::{buffer::Buffer, layout::Rect, symbols::Marker, widgets::Widget};

/// Draws the history of a process: a plot for each field.
pub fn history(state: &ScreenState, id: Identity, area: Rect, buffer: &mut Buffer) {
    let Some(track) = state.trends.process(id) else { return };
    let each = area.height / u16::try_from(PLOTTED.len()).unwrap_or(1);
    for ((series, field), nth) in track.series.iter().zip(PLOTTED).zip(0..) {
        let area = Rect { y: area.y + nth * each, height: each, ..area };
        let Some(first) = area.rows().next() else { return };
        let shown = points(area).min(series.last(KEPT).len());
        let most = series.max(shown);
        let mut text = format!("{} 0 to ", field.field().title.trim_end_matches('%'));
        match field.field().unit {
            Unit::Bytes => human::scaled(most, 1024.0, &mut text),
            _ => text += &format!("{most:.1}%"),
        }
        match shown {
            1 => text += ", one reading",
            _ => text += &format!(", last {shown} readings"),
        }
        LineWriter::new(buffer, state.theme, first).text(Role::Accent, &text);
        let below = Rect { y: area.y + 1, height: each.saturating_sub(1), ..area };
        if state.theme.ascii || below.height == 0 {
            sparks(state, (series, most), below, buffer);
        } else {
            braille(state, (series, most), below, buffer);
        }
    }
}

/// The number of values that fit: two per cell.
fn points(area: Rect) -> usize {
    usize::from(area.width) * 2
}

fn braille(state: &ScreenState, (series, most): (&Series, f64), area: Rect, buffer: &mut Buffer) {
    let room = points(area);
    let values: Vec<f64> = series.last(room).collect();
    // Aligned right: the latest value is at the right end.
    let start = room.saturating_sub(values.len());
    let colour = state.theme.style(Role::Low).fg.unwrap_or_default();
    let top = most.max(f64::MIN_POSITIVE);
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, room as f64])
        .y_bounds([0.0, top])
        .paint(|plot| {
            for (nth, pair) in values.windows(2).enumerate() {
                let x = (start + nth) as f64;
                plot.draw(&Segment { x1: x, y1: pair[0], x2: x + 1.0, y2: pair[1], color: colour });
            }
        })
        .render(area, buffer);
}

/// The same with symbols of different height, for terminals without Unicode.
fn sparks(state: &ScreenState, (series, most): (&Series, f64), area: Rect, buffer: &mut Buffer) {
    let values: Vec<f64> = series.last(area.width.into()).collect();
    let start = area.width - u16::try_from(values.len()).unwrap_or(area.width);
    for (line, nth) in area.rows().zip(0..) {
        let floor = f64::from(area.height - 1 - nth);
        let mut it = LineWriter::new(buffer, state.theme, line);
        it.skip(start);
        let height = |value: &f64| value / most.max(f64::MIN_POSITIVE) * f64::from(area.height);
        it.spark(values.iter().map(|value| (height(value) - floor).clamp(0.0, 1.0)), 1.0);
    }
}

/// A histogram by powers of two: pairs of upper end and count, at most `max`. The shortest ones are
/// merged if there are too many.
pub fn powers(histogram: &Histogram, max: usize) -> Vec<(u64, u64)> {
    let mut bars: Vec<(u64, u64)> = Vec::new();
    for (low, _, count) in histogram.buckets() {
        let until = low.0.saturating_add(1).checked_next_power_of_two().unwrap_or(u64::MAX);
        match bars.last_mut() {
            Some((last, sum)) if *last == until => *sum += count,
            _ => bars.push((until, count)),
        }
    }
    while bars.len() > max.max(1) {
        let (_, first) = bars.remove(0);
        bars[0].1 += first;
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Ns;

    #[test]
    fn durations_are_counted_by_powers_of_two_and_none_is_lost() {
        let mut histogram = Histogram::default();
        for ns in [1_000, 1_500, 1_900, 70_000, 9_000_000] {
            histogram.record(Ns(ns));
        }
        let bars = powers(&histogram, 10);
        assert_eq!(bars.iter().map(|(_, count)| count).sum::<u64>(), 5);
        assert!(bars.iter().all(|(until, _)| until.is_power_of_two()));
        let few = powers(&histogram, 2);
        assert_eq!(few.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [4, 1]);
    }
}

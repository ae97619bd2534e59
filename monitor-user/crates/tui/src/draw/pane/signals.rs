//! The page of signals: masks, and signals since the previous reading.

use super::more;
use crate::draw::line::LineWriter;
use crate::state::ScreenState;
use crate::theme::Role;
use monitor_backends::procfs::details::Signals;
use monitor_model::event::{SampleEventKind, Signal};
use monitor_model::sample::Process;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Rows};

/// Draws the page.
pub fn draw((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let masks = match &state.update.details.signals {
        Some(Ok(masks)) => *masks,
        other => {
            let why = other.as_ref().and_then(|it| it.as_ref().err());
            let text = why.map_or_else(|| " reading ...".into(), |why| format!(" {why}"));
            let _ = LineWriter::new(buffer, state.theme, area).text(Role::Dim, &text);
            return;
        }
    };
    let Signals { pending, blocked, ignored, caught } = masks;
    let rows =
        [("pending", pending), ("blocked", blocked), ("ignored", ignored), ("caught", caught)];
    for ((name, mask), line) in rows.into_iter().zip(lines.by_ref()) {
        let mut it = LineWriter::new(buffer, state.theme, line);
        it.text(Role::Accent, &format!(" {name:<8} ")).text(Role::Text, &names(mask));
    }
    recent((state, process), lines, area, buffer);
}

/// The signals since the previous reading: a title, and as many as fit.
fn recent(
    (state, process): (&ScreenState, &Process),
    mut lines: Rows,
    area: Rect,
    buffer: &mut Buffer,
) {
    let Some(title) = lines.next() else { return };
    let events = &state.update.rates.sample.events;
    let mine: Vec<_> = events.iter().filter(|it| it.target == process.id).collect();
    let text = match mine.len() {
        0 => " since the previous reading: none".to_owned(),
        n => format!(" since the previous reading: {n}"),
    };
    LineWriter::new(buffer, state.theme, title).text(Role::Title, &text);
    let shown = usize::from(area.height).saturating_sub(5);
    let n_events = mine.len();
    for (event, line) in mine.into_iter().zip(lines) {
        LineWriter::new(buffer, state.theme, line).text(Role::Text, &event_text(&event.kind));
    }
    more((state, n_events, shown), area, buffer);
}

fn event_text(what: &SampleEventKind) -> String {
    match what {
        SampleEventKind::SignalGenerated { signal, sender, .. } => {
            let from = sender.map_or_else(|| "the kernel".into(), |it| it.pid.0.to_string());
            format!("  {} from {from}", one(signal.number))
        }
        SampleEventKind::SignalDelivered { signal } => {
            format!("  {} delivered", one(signal.number))
        }
    }
}

/// The names of the signals of a mask.
fn names(mask: u64) -> String {
    let numbers = (1..=64).filter(|number| mask >> (number - 1) & 1 == 1);
    let names: Vec<_> = numbers.map(one).collect();
    if names.is_empty() { "-".into() } else { names.join(" ") }
}

fn one(number: u32) -> String {
    let name = Signal { number, code: 0, thread: None }.name();
    name.map_or_else(|| number.to_string(), |it| it.trim_start_matches("SIG").to_owned())
}

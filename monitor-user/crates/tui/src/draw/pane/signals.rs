//! Signals: what the process does with each, and those that came since the reading before.

use super::more;
use crate::draw::line::Line;
use crate::look::Role;
use crate::state::State;
use monitor_backends::procfs::inside::Signals;
use monitor_model::event::{Signal, What};
use monitor_model::sample::Process;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Rows};

/// Draws it.
pub fn draw((state, process): (&State, &Process), area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let masks = match &state.news.inside.signals {
        Some(Ok(masks)) => *masks,
        other => {
            let why = other.as_ref().and_then(|it| it.as_ref().err());
            let text = why.map_or_else(|| " reading ...".into(), |why| format!(" {why}"));
            let _ = Line::new(buffer, state.look, area).text(Role::Dim, &text);
            return;
        }
    };
    let Signals { pending, blocked, ignored, caught } = masks;
    let rows =
        [("pending", pending), ("blocked", blocked), ("ignored", ignored), ("caught", caught)];
    for ((name, mask), line) in rows.into_iter().zip(lines.by_ref()) {
        let mut it = Line::new(buffer, state.look, line);
        it.text(Role::Accent, &format!(" {name:<8} ")).text(Role::Text, &names(mask));
    }
    came((state, process), lines, area, buffer);
}

/// The signals since the reading before: a title, and what fits below it.
fn came((state, process): (&State, &Process), mut lines: Rows, area: Rect, buffer: &mut Buffer) {
    let Some(title) = lines.next() else { return };
    let events = &state.news.rates.sample.events;
    let mine: Vec<_> = events.iter().filter(|it| it.target == process.id).collect();
    let text = match mine.len() {
        0 => " since the reading before: none came".to_owned(),
        n => format!(" since the reading before: {n} came"),
    };
    Line::new(buffer, state.look, title).text(Role::Title, &text);
    let shown = usize::from(area.height).saturating_sub(5);
    let n_events = mine.len();
    for (event, line) in mine.into_iter().zip(lines) {
        Line::new(buffer, state.look, line).text(Role::Text, &told(&event.what));
    }
    more((state, n_events, shown), area, buffer);
}

fn told(what: &What) -> String {
    match what {
        What::SignalGenerated { signal, sender, .. } => {
            let from = sender.map_or_else(|| "the kernel".into(), |it| it.pid.0.to_string());
            format!("  {} from {from}", one(signal.number))
        }
        What::SignalDelivered { signal } => format!("  {} taken", one(signal.number)),
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

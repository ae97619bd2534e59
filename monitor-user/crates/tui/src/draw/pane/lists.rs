//! The pages that are lists: open connections, signals and threads.

use crate::{column, draw::line::LineWriter, state::ScreenState, theme::Role};
use monitor_backends::procfs::details::{Connection, Signals};
use monitor_format::human;
use monitor_model::{Category, Process, SampleEventKind, Signal, field::ProcessField as F};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Rows};

/// Draws the page.
pub fn connections(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
    let text = match &state.update.details.connections {
        None => " reading ...".to_owned(),
        Some(Err(why)) => format!(" {why}"),
        Some(Ok(all)) if all.is_empty() => " no open connections".into(),
        Some(Ok(all)) => return listed(state, all, area, buffer),
    };
    let _ = LineWriter::new(buffer, state.theme, area).text(Role::Dim, &text);
}

fn listed(state: &ScreenState, all: &[Connection], area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    let wide = (area.width.saturating_sub(34) / 2).clamp(20, 48).into();
    let title = format!(
        " {:<5}{:<wide$} {:<wide$} {:<11} {:>6} {:>6}",
        "PROTO", "LOCAL", "REMOTE", "STATE", "RECV-Q", "SEND-Q"
    );
    LineWriter::new(buffer, state.theme, first).text(Role::Title, &title);
    let shown = usize::from(area.height).saturating_sub(1);
    for (it, line) in all.iter().zip(lines) {
        let queues = it.queues.map(|bytes| human::scaled_text(bytes.into(), 1024.0));
        let (local, remote) = (it.local.to_string(), it.remote.to_string());
        let text = format!(
            " {:<5}{local:<wide$} {remote:<wide$} {:<11} {:>6} {:>6}",
            it.protocol, it.state, queues[0], queues[1]
        );
        LineWriter::new(buffer, state.theme, line).text(Role::Text, &text);
    }
    more((state, all.len(), shown), area, buffer);
}

/// Draws the page.
pub fn signals((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
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

const THREADS: [F; 8] = [
    F::Tid,
    F::State,
    F::CpuPercent,
    F::RunDelayPercent,
    F::CpuTime,
    F::VoluntarySwitches,
    F::Processor,
    F::Comm,
];

/// Draws the page.
pub fn threads((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    let mut all: Vec<&Process> = process.threads.iter().collect();
    if all.is_empty() {
        let _ = LineWriter::new(buffer, state.theme, first).text(Role::Dim, " reading ...");
        return;
    }
    let busy = |it: &Process| it.row.get(F::CpuPercent).map_or(0.0, f64::from_bits);
    all.sort_by(|a, b| busy(b).total_cmp(&busy(a)).then(a.id.cmp(&b.id)));
    thread_line(state, None, first, buffer);
    let shown = usize::from(area.height).saturating_sub(1);
    for (thread, line) in all.iter().zip(lines) {
        thread_line(state, Some(thread), line, buffer);
    }
    more((state, all.len(), shown), area, buffer);
}

/// Draws a line of the list: a thread, or the titles.
fn thread_line(state: &ScreenState, thread: Option<&Process>, area: Rect, buffer: &mut Buffer) {
    let mut line = LineWriter::new(buffer, state.theme, area);
    line.skip(1);
    for field in THREADS {
        let width = if field == F::Tid { 7 } else { column::width(field) };
        let (mut text, role) = (String::new(), Role::Text);
        match thread {
            Some(thread) => column::process_cell(thread, field, &mut text),
            None => text.push_str(field.field().title),
        }
        let role = if thread.is_none() { Role::Title } else { role };
        let x = line.x();
        if column::is_left(field) {
            line.text(role, &text);
        } else {
            line.right(role, &text, width);
        }
        line.to(x + width + 1);
    }
}

/// Prints at the lower right how many lines did not fit.
pub fn more((state, all, shown): (&ScreenState, usize, usize), area: Rect, buffer: &mut Buffer) {
    let (Some(hidden), Some(last)) = (all.checked_sub(shown), area.rows().next_back()) else {
        return;
    };
    if hidden > 0 {
        let text = format!(" and {hidden} more ");
        LineWriter::new(buffer, state.theme, last).at_end(Role::Chosen, &text);
    }
}

//! The page of threads, the busiest first.

use super::more;
use crate::column;
use crate::draw::line::LineWriter;
use crate::state::ScreenState;
use crate::theme::Role;
use monitor_model::field::{Category, ProcessField as F};
use monitor_model::sample::Process;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

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
pub fn draw((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
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

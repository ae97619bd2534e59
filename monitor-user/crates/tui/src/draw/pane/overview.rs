//! The overview page: values, command line and history.

use crate::{column, draw::line::LineWriter, draw::plot, state::ScreenState, theme::Role};
use monitor_model::field::{ProcessField as F, Role as FieldRole};
use monitor_model::{Category, Process};
use ratatui::{buffer::Buffer, layout::Rect};

/// The fields of the page by subject, as many as fit.
const FIELDS: [&[F]; 8] = [
    &[F::User, F::Ppid, F::State, F::Nice],
    &[F::CpuPercent, F::CpuTime, F::UserTime, F::SystemTime, F::RunDelayPercent, F::RunDelay],
    &[F::Rss, F::PeakRss, F::RssAnon, F::Swap],
    &[F::ReadRate, F::WrittenRate, F::ReadBytes, F::WrittenBytes],
    &[F::TcpReceivedRate, F::TcpSentRate, F::TcpSockets, F::TcpRtt, F::TcpRetransmits],
    &[F::Threads, F::VoluntarySwitches, F::InvoluntarySwitches, F::MinorFaults, F::MajorFaults],
    &[F::Vsize, F::RssFile],
    &[F::Priority, F::Policy],
];

/// The width of a name with its value, in cells.
const PAIR: u16 = 20;

/// Draws the page.
pub fn draw((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    for (field, name) in [(F::Cmdline, "command"), (F::Cgroup, "cgroup")] {
        let Some(line) = lines.next() else { return };
        let mut text = String::new();
        column::process_cell(process, field, &mut text);
        LineWriter::new(buffer, state.theme, line)
            .text(Role::Accent, &format!(" {name} "))
            .text(Role::Text, &text);
    }
    let left = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
    let numbers = Rect { width: (area.width / 2).min(4 * PAIR), ..left };
    pairs((state, process), &FIELDS.concat(), numbers, buffer);
    let right = Rect {
        x: numbers.right() + 1,
        width: area.width.saturating_sub(numbers.width + 1),
        ..left
    };
    plot::history(state, process.id, right, buffer);
}

/// Names and values, as many per line as fit.
fn pairs(
    (state, process): (&ScreenState, &Process),
    fields: &[F],
    area: Rect,
    buffer: &mut Buffer,
) {
    let beside = (area.width / PAIR).max(1);
    let mut text = String::new();
    for (chunk, line) in fields.chunks(beside.into()).zip(area.rows()) {
        for (field, nth) in chunk.iter().zip(0..) {
            text.clear();
            column::process_cell(process, *field, &mut text);
            // Totals are marked, because the rate next to them has nearly the same name.
            let mut it = LineWriter::new(
                buffer,
                state.theme,
                Rect { x: line.x + 1 + nth * PAIR, width: PAIR - 1, ..line },
            );
            it.text(Role::Accent, field.field().title);
            if field.field().role == FieldRole::Counter && text != "-" {
                it.text(Role::Dim, " sum");
            }
            let room = it.left().saturating_sub(1);
            it.right(Role::Text, &text, room);
        }
    }
}

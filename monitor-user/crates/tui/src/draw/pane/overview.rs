//! The overview page: values, command line and history.

use super::{PAIR, pairs};
use crate::column;
use crate::draw::line::LineWriter;
use crate::draw::plot;
use crate::state::ScreenState;
use crate::theme::Role;
use monitor_model::field::ProcessField as F;
use monitor_model::sample::Process;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The fields of the page, as many as fit.
const FIELDS: [F; 32] = [
    F::User,
    F::Ppid,
    F::State,
    F::Nice,
    F::CpuPercent,
    F::CpuTime,
    F::UserTime,
    F::SystemTime,
    F::RunDelayPercent,
    F::RunDelay,
    F::Rss,
    F::PeakRss,
    F::RssAnon,
    F::Swap,
    F::ReadRate,
    F::WrittenRate,
    F::ReadBytes,
    F::WrittenBytes,
    F::TcpReceivedRate,
    F::TcpSentRate,
    F::TcpSockets,
    F::TcpRtt,
    F::TcpRetransmits,
    F::Threads,
    F::VoluntarySwitches,
    F::InvoluntarySwitches,
    F::MinorFaults,
    F::MajorFaults,
    F::Vsize,
    F::RssFile,
    F::Priority,
    F::Policy,
];
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
    pairs((state, process), &FIELDS, numbers, buffer);
    let right = Rect {
        x: numbers.right() + 1,
        width: area.width.saturating_sub(numbers.width + 1),
        ..left
    };
    plot::history(state, process.id, right, buffer);
}

//! The page of open connections: both addresses, state and queues.

use super::more;
use crate::draw::line::LineWriter;
use crate::state::ScreenState;
use crate::theme::Role;
use monitor_backends::procfs::details::Connection;
use monitor_format::human;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the page.
pub fn draw(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
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
        let queues = it.queues.map(|bytes| {
            let mut text = String::new();
            human::scaled(bytes.into(), 1024.0, &mut text);
            text
        });
        let (local, remote) = (it.local.to_string(), it.remote.to_string());
        let text = format!(
            " {:<5}{local:<wide$} {remote:<wide$} {:<11} {:>6} {:>6}",
            it.protocol, it.state, queues[0], queues[1]
        );
        LineWriter::new(buffer, state.theme, line).text(Role::Text, &text);
    }
    more((state, all.len(), shown), area, buffer);
}

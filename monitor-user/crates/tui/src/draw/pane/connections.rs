//! Open connections: both ends, and what waits to be read or acknowledged.

use super::more;
use crate::draw::line::Line;
use crate::look::Role;
use crate::state::State;
use monitor_backends::procfs::inside::Connection;
use monitor_format::human;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws it.
pub fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let text = match &state.news.inside.connections {
        None => " reading ...".to_owned(),
        Some(Err(why)) => format!(" {why}"),
        Some(Ok(all)) if all.is_empty() => " no connection is open".into(),
        Some(Ok(all)) => return listed(state, all, area, buffer),
    };
    let _ = Line::new(buffer, state.look, area).text(Role::Dim, &text);
}

fn listed(state: &State, all: &[Connection], area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    let wide = (area.width.saturating_sub(34) / 2).clamp(20, 48).into();
    let title = format!(
        " {:<5}{:<wide$} {:<wide$} {:<11} {:>6} {:>6}",
        "PROTO", "LOCAL", "REMOTE", "STATE", "RECV-Q", "SEND-Q"
    );
    Line::new(buffer, state.look, first).text(Role::Title, &title);
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
        Line::new(buffer, state.look, line).text(Role::Text, &text);
    }
    more((state, all.len(), shown), area, buffer);
}

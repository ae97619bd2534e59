//! The details of one process: pages with values, history, latencies, connections, signals,
//! threads and rules. Each page is a file.

mod lists;
mod overview;
mod rules;
mod storage;

use super::line::LineWriter;
use crate::state::{RowId, ScreenState, Tab};
use crate::theme::Role;
use monitor_format::human;
use monitor_model::Process;
use ratatui::{buffer::Buffer, layout::Rect};

/// Draws a page.
pub fn draw(state: &ScreenState, (area, tab): (Rect, Tab), buffer: &mut Buffer) {
    let Some(first) = area.rows().next() else { return };
    heading(state, tab, first, buffer);
    let inside = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let Some(process) = process(state) else {
        let _ = LineWriter::new(buffer, state.theme, inside).text(Role::Dim, " reading ...");
        return;
    };
    match tab {
        Tab::Overview => overview::draw((state, process), inside, buffer),
        Tab::Storage => storage::draw((state, process), inside, buffer),
        Tab::Connections => lists::connections(state, inside, buffer),
        Tab::Signals => lists::signals((state, process), inside, buffer),
        Tab::Threads => lists::threads((state, process), inside, buffer),
        Tab::Rules => rules::draw((state, process), inside, buffer),
    }
}

/// The titles of the pages in the first line: page, position and width.
pub fn tabs(area: Rect) -> Vec<(Tab, u16, u16)> {
    let mut x = area.x + 1;
    let mut tabs = Vec::new();
    for tab in Tab::ALL {
        let width = u16::try_from(tab.title().len()).unwrap_or(0) + 2;
        tabs.push((tab, x, width));
        x += width;
    }
    tabs
}

fn heading(state: &ScreenState, open: Tab, area: Rect, buffer: &mut Buffer) {
    let [_, line] = state.theme.bar_symbols();
    let line = if state.theme.ascii { "-" } else { line };
    LineWriter::new(buffer, state.theme, area).text(Role::Dim, &line.repeat(area.width.into()));
    for (tab, x, width) in tabs(area) {
        let cell = Rect { x, width, ..area };
        // Brackets, because colour alone must not carry information.
        let text = match tab == open {
            true => format!("[{}]", tab.title()),
            false => format!(" {} ", tab.title()),
        };
        let role = if tab == open { Role::Title } else { Role::Accent };
        LineWriter::new(buffer, state.theme, cell).text(role, &text);
    }
    if let Some(process) = process(state) {
        let name = format!(" {} {} ", process.id.pid.0, human::escaped_text(&process.comm()));
        let area = Rect { width: area.width.saturating_sub(1), ..area };
        LineWriter::new(buffer, state.theme, area).at_end(Role::Title, &name);
    }
}

/// The process of the details, with all its fields if they are known.
fn process(state: &ScreenState) -> Option<&Process> {
    let selected = match &state.cursor.row {
        Some(RowId::Process(id)) => *id,
        _ => return state.selected(),
    };
    state.update.focus.as_ref().filter(|it| it.id == selected).or_else(|| state.selected())
}

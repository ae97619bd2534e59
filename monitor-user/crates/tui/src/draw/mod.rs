//! Drawing: from the state to a frame of cells.
//!
//! Pure and without state: the terminal library compares a frame with the previous one.

mod foot;
mod head;
pub mod hit;
mod line;
mod pane;
mod panel;
mod plot;
mod table;
#[cfg(test)]
mod tests;

use super::state::{Panel, ScreenState};
use super::{state::layout::MIN_SIZE, theme::Role};
use line::LineWriter;
use ratatui::{buffer::Buffer, layout::Rect};

/// Draws a frame into an empty buffer.
pub fn draw(state: &ScreenState, buffer: &mut Buffer) {
    let Some(areas) = state.areas() else { return too_small(state, buffer) };
    head::draw(state, areas.head, buffer);
    table::draw(state, areas, buffer);
    if let (Some(area), Some(tab)) = (areas.pane, state.tab) {
        pane::draw(state, (area, tab), buffer);
    }
    foot::draw(state, areas, buffer);
    match &state.panel {
        Panel::None | Panel::Prompt(_) => {}
        Panel::Help(line) => panel::help(state, *line, buffer),
        Panel::Probes(line) => panel::probes(state, *line, buffer),
        Panel::Menu(menu) => panel::menu(state, menu, buffer),
        Panel::Confirm(action) => panel::confirm(state, action, buffer),
    }
}

fn too_small(state: &ScreenState, buffer: &mut Buffer) {
    let size = state.size;
    let area = Rect::new(0, 0, size.width, size.height);
    let (w, h) = (MIN_SIZE.width, MIN_SIZE.height);
    let texts = [format!("too small: {}x{}", size.width, size.height), format!("need {w}x{h}")];
    for (text, y) in texts.iter().zip(0..size.height) {
        LineWriter::new(buffer, state.theme, Rect { y, height: 1, ..area }).text(Role::Title, text);
    }
}

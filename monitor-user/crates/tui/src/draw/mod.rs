//! Drawing: from the state to a frame of cells.
//!
//! Pure and without state: the terminal library compares a frame with the previous one.

mod foot;
pub(crate) mod head;
pub mod hit;
pub(crate) mod line;
mod pane;
mod panel;
mod plot;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use super::state::layout::MIN_SIZE;
use super::state::{Panel, ScreenState};
use super::theme::{Role, Theme};
use line::LineWriter;
pub(crate) use panel::ASCII as ASCII_BORDER;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};

/// Draws a frame into an empty buffer.
pub fn draw(state: &ScreenState, buffer: &mut Buffer) {
    let Some(areas) = state.areas() else {
        return too_small((state.size, state.theme), buffer);
    };
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

/// Draws that the terminal has too few columns or lines.
pub(crate) fn too_small((size, theme): (Size, Theme), buffer: &mut Buffer) {
    let area = Rect::new(0, 0, size.width, size.height);
    let (w, h) = (MIN_SIZE.width, MIN_SIZE.height);
    let texts = [format!("too small: {}x{}", size.width, size.height), format!("need {w}x{h}")];
    for (text, y) in texts.iter().zip(0..size.height) {
        LineWriter::new(buffer, theme, Rect { y, height: 1, ..area }).text(Role::Title, text);
    }
}

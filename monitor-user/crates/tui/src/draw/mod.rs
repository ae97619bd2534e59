//! From the state to a frame: cells with signs and styles, and nothing else.
//!
//! Pure, and without a memory: what did not change since the frame before is found out by who
//! writes to the terminal.

mod foot;
mod head;
mod help;
pub mod hit;
mod line;
mod pane;
mod panel;
mod plot;
mod probes;
mod table;
#[cfg(test)]
mod tests;

use super::look::Role;
use super::state::layout::LEAST;
use super::state::{Panel, State};
use line::Line;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws a whole frame into an empty buffer.
pub fn draw(state: &State, buffer: &mut Buffer) {
    let Some(areas) = state.areas() else { return too_small(state, buffer) };
    head::draw(state, areas.head, buffer);
    table::draw(state, areas, buffer);
    if let (Some(area), Some(tab)) = (areas.pane, state.tab) {
        pane::draw(state, (area, tab), buffer);
    }
    foot::draw(state, areas, buffer);
    match &state.panel {
        Panel::None | Panel::Prompt(_) => {}
        Panel::Help(line) => help::draw(state, *line, buffer),
        Panel::Probes(line) => probes::draw(state, *line, buffer),
        Panel::Menu(menu) => panel::menu(state, menu, buffer),
        Panel::Ask(act) => panel::ask(state, act, buffer),
    }
}

fn too_small(state: &State, buffer: &mut Buffer) {
    let size = state.size;
    let area = Rect::new(0, 0, size.width, size.height);
    let (w, h) = (LEAST.width, LEAST.height);
    let texts = [format!("too small: {}x{}", size.width, size.height), format!("need {w}x{h}")];
    for (text, y) in texts.iter().zip(0..size.height) {
        Line::new(buffer, state.look, Rect { y, height: 1, ..area }).text(Role::Title, text);
    }
}

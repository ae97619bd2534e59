//! Boxes over the table: lists, text and confirmations.

use super::line::LineWriter;
use crate::process_action::ProcessAction;
use crate::state::ScreenState;
use crate::state::layout::centered;
use crate::state::menu::{Menu, MenuPurpose};
use crate::theme::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::symbols::border;
use ratatui::widgets::{Block, Clear, Widget};
use unicode_width::UnicodeWidthStr;

/// The width of a list in cells.
const WIDTH: u16 = 76;

/// Draws an empty box in the middle, and returns its inner area.
pub fn frame(state: &ScreenState, title: &str, size: Size, buffer: &mut Buffer) -> Rect {
    let area = centered(state.size, size);
    Clear.render(area, buffer);
    let signs = if state.theme.ascii { ASCII } else { border::PLAIN };
    let block = Block::bordered().border_set(signs).border_style(state.theme.style(Role::Accent));
    let inside = block.inner(area);
    block.title(format!(" {title} ")).render(area, buffer);
    inside
}

/// Draws a box with lines of text in the middle, scrolled to a line.
pub fn lines(
    state: &ScreenState,
    (title, width): (&str, u16),
    (lines, from): (&[(Role, String)], u16),
    buffer: &mut Buffer,
) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let inside = frame(state, title, Size { width, height }, buffer);
    let last = lines.len().saturating_sub(inside.height.into());
    let shown = lines.iter().skip(usize::from(from).min(last));
    for ((role, text), area) in shown.zip(inside.rows()) {
        LineWriter::new(buffer, state.theme, area).text(*role, text);
    }
}

const ASCII: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// The area of the entries of a list, the size of its box, and the first visible entry.
pub fn entries(state: &ScreenState, menu: &Menu) -> (Rect, Size, usize) {
    let n_entries = u16::try_from(menu.entries.len()).unwrap_or(u16::MAX);
    let size = Size { width: WIDTH, height: n_entries.saturating_add(2) };
    let size = Size { height: size.height.min(state.size.height.saturating_sub(2)), ..size };
    let area = centered(state.size, size);
    let inside = Rect {
        x: area.x + 1,
        y: area.y + 1,
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
    };
    let first = (menu.selected_index + 1).saturating_sub(inside.height.into());
    (inside, size, first)
}

/// Draws a list.
pub fn menu(state: &ScreenState, menu: &Menu, buffer: &mut Buffer) {
    let (_, size, first) = entries(state, menu);
    let mut title = menu.title();
    if !menu.typed.is_empty() {
        title += &format!(": {}", menu.typed);
    }
    let inside = frame(state, &title, size, buffer);
    let shown = menu.matching().enumerate().skip(first);
    for ((at, entry), area) in shown.zip(inside.rows()) {
        let mut line = LineWriter::new(buffer, state.theme, area);
        if menu.purpose == MenuPurpose::Columns {
            line.text(Role::Accent, if entry.is_on { "[x] " } else { "[ ] " });
        } else {
            line.text(Role::Accent, if entry.is_on { "* " } else { "  " });
        }
        line.text(Role::Text, &entry.label).skip(2).text(Role::Dim, entry.note);
        if at == menu.selected_index {
            buffer.set_style(area, state.theme.style(Role::Chosen));
        }
    }
}

/// Draws the confirmation of an action.
pub fn confirm(state: &ScreenState, action: &ProcessAction, buffer: &mut Buffer) {
    let question = format!("{}?", action.question());
    let width = u16::try_from(question.width()).unwrap_or(u16::MAX).saturating_add(4).max(34);
    let inside = frame(state, "Are you sure", Size { width, height: 4 }, buffer);
    let texts = [(Role::Title, question.as_str()), (Role::Text, "y yes    any other key no")];
    for ((role, text), area) in texts.into_iter().zip(inside.rows()) {
        LineWriter::new(buffer, state.theme, area).skip(1).text(role, text);
    }
}

//! Boxes over the table: a list to choose from, a question.

use super::line::Line;
use crate::act::Act;
use crate::look::Role;
use crate::state::State;
use crate::state::layout::middle;
use crate::state::menu::{Menu, Purpose};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::symbols::border;
use ratatui::widgets::{Block, Clear, Widget};
use unicode_width::UnicodeWidthStr;

/// Cells of a list.
const WIDTH: u16 = 76;

/// An empty box in the middle; gives the part inside.
pub fn frame(state: &State, title: &str, wanted: Size, buffer: &mut Buffer) -> Rect {
    let area = middle(state.size, wanted);
    Clear.render(area, buffer);
    let signs = if state.look.ascii { ASCII } else { border::PLAIN };
    let block = Block::bordered().border_set(signs).border_style(state.look.style(Role::Accent));
    let inside = block.inner(area);
    block.title(format!(" {title} ")).render(area, buffer);
    inside
}

/// A box of lines in the middle, as high as it must be, from this line on.
pub fn lines(
    state: &State,
    (title, width): (&str, u16),
    (lines, from): (&[(Role, String)], u16),
    buffer: &mut Buffer,
) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let inside = frame(state, title, Size { width, height }, buffer);
    let most = lines.len().saturating_sub(inside.height.into());
    let shown = lines.iter().skip(usize::from(from).min(most));
    for ((role, text), area) in shown.zip(inside.rows()) {
        Line::new(buffer, state.look, area).text(*role, text);
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

/// Where the entries of a list are, and the first of them that is seen.
pub fn entries(state: &State, menu: &Menu) -> (Rect, Size, usize) {
    let n_entries = u16::try_from(menu.entries.len()).unwrap_or(u16::MAX);
    let wanted = Size { width: WIDTH, height: n_entries.saturating_add(2) };
    let wanted = Size { height: wanted.height.min(state.size.height.saturating_sub(2)), ..wanted };
    let area = middle(state.size, wanted);
    let inside = Rect {
        x: area.x + 1,
        y: area.y + 1,
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
    };
    let first = (menu.at + 1).saturating_sub(inside.height.into());
    (inside, wanted, first)
}

/// Draws a list.
pub fn menu(state: &State, menu: &Menu, buffer: &mut Buffer) {
    let (_, wanted, first) = entries(state, menu);
    let mut title = menu.title();
    if !menu.typed.is_empty() {
        title += &format!(": {}", menu.typed);
    }
    let inside = frame(state, &title, wanted, buffer);
    let shown = menu.left().enumerate().skip(first);
    for ((at, entry), area) in shown.zip(inside.rows()) {
        let mut line = Line::new(buffer, state.look, area);
        if menu.purpose == Purpose::Columns {
            line.text(Role::Accent, if entry.on { "[x] " } else { "[ ] " });
        } else {
            line.text(Role::Accent, if entry.on { "* " } else { "  " });
        }
        line.text(Role::Text, &entry.label).skip(2).text(Role::Dim, entry.note);
        if at == menu.at {
            buffer.set_style(area, state.look.style(Role::Chosen));
        }
    }
}

/// Draws a question.
pub fn ask(state: &State, act: &Act, buffer: &mut Buffer) {
    let question = format!("{}?", act.question());
    let width = u16::try_from(question.width()).unwrap_or(u16::MAX).saturating_add(4).max(34);
    let inside = frame(state, "Are you sure", Size { width, height: 4 }, buffer);
    let texts = [(Role::Title, question.as_str()), (Role::Text, "y yes    any other key no")];
    for ((role, text), area) in texts.into_iter().zip(inside.rows()) {
        Line::new(buffer, state.look, area).skip(1).text(role, text);
    }
}

//! The last lines: keys, prompt and message.

use super::line::{LineWriter, width};
use crate::key::{self, BINDINGS};
use crate::state::prompt::{Prompt, PromptPurpose};
use crate::state::{Areas, Panel, ScreenState};
use crate::theme::Role;
use ratatui::{buffer::Buffer, layout::Rect};
use unicode_width::UnicodeWidthStr;

/// Draws the last lines.
pub fn draw(state: &ScreenState, areas: Areas, buffer: &mut Buffer) {
    let prompt = match &state.panel {
        Panel::Prompt(prompt) => Some(prompt),
        _ => None,
    };
    if let Some(area) = areas.message {
        match prompt.and_then(Prompt::fault) {
            Some(fault) => {
                let typed = prompt.map(|it| &it.text[..fault.at.min(it.text.len())]);
                let column = label(prompt).width() + typed.unwrap_or_default().width();
                fault_line((state, &fault.message), column, area, buffer);
            }
            None => {
                let text = state.message.as_deref().unwrap_or_default();
                let _ = LineWriter::new(buffer, state.theme, area).text(Role::High, text);
            }
        }
    }
    match prompt {
        Some(it) => typed(state, it, areas.foot, buffer),
        None => keys(state, areas.foot, buffer),
    }
}

fn label(prompt: Option<&Prompt>) -> String {
    match prompt.map(|it| &it.purpose) {
        Some(PromptPurpose::Nice(id, name)) => format!("nice value of {} ({name}): ", id.pid.0),
        Some(PromptPurpose::Watch(id, name)) => format!("watch in {} ({name}): ", id.pid.0),
        _ => "filter: ".into(),
    }
}

/// Draws an error above the prompt, with a mark at its position.
fn fault_line((state, why): (&ScreenState, &str), column: usize, area: Rect, buffer: &mut Buffer) {
    let column = u16::try_from(column).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
    let why_width = width(why);
    let mut line = LineWriter::new(buffer, state.theme, area);
    if column + 2 + why_width <= area.width {
        line.to(area.x + column).text(Role::Full, "v").skip(1).text(Role::Full, why);
    } else if why_width < column {
        line.to(area.x + column - why_width - 1)
            .text(Role::Full, why)
            .skip(1)
            .text(Role::Full, "v");
    } else {
        line.text(Role::Full, why);
    }
}

fn typed(state: &ScreenState, prompt: &Prompt, area: Rect, buffer: &mut Buffer) {
    let mut line = LineWriter::new(buffer, state.theme, area);
    line.text(Role::Accent, &label(Some(prompt)));
    let (before, after) = prompt.text.split_at(prompt.cursor);
    // A long text is scrolled so that the cursor is visible.
    let room = usize::from(line.left()).saturating_sub(2);
    let mut start = 0;
    while before[start..].width() > room {
        start += before[start..].chars().next().map_or(1, char::len_utf8);
    }
    line.text(Role::Text, &before[start..]);
    let mut rest = after.chars();
    let under: String = rest.next().map_or_else(|| " ".into(), String::from);
    line.text(Role::Chosen, &under).text(Role::Text, rest.as_str());
    if prompt.text.is_empty() && matches!(prompt.purpose, PromptPurpose::Watch(..)) {
        line.text(Role::Dim, EVENTS);
    }
}

/// What can be typed for a rule.
const EVENTS: &str = "FUNCTION, return FUNCTION, signal NAME or end";

/// The position in the list, as `7/345`: the selected row, and how many there are.
fn position(state: &ScreenState) -> String {
    if state.rows.is_empty() {
        return String::new();
    }
    // The daemon sends only the first rows of a plain list.
    let is_plain = state.view.condition.is_none() && state.view.group_by.is_none();
    let matched = state.update.matched.filter(|_| is_plain).unwrap_or(0);
    format!("{}/{}", state.cursor.index + 1, matched.max(state.rows.len()))
}

/// The part of the last line that has the keys, and the one at its end: condition and position.
fn halves(state: &ScreenState, area: Rect) -> (Rect, Rect) {
    let condition = state.view.condition.as_ref().map_or(0, |it| width(&it.text) + 3);
    let wanted = width(&position(state)) + 1 + condition;
    let room = wanted.min(area.width.saturating_sub(1));
    let keys = Rect { width: area.width - room, ..area };
    (keys, Rect { x: area.right() - room, width: room, ..area })
}

fn first_key(row: &key::Binding) -> String {
    row.chords.first().map_or_else(String::new, |chord| key::name(*chord))
}

/// The keys of the last line: column, width and binding.
pub fn key_positions(state: &ScreenState, area: Rect) -> Vec<(u16, u16, &'static key::Binding)> {
    let (area, _) = halves(state, area);
    let mut x = area.x;
    let mut places = Vec::new();
    for row in BINDINGS.iter().filter(|row| !row.label.is_empty()) {
        let width = width(&first_key(row)) + 1 + width(row.label);
        if x + width > area.right() {
            break;
        }
        places.push((x, width, row));
        x += width + 1;
    }
    places
}

fn keys(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
    for (x, width, row) in key_positions(state, area) {
        let cell = Rect { x, width, ..area };
        let mut line = LineWriter::new(buffer, state.theme, cell);
        line.text(Role::Accent, &first_key(row)).skip(1).text(Role::Text, row.label);
    }
    let (_, end) = halves(state, area);
    let position = position(state);
    if let Some(condition) = &state.view.condition {
        let room = end.width.saturating_sub(width(&position) + 1);
        let mut line = LineWriter::new(buffer, state.theme, Rect { width: room, ..end });
        line.text(Role::Chosen, " /").text(Role::Chosen, &condition.text);
    }
    LineWriter::new(buffer, state.theme, end).at_end(Role::Title, &position);
}

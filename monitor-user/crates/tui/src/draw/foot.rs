//! The last lines: keys, what is being typed, what there is to say.

use super::line::Line;
use crate::key;
use crate::key::BINDINGS;
use crate::look::Role;
use crate::state::prompt::{Prompt, Purpose};
use crate::state::{Areas, Panel, State};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// Draws them.
pub fn draw(state: &State, areas: Areas, buffer: &mut Buffer) {
    let prompt = match &state.panel {
        Panel::Prompt(prompt) => Some(prompt),
        _ => None,
    };
    if let Some(area) = areas.says {
        match prompt.and_then(Prompt::fault) {
            Some(fault) => {
                let typed = prompt.map(|it| &it.text[..fault.at.min(it.text.len())]);
                let place = label(prompt).width() + typed.unwrap_or_default().width();
                mistake((state, &fault.message), place, area, buffer);
            }
            None => {
                let text = state.said.as_deref().unwrap_or_default();
                let _ = Line::new(buffer, state.look, area).text(Role::High, text);
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
        Some(Purpose::Nice(id, name)) => format!("nice value of {} ({name}): ", id.pid.0),
        Some(Purpose::Watch(id, name)) => {
            format!("watch in {} ({name}), call FUNCTION or signal: ", id.pid.0)
        }
        _ => "filter: ".into(),
    }
}

/// Points at the place above the line that is being typed; the words go where there is room.
fn mistake((state, why): (&State, &str), place: usize, area: Rect, buffer: &mut Buffer) {
    let place = u16::try_from(place).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
    let words = u16::try_from(why.width()).unwrap_or(u16::MAX);
    let mut line = Line::new(buffer, state.look, area);
    let fits_behind = place + 2 + words <= area.width;
    if fits_behind {
        line.to(area.x + place).text(Role::Full, "v").skip(1).text(Role::Full, why);
    } else if words < place {
        line.to(area.x + place - words - 1).text(Role::Full, why).skip(1).text(Role::Full, "v");
    } else {
        line.text(Role::Full, why);
    }
}

fn typed(state: &State, prompt: &Prompt, area: Rect, buffer: &mut Buffer) {
    let mut line = Line::new(buffer, state.look, area);
    line.text(Role::Accent, &label(Some(prompt)));
    let (before, after) = prompt.text.split_at(prompt.at);
    // Of a long line the end before the cursor is seen.
    let room = usize::from(line.left()).saturating_sub(2);
    let mut start = 0;
    while before[start..].width() > room {
        start += before[start..].chars().next().map_or(1, char::len_utf8);
    }
    line.text(Role::Text, &before[start..]);
    let mut rest = after.chars();
    let under: String = rest.next().map_or_else(|| " ".into(), String::from);
    line.text(Role::Chosen, &under).text(Role::Text, rest.as_str());
}

/// The keys of the last line: where each begins, how wide it is, what it does.
pub fn places(area: Rect) -> Vec<(u16, u16, &'static key::Binding)> {
    let mut x = area.x;
    let mut places = Vec::new();
    for row in BINDINGS.iter().filter(|row| !row.label.is_empty()) {
        let name = row.chords.first().map_or_else(String::new, |chord| key::name(*chord));
        let width = u16::try_from(name.width() + 1 + row.label.width()).unwrap_or(u16::MAX);
        if x + width > area.right() {
            break;
        }
        places.push((x, width, row));
        x += width + 1;
    }
    places
}

fn keys(state: &State, area: Rect, buffer: &mut Buffer) {
    for (x, width, row) in places(area) {
        let cell = Rect { x, width, ..area };
        let mut line = Line::new(buffer, state.look, cell);
        let name = row.chords.first().map_or_else(String::new, |chord| key::name(*chord));
        line.text(Role::Accent, &name).skip(1).text(Role::Text, row.label);
    }
    let mut told = String::new();
    if let Some(condition) = &state.view.condition {
        told = format!("/{}", condition.text);
    }
    let width = u16::try_from(told.width()).unwrap_or(u16::MAX);
    if !told.is_empty() {
        let room = area.width.saturating_sub(1).min(width + 1);
        let cell = Rect { x: area.right() - room, width: room, ..area };
        Line::new(buffer, state.look, cell).text(Role::Chosen, " ").text(Role::Chosen, &told);
    }
}

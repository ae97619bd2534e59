//! The details of one process: pages with numbers, history, latencies, connections, signals,
//! threads. A page is a file.

mod connections;
mod overview;
mod rules;
mod signals;
mod storage;
mod threads;

use super::line::Line;
use crate::column;
use crate::look::Role;
use crate::state::{Key, State, Tab};
use monitor_format::human;
use monitor_model::field::{Category, ProcessField as F, Role as FieldRole};
use monitor_model::sample::Process;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Cells of a name with its number.
const PAIR: u16 = 20;

/// Draws a page.
pub fn draw(state: &State, (area, tab): (Rect, Tab), buffer: &mut Buffer) {
    let Some(first) = area.rows().next() else { return };
    heading(state, tab, first, buffer);
    let inside = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let Some(process) = process(state) else {
        let _ = Line::new(buffer, state.look, inside).text(Role::Dim, " reading ...");
        return;
    };
    match tab {
        Tab::Overview => overview::draw((state, process), inside, buffer),
        Tab::Storage => storage::draw((state, process), inside, buffer),
        Tab::Connections => connections::draw(state, inside, buffer),
        Tab::Signals => signals::draw((state, process), inside, buffer),
        Tab::Threads => threads::draw((state, process), inside, buffer),
        Tab::Rules => rules::draw((state, process), inside, buffer),
    }
}

/// The pages in the first line: which, from where, how wide.
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

fn heading(state: &State, open: Tab, area: Rect, buffer: &mut Buffer) {
    let [_, line] = state.look.filling();
    let line = if state.look.ascii { "-" } else { line };
    Line::new(buffer, state.look, area).text(Role::Dim, &line.repeat(area.width.into()));
    for (tab, x, width) in tabs(area) {
        let cell = Rect { x, width, ..area };
        // Brackets, so that colour is not the only sign.
        let text = match tab == open {
            true => format!("[{}]", tab.title()),
            false => format!(" {} ", tab.title()),
        };
        let role = if tab == open { Role::Title } else { Role::Accent };
        Line::new(buffer, state.look, cell).text(role, &text);
    }
    if let Some(process) = process(state) {
        let mut name = format!(" {} ", process.id.pid.0);
        human::escaped(&process.comm(), &mut name);
        name.push(' ');
        let width = u16::try_from(name.chars().count()).unwrap_or(0);
        let mut line = Line::new(buffer, state.look, area);
        line.to(area.right().saturating_sub(width + 1)).text(Role::Title, &name);
    }
}

/// The process of the details, with as much as is known of it.
fn process(state: &State) -> Option<&Process> {
    let chosen = match &state.cursor.on {
        Some(Key::Process(id)) => *id,
        _ => return state.chosen(),
    };
    state.news.focus.as_ref().filter(|it| it.id == chosen).or_else(|| state.chosen())
}

/// Names and numbers, as many beside each other as fit.
fn pairs((state, process): (&State, &Process), fields: &[F], area: Rect, buffer: &mut Buffer) {
    let beside = (area.width / PAIR).max(1);
    let mut text = String::new();
    for (chunk, line) in fields.chunks(beside.into()).zip(area.rows()) {
        for (field, nth) in chunk.iter().zip(0..) {
            text.clear();
            column::of_process(process, *field, &mut text);
            // A total says so: beside it stands its growth under nearly the same name.
            let mut it = Line::new(
                buffer,
                state.look,
                Rect { x: line.x + 1 + nth * PAIR, width: PAIR - 1, ..line },
            );
            it.text(Role::Accent, field.field().title);
            if field.field().role == FieldRole::Counter && text != "-" {
                it.text(Role::Dim, " sum");
            }
            let room = it.left().saturating_sub(1);
            it.right(Role::Text, &text, room);
        }
    }
}

/// Says at the lower right how many did not fit.
fn more((state, all, shown): (&State, usize, usize), area: Rect, buffer: &mut Buffer) {
    let (Some(hidden), Some(last)) = (all.checked_sub(shown), area.rows().next_back()) else {
        return;
    };
    if hidden > 0 {
        let text = format!(" and {hidden} more ");
        let width = u16::try_from(text.len()).unwrap_or(0);
        let mut line = Line::new(buffer, state.look, last);
        line.to(last.right().saturating_sub(width)).text(Role::Chosen, &text);
    }
}

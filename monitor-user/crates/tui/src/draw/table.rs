//! The table: names of columns, and the rows that fit.

use super::line::Line;
use crate::column;
use crate::look::Role;
use crate::state::{Areas, Mark, Of, Row, State};
use monitor_model::field::{Category, GroupField, ProcessField, Unit, Value};
use monitor_model::group::{Group, sum};
use monitor_model::sample::Process;
use monitor_sampling::order::Direction;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// Cells of the counts of a group.
const COUNT_CELLS: u16 = 6;

/// Draws it.
pub fn draw(state: &State, areas: Areas, buffer: &mut Buffer) {
    titles(state, areas.titles, buffer);
    if state.rows.is_empty() {
        let mut line = Line::new(buffer, state.look, areas.rows);
        line.skip(1).text(Role::Dim, nothing(state));
    }
    let shown = state.rows.iter().enumerate().skip(state.cursor.top);
    let mut text = String::new();
    for ((at, row), area) in shown.zip(areas.rows.rows()) {
        one((state, row), area, &mut text, buffer);
        if at == state.cursor.at {
            buffer.set_style(area, state.look.style(Role::Chosen));
        }
    }
}

fn nothing(state: &State) -> &'static str {
    match (&state.view.condition, state.begun) {
        (_, false) => "",
        (Some(_), _) => "nothing fits the condition: / changes it, Esc drops it",
        (None, _) => "there is nothing to show",
    }
}

/// The columns that can be seen: which, from where, how wide.
pub fn columns(state: &State, area: Rect) -> Vec<(ProcessField, u16, u16)> {
    let fields = state.columns();
    let in_groups = state.view.by.is_some();
    let shown = fields.iter().skip(state.view.left).filter(|it| !in_groups || sum(**it).is_some());
    let shown: Vec<_> = shown.copied().collect();
    let mut x = area.x + 1 + if in_groups { 2 * COUNT_CELLS } else { 0 };
    let mut columns = Vec::new();
    for (nth, field) in shown.iter().enumerate() {
        let is_last = nth + 1 == shown.len() && !in_groups;
        let left = area.right().saturating_sub(x);
        if left < 2 {
            break;
        }
        let width = column::width(*field);
        let width = if is_last && column::is_left(*field) { left } else { width.min(left) };
        columns.push((*field, x, width));
        x += width + 1;
    }
    columns
}

fn titles(state: &State, area: Rect, buffer: &mut Buffer) {
    buffer.set_style(area, state.look.style(Role::Title));
    let [down, up] = state.look.arrows();
    let columns = columns(state, area);
    if state.view.by.is_some() {
        let mut line = Line::new(buffer, state.look, area);
        for field in [GroupField::Processes, GroupField::Ended] {
            line.right(Role::Title, field.field().title, COUNT_CELLS);
        }
    }
    for (field, x, width) in &columns {
        let sorted = *field == state.view.order.field;
        let role = if sorted { Role::Accent } else { Role::Title };
        let arrow = if state.view.order.direction == Direction::Descending { down } else { up };
        let title = field.field().title;
        let title = if sorted { format!("{arrow}{title}") } else { title.to_owned() };
        // One that fills its column has its arrow in the gap before, so that nothing moves.
        let wide = u16::try_from(title.width()).is_ok_and(|it| it > *width);
        let cell = Rect { x: x - u16::from(wide), width: width + u16::from(wide), ..area };
        let mut line = Line::new(buffer, state.look, cell);
        if column::is_left(*field) {
            line.text(role, &title);
        } else {
            line.right(role, &title, cell.width);
        }
    }
    if let Some(by) = state.view.by {
        let name = Rect { x: end(&columns, area), ..area };
        Line::new(buffer, state.look, name).text(Role::Title, &by.name().to_uppercase());
    }
}

/// Where the name of a group stands: behind the last column.
fn end(columns: &[(ProcessField, u16, u16)], area: Rect) -> u16 {
    let first = area.x + 2 + 2 * COUNT_CELLS;
    columns.last().map_or(first, |(_, x, width)| x + width + 1)
}

fn one((state, row): (&State, &Row), area: Rect, text: &mut String, buffer: &mut Buffer) {
    let (sign, role) = match row.mark {
        Mark::None => (" ", Role::Text),
        Mark::New => ("+", Role::New),
        Mark::Gone => ("-", Role::Gone),
    };
    let rates = &state.news.rates;
    Line::new(buffer, state.look, area).text(role, sign);
    match row.of {
        Of::Process(place) => {
            let Some(process) = rates.sample.processes.get(place) else { return };
            process_cells((state, row, process), area, text, buffer);
            if row.mark == Mark::Gone {
                buffer.set_style(area, state.look.style(Role::Gone));
            }
        }
        Of::Group(place) => {
            let group = rates.groups.as_ref().and_then(|it| it.groups.get(place));
            if let Some(group) = group {
                group_cells((state, group), area, text, buffer);
            }
        }
    }
}

fn process_cells(
    (state, row, process): (&State, &Row, &Process),
    area: Rect,
    text: &mut String,
    buffer: &mut Buffer,
) {
    for (field, x, width) in columns(state, area) {
        let cell = Rect { x, width, ..area };
        text.clear();
        column::of_process(process, field, text);
        let mut line = Line::new(buffer, state.look, cell);
        if field == ProcessField::Comm && state.view.tree {
            branch(state, row, &mut line);
        }
        put(field, process.row.value(field), text, &mut line);
    }
}

fn put(field: ProcessField, value: Option<Value<'_>>, text: &str, line: &mut Line<'_>) {
    let role = match (field.field().unit, value) {
        (Unit::Percent, Some(Value::Float(90.0..))) => Role::Full,
        (Unit::Percent, Some(Value::Float(50.0..))) => Role::High,
        _ if ["0", "0.0", "-"].contains(&text) => Role::Dim,
        _ => Role::Text,
    };
    if column::is_left(field) {
        line.text(role, text);
    } else {
        let width = line.left();
        line.right(role, text, width);
    }
}

/// The lines of the tree before a name.
fn branch(state: &State, row: &Row, line: &mut Line<'_>) {
    let [child, last, past, none] = state.look.branches();
    let stem = row.stem;
    // Those at the root have no line.
    for level in 1..stem.depth {
        let closed = stem.closed >> level & 1 == 1;
        line.text(Role::Dim, if closed { none } else { past });
    }
    if stem.depth > 0 {
        line.text(Role::Dim, if stem.last { last } else { child });
    }
}

fn group_cells(
    (state, group): (&State, &Group),
    area: Rect,
    text: &mut String,
    buffer: &mut Buffer,
) {
    let mut line = Line::new(buffer, state.look, area);
    for field in [GroupField::Processes, GroupField::Ended] {
        let count = group.head.get(field).unwrap_or(0).to_string();
        line.right(Role::Text, &count, COUNT_CELLS);
    }
    let columns = columns(state, area);
    for (field, x, width) in &columns {
        text.clear();
        column::of_group(group, *field, text);
        let mut line = Line::new(buffer, state.look, Rect { x: *x, width: *width, ..area });
        put(*field, group.row.value(*field), text, &mut line);
    }
    text.clear();
    monitor_format::human::escaped(&group.name, text);
    let name = Rect { x: end(&columns, area), ..area };
    let name = name.intersection(area);
    Line::new(buffer, state.look, name).styled(Style::new(), text);
}

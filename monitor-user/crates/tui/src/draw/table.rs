//! The table: column titles and rows.

use super::line::LineWriter;
use crate::state::{Areas, RowMark, RowSource, ScreenRow, ScreenState};
use crate::{column, theme::Role};
use monitor_model::{
    Category, FieldValue, Group, GroupField, Process, ProcessField, Unit, group::aggregation,
};
use monitor_sampling::order::Direction;
use ratatui::{buffer::Buffer, layout::Rect, style::Style};
use unicode_width::UnicodeWidthStr;

/// Cells of the counts of a group.
const COUNT_CELLS: u16 = 6;

/// Draws the table.
pub fn draw(state: &ScreenState, areas: Areas, buffer: &mut Buffer) {
    titles(state, areas.titles, buffer);
    if state.rows.is_empty() {
        let mut line = LineWriter::new(buffer, state.theme, areas.rows);
        line.skip(1).text(Role::Dim, empty_text(state));
    }
    let shown = state.rows.iter().enumerate().skip(state.cursor.top);
    let mut text = String::new();
    for ((at, row), area) in shown.zip(areas.rows.rows()) {
        draw_row((state, row), area, &mut text, buffer);
        if at == state.cursor.index {
            buffer.set_style(area, state.theme.style(Role::Chosen));
        }
    }
}

fn empty_text(state: &ScreenState) -> &'static str {
    match (&state.view.condition, state.has_data) {
        (_, false) => "",
        (Some(_), _) => "nothing fits the condition: / changes it, Esc drops it",
        (None, _) => "no processes",
    }
}

/// The visible columns: field, position and width.
pub fn columns(state: &ScreenState, area: Rect) -> Vec<(ProcessField, u16, u16)> {
    let fields = state.columns();
    let in_groups = state.view.group_by.is_some();
    let shown =
        fields.iter().skip(state.view.left).filter(|it| !in_groups || aggregation(**it).is_some());
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

fn titles(state: &ScreenState, area: Rect, buffer: &mut Buffer) {
    buffer.set_style(area, state.theme.style(Role::Title));
    let [down, up] = state.theme.sort_symbols();
    let columns = columns(state, area);
    if state.view.group_by.is_some() {
        let mut line = LineWriter::new(buffer, state.theme, area);
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
        // If the title fills its column, the arrow is in the gap before it.
        let wide = u16::try_from(title.width()).is_ok_and(|it| it > *width);
        let cell = Rect { x: x - u16::from(wide), width: width + u16::from(wide), ..area };
        let mut line = LineWriter::new(buffer, state.theme, cell);
        if column::is_left(*field) {
            line.text(role, &title);
        } else {
            line.right(role, &title, cell.width);
        }
    }
    if let Some(by) = state.view.group_by {
        let name = Rect { x: end(&columns, area), ..area };
        LineWriter::new(buffer, state.theme, name).text(Role::Title, &by.name().to_uppercase());
    }
}

/// The position of the name of a group: after the last column.
fn end(columns: &[(ProcessField, u16, u16)], area: Rect) -> u16 {
    let first = area.x + 2 + 2 * COUNT_CELLS;
    columns.last().map_or(first, |(_, x, width)| x + width + 1)
}

fn draw_row(
    (state, row): (&ScreenState, &ScreenRow),
    area: Rect,
    text: &mut String,
    buffer: &mut Buffer,
) {
    let (sign, role) = match row.mark {
        RowMark::None => (" ", Role::Text),
        RowMark::New => ("+", Role::New),
        RowMark::Gone => ("-", Role::Gone),
    };
    let rates = &state.update.rates;
    LineWriter::new(buffer, state.theme, area).text(role, sign);
    match row.source {
        RowSource::Process(index) => {
            let Some(process) = rates.sample.processes.get(index) else { return };
            process_cells((state, row, process), area, text, buffer);
            if row.mark == RowMark::Gone {
                buffer.set_style(area, state.theme.style(Role::Gone));
            }
        }
        RowSource::Group(index) => {
            let group = rates.groups.as_ref().and_then(|it| it.groups.get(index));
            if let Some(group) = group {
                group_cells((state, group), area, text, buffer);
            }
        }
    }
}

fn process_cells(
    (state, row, process): (&ScreenState, &ScreenRow, &Process),
    area: Rect,
    text: &mut String,
    buffer: &mut Buffer,
) {
    for (field, x, width) in columns(state, area) {
        let cell = Rect { x, width, ..area };
        text.clear();
        column::process_cell(process, field, text);
        let mut line = LineWriter::new(buffer, state.theme, cell);
        if field == ProcessField::Comm && state.view.tree {
            branch(state, row, &mut line);
        }
        draw_cell(field, process.row.value(field), text, &mut line);
    }
}

fn draw_cell(
    field: ProcessField,
    value: Option<FieldValue<'_>>,
    text: &str,
    line: &mut LineWriter<'_>,
) {
    let role = match (field.field().unit, value) {
        (Unit::Percent, Some(FieldValue::Float(90.0..))) => Role::Full,
        (Unit::Percent, Some(FieldValue::Float(50.0..))) => Role::High,
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
fn branch(state: &ScreenState, row: &ScreenRow, line: &mut LineWriter<'_>) {
    let [child, last, past, none] = state.theme.tree_symbols();
    let tree = row.tree;
    // Roots have no line.
    for level in 1..tree.depth {
        let closed = tree.closed >> level & 1 == 1;
        line.text(Role::Dim, if closed { none } else { past });
    }
    if tree.depth > 0 {
        line.text(Role::Dim, if tree.last { last } else { child });
    }
}

fn group_cells(
    (state, group): (&ScreenState, &Group),
    area: Rect,
    text: &mut String,
    buffer: &mut Buffer,
) {
    let mut line = LineWriter::new(buffer, state.theme, area);
    for field in [GroupField::Processes, GroupField::Ended] {
        let count = group.head.get(field).unwrap_or(0).to_string();
        line.right(Role::Text, &count, COUNT_CELLS);
    }
    let columns = columns(state, area);
    for (field, x, width) in &columns {
        text.clear();
        column::group_cell(group, *field, text);
        let mut line = LineWriter::new(buffer, state.theme, Rect { x: *x, width: *width, ..area });
        draw_cell(*field, group.row.value(*field), text, &mut line);
    }
    text.clear();
    monitor_format::human::escaped(&group.name, text);
    let name = Rect { x: end(&columns, area), ..area };
    let name = name.intersection(area);
    LineWriter::new(buffer, state.theme, name).styled(Style::new(), text);
}

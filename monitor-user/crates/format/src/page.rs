//! The text of a table: headings, rows in columns, pairs of heading and value.
//!
//! In: objects and their fields. Out: text, and the grid that its tables use in turn. An absent
//! value is `-`. Which parts of a sample there are is not known here.

use super::grid::{Column, Grid, Side};
use super::object::Object;
use super::{Layout, OptionalColumn, human};
use anstyle::Style;
use monitor_model::{Category, Field, Process, ProcessField, Role, Unit, ValueKind};
use std::fmt::Write;

/// Of headings.
pub const HEADING: Style = Style::new().bold();
/// Of rows of processes that have ended.
pub const ENDED: Style = Style::new().dimmed();
/// Of notes.
pub const NOTE: Style = anstyle::AnsiColor::Yellow.on_default();

/// Whether colour is used. Colour is never the only carrier of information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// For a colour terminal.
    Colour,
    /// No colour.
    Plain,
}

/// The text of a sample, and the grid that its tables use in turn.
pub struct Page {
    /// Whether it has colours.
    pub paint: Paint,
    /// The grid.
    pub grid: Grid,
    /// The text.
    pub text: String,
}

impl Page {
    /// Pairs of heading and value, as many as fit on a line.
    pub fn pairs<O: Object>(&mut self, object: &O, fields: &[O::Field], room: usize) {
        const WIDTH: usize = 20;
        let beside = (room / WIDTH).max(1);
        for line in fields.chunks(beside) {
            let start = self.text.len();
            for (index, &it) in line.iter().enumerate() {
                // At least one space, as a value may be wider than its column.
                let used = self.text.len() - start;
                let gap = (index * WIDTH).saturating_sub(used).max(usize::from(index > 0));
                self.text.extend(std::iter::repeat_n(' ', gap));
                self.text.push_str(it.field().title);
                self.text.push(' ');
                cell(object, it, &mut self.text);
            }
            self.text.push('\n');
        }
    }

    /// A table of objects, a row for each.
    pub fn rows<O: Object>(&mut self, objects: &[O], fields: &[O::Field], room: usize) {
        self.grid.begin(fields.iter().map(|it| column(it.field())));
        for object in objects {
            fields.iter().for_each(|&it| self.grid.cell(|out| cell(object, it, out)));
        }
        self.heading(room);
        for row in 0..self.grid.rows() {
            self.grid.row(row, room, &mut self.text);
            self.text.push('\n');
        }
    }

    /// The headings of the grid.
    pub fn heading(&mut self, room: usize) {
        self.line(HEADING, |grid, out| grid.titles(room, out));
    }

    /// A line of the grid.
    pub fn line(&mut self, style: Style, write: impl FnOnce(&Grid, &mut String)) {
        let grid = std::mem::take(&mut self.grid);
        self.styled(style, |out| write(&grid, out));
        self.grid = grid;
        self.text.push('\n');
    }

    /// Writing to a `String` cannot fail.
    pub fn styled(&mut self, style: Style, write: impl FnOnce(&mut String)) {
        let style = if self.paint == Paint::Colour { style } else { Style::new() };
        let _ = write!(self.text, "{style}");
        write(&mut self.text);
        let _ = write!(self.text, "{style:#}");
    }
}

/// The process columns that fit the width: optional ones are left out as needed.
pub fn fitting_columns(layout: &Layout, room: usize) -> Vec<ProcessField> {
    let mut fields = layout.processes.clone();
    for OptionalColumn { field, min_command: command } in &layout.optional {
        let widths = fields.iter().map(|it| match column(it.field()) {
            Column { side: Side::Left, .. } if it.field().kind == ValueKind::Text => *command,
            Column { title, min_width: least, .. } => least.max(title.len()),
        });
        // The gaps are one fewer than the columns.
        if widths.map(|width| width + 1).sum::<usize>() <= room + 1 {
            break;
        }
        fields.retain(|it| it != field);
    }
    fields
}

/// A process, then its threads.
pub fn with_threads(process: &Process) -> impl Iterator<Item = &Process> {
    std::iter::once(process).chain(&process.threads)
}

/// The column of a field.
pub fn column(field: &'static Field) -> Column {
    let side = match field.kind {
        ValueKind::Text | ValueKind::Letter => Side::Left,
        _ => Side::Right,
    };
    let least = match field.unit {
        Unit::Nanoseconds | Unit::Bytes | Unit::BytesPerSecond | Unit::Percent => 6,
        Unit::Count | Unit::PerSecond => 5,
        Unit::None if field.role == Role::Label => 6,
        Unit::None => 0,
    };
    Column { title: field.title, min_width: least, side }
}

/// Appends the value of a field, or `-`.
pub fn cell<O: Object>(object: &O, it: O::Field, out: &mut String) {
    object.with_value(it, |value| match value {
        Some(value) => human::value(it.field(), value, out),
        None => out.push('-'),
    });
}

//! The table: text in columns, 80 characters or the width of the terminal.
//!
//! A line with node, backend and time, then the requested parts, then signals, then notes. An
//! absent value is `-`. Processes come last, so that a small screen cuts only them; if a line is
//! too short for the columns, the optional ones are left out.

use super::grid::{Column, Grid, Side};
use super::object::{GroupHead, GroupSums, Object};
use super::{Frame, FrameWriter, Layout, OptionalColumn, Viewport, events, human, notes};
use anstyle::Style;
use monitor_model::{
    Category, Field, GroupField, Grouped, Process, ProcessField, Role, Unit, ValueKind,
    degradation::NoteFolder,
};
use std::fmt::Write;

const HEADING: Style = Style::new().bold();
const ENDED: Style = Style::new().dimmed();
const NOTE: Style = anstyle::AnsiColor::Yellow.on_default();

/// Whether colour is used. Colour is never the only carrier of information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// For a colour terminal.
    Colour,
    /// No colour.
    Plain,
}

/// Writes one block of lines per sample.
pub struct Table {
    layout: Layout,
    page: Page,
    folder: NoteFolder,
    written: bool,
}

/// The text of a sample, and the grid that its tables use in turn.
struct Page {
    paint: Paint,
    grid: Grid,
    text: String,
}

impl FrameWriter for Table {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        self.page.text.clear();
        if std::mem::replace(&mut self.written, true) && frame.viewport.lines.is_none() {
            self.page.text.push('\n');
        }
        self.summary(frame);
        self.devices(frame);
        let notes = notes::text(frame, &mut self.folder);
        let events = if self.layout.signals { events::text(frame) } else { String::new() };
        let below = notes.lines().count() + events.lines().count();
        if let Some(grouped) = &frame.rates.groups {
            self.groups(grouped, frame.viewport, below);
        } else if self.layout.scope.processes() && !self.layout.processes.is_empty() {
            self.processes(frame, below);
        }
        self.page.text.push_str(&events);
        if !notes.is_empty() {
            self.page.styled(NOTE, |out| out.push_str(&notes));
        }
        out.extend_from_slice(self.page.text.as_bytes());
    }
}

impl Table {
    /// With these columns.
    pub fn new(layout: Layout, paint: Paint) -> Self {
        let page = Page { paint, grid: Grid::default(), text: String::new() };
        Self { layout, page, folder: NoteFolder::default(), written: false }
    }

    /// Node, backend, number of rows, interval, time. Writing to a `String` cannot fail.
    fn summary(&mut self, frame: &Frame<'_>) {
        let sample = &frame.rates.sample;
        human::escaped(&sample.node, &mut self.page.text);
        let by = if sample.relayed { ", by the daemon" } else { "" };
        let _ = write!(self.page.text, "  {}{by}", sample.backend.name());
        if let Some(grouped) = &frame.rates.groups {
            let plural = if frame.matched == 1 { "" } else { "s" };
            let _ = write!(
                self.page.text,
                "  {} group{plural} by {}",
                frame.matched,
                grouped.by.name()
            );
        } else if self.layout.scope.processes() {
            let plural = if frame.matched == 1 { "" } else { "es" };
            let _ = write!(self.page.text, "  {} process{plural}", frame.matched);
        }
        if let Some(interval) = frame.rates.interval {
            self.page.text.push_str("  over ");
            human::duration(interval.0 as f64, &mut self.page.text);
        }
        self.page.text.push_str("  ");
        human::timestamp(sample.at.unix, &mut self.page.text);
        self.page.text.push('\n');
    }

    /// The node, its disks and its interfaces, if they are in scope.
    fn devices(&mut self, frame: &Frame<'_>) {
        let (layout, room) = (&self.layout, frame.viewport.columns);
        let Some(node) = &frame.rates.sample.node_stats else { return };
        if layout.scope.node() {
            self.page.pairs(node, &layout.node, room);
        }
        if layout.scope.disks() && !layout.disks.is_empty() {
            self.page.rows(&node.disks, &layout.disks, room);
        }
        if layout.scope.nets() && !layout.nets.is_empty() {
            self.page.rows(&node.nets, &layout.nets, room);
        }
    }

    /// Processes with their threads; a screen shows as many as fit above the notes.
    fn processes(&mut self, frame: &Frame<'_>, notes: usize) {
        let max = self.rows_left(frame.viewport, notes);
        let fields = fitting_columns(&self.layout, frame.viewport.columns);
        self.page.grid.begin(fields.iter().map(|it| column(it.field())));
        let rows = || frame.processes.iter().flat_map(with_threads).take(max);
        for process in rows() {
            fields.iter().for_each(|&it| self.page.grid.cell(|out| cell(process, it, out)));
        }
        self.page.heading(frame.viewport.columns);
        for (row, process) in rows().enumerate() {
            let style = if process.ended() { ENDED } else { Style::new() };
            self.page.line(style, |grid, out| grid.row(row, frame.viewport.columns, out));
        }
    }

    /// Groups: number of processes, sums, and the name last, because it may be long.
    fn groups(&mut self, grouped: &Grouped, room: Viewport, notes: usize) {
        const COUNTS: [GroupField; 2] = [GroupField::Processes, GroupField::Ended];
        let max = self.rows_left(room, notes);
        let fields = self.layout.group_fields();
        let counts = COUNTS.iter().map(|it| column(it.field()));
        let columns = counts.chain(fields.iter().map(|it| column(it.field())));
        self.page.grid.begin(columns.chain(std::iter::once(column(GroupField::Name.field()))));
        let rows = || grouped.groups.iter().take(max);
        for group in rows() {
            COUNTS
                .iter()
                .for_each(|&it| self.page.grid.cell(|out| cell(&GroupHead(group), it, out)));
            fields
                .iter()
                .for_each(|&it| self.page.grid.cell(|out| cell(&GroupSums(group), it, out)));
            self.page.grid.cell(|out| cell(&GroupHead(group), GroupField::Name, out));
        }
        self.page.heading(room.columns);
        for (row, group) in rows().enumerate() {
            let is_empty = group.head.get(GroupField::Processes) == Some(0);
            let style = if is_empty { ENDED } else { Style::new() };
            self.page.line(style, |grid, out| grid.row(row, room.columns, out));
        }
    }

    /// Rows left on the screen below the written lines, a heading and the notes.
    fn rows_left(&self, room: Viewport, notes: usize) -> usize {
        let used = self.page.text.lines().count() + 1 + notes;
        room.lines.map_or(usize::MAX, |lines| lines.saturating_sub(used))
    }
}

impl Page {
    /// Pairs of heading and value, as many as fit on a line.
    fn pairs<O: Object>(&mut self, object: &O, fields: &[O::Field], room: usize) {
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

    fn rows<O: Object>(&mut self, objects: &[O], fields: &[O::Field], room: usize) {
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

    fn heading(&mut self, room: usize) {
        self.line(HEADING, |grid, out| grid.titles(room, out));
    }

    fn line(&mut self, style: Style, write: impl FnOnce(&Grid, &mut String)) {
        let grid = std::mem::take(&mut self.grid);
        self.styled(style, |out| write(&grid, out));
        self.grid = grid;
        self.text.push('\n');
    }

    /// Writing to a `String` cannot fail.
    fn styled(&mut self, style: Style, write: impl FnOnce(&mut String)) {
        let style = if self.paint == Paint::Colour { style } else { Style::new() };
        let _ = write!(self.text, "{style}");
        write(&mut self.text);
        let _ = write!(self.text, "{style:#}");
    }
}

/// The process columns that fit the width: optional ones are left out as needed.
fn fitting_columns(layout: &Layout, room: usize) -> Vec<ProcessField> {
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

fn with_threads(process: &Process) -> impl Iterator<Item = &Process> {
    std::iter::once(process).chain(&process.threads)
}

fn column(field: &'static Field) -> Column {
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

fn cell<O: Object>(object: &O, it: O::Field, out: &mut String) {
    object.with_value(it, |value| match value {
        Some(value) => human::value(it.field(), value, out),
        None => out.push('-'),
    });
}

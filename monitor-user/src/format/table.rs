//! The table: for people, 80 columns or as wide as the terminal.
//!
//! One line says where and when and from which backend, then the parts asked for, then the notes.
//! A value that is absent is `-`. Processes come last, so that a short screen cuts only them.

use super::grid::{Column, Grid, Side};
use super::object::Object;
use super::wrap::wrap;
use super::{Format, Frame, Layout, Paint, human};
use crate::model::field::{Category, Field, Kind, Role, Unit};
use crate::model::sample::{Lost, Process};
use anstyle::Style;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

const HEADING: Style = Style::new().bold();
const ENDED: Style = Style::new().dimmed();
const NOTE: Style = anstyle::AnsiColor::Yellow.on_default();

/// Writes a block for each sample.
pub struct Table {
    layout: Layout,
    paint: Paint,
    grid: Grid,
    text: String,
    written: bool,
}

impl Format for Table {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        self.text.clear();
        if std::mem::replace(&mut self.written, true) && frame.room.lines.is_none() {
            self.text.push('\n');
        }
        self.summary(frame);
        self.devices(frame);
        let notes = notes(frame);
        if self.layout.scope.processes() && !self.layout.processes.is_empty() {
            self.processes(frame, notes.lines().count());
        }
        if !notes.is_empty() {
            self.styled(NOTE, |out| out.push_str(&notes));
        }
        out.extend_from_slice(self.text.as_bytes());
    }
}

impl Table {
    /// With these columns.
    pub fn new(layout: Layout, paint: Paint) -> Self {
        Self { layout, paint, grid: Grid::default(), text: String::new(), written: false }
    }

    /// Where, by which backend, how many, since when, when. Writing to a `String` cannot fail.
    fn summary(&mut self, frame: &Frame<'_>) {
        let sample = &frame.rates.sample;
        human::escaped(&sample.node, &mut self.text);
        let by = if sample.relayed { ", by the daemon" } else { "" };
        let _ = write!(self.text, "  {}{by}", sample.source.name());
        if self.layout.scope.processes() {
            let plural = if frame.matched == 1 { "" } else { "es" };
            let _ = write!(self.text, "  {} process{plural}", frame.matched);
        }
        if let Some(interval) = frame.rates.interval {
            self.text.push_str("  over ");
            human::span(interval.0 as f64, &mut self.text);
        }
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(sample.at.unix.0);
        let _ = writeln!(self.text, "  {}", humantime::format_rfc3339_seconds(at));
    }

    /// The node, its disks and its interfaces, as far as the scope goes.
    fn devices(&mut self, frame: &Frame<'_>) {
        let (scope, room) = (self.layout.scope, frame.room.columns);
        let Some(node) = &frame.rates.sample.node_stats else { return };
        if scope.node() {
            let fields = std::mem::take(&mut self.layout.node);
            self.pairs(node, &fields, room);
            self.layout.node = fields;
        }
        if scope.disks() && !self.layout.disks.is_empty() {
            let fields = std::mem::take(&mut self.layout.disks);
            self.rows(&node.disks, &fields, room);
            self.layout.disks = fields;
        }
        if scope.nets() && !self.layout.nets.is_empty() {
            let fields = std::mem::take(&mut self.layout.nets);
            self.rows(&node.nets, &fields, room);
            self.layout.nets = fields;
        }
    }

    /// Heading and value, as many beside each other as the line holds.
    fn pairs<O: Object>(&mut self, object: &O, fields: &[O::Field], room: usize) {
        const WIDTH: usize = 20;
        let beside = (room / WIDTH).max(1);
        for line in fields.chunks(beside) {
            let start = self.text.len();
            for (index, &it) in line.iter().enumerate() {
                // A gap of one at least, as a value may be wider than its place.
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

    /// Processes, each with its threads; on a screen no more than leave room for the notes.
    fn processes(&mut self, frame: &Frame<'_>, notes: usize) {
        let used = self.text.lines().count() + 1 + notes;
        let most = frame.room.lines.map_or(usize::MAX, |lines| lines.saturating_sub(used));
        let fields = std::mem::take(&mut self.layout.processes);
        self.grid.begin(fields.iter().map(|it| column(it.field())));
        let rows = || frame.processes.iter().flat_map(with_threads).take(most);
        for process in rows() {
            fields.iter().for_each(|&it| self.grid.cell(|out| cell(process, it, out)));
        }
        self.layout.processes = fields;
        self.heading(frame.room.columns);
        for (row, process) in rows().enumerate() {
            let style = if process.ended() { ENDED } else { Style::new() };
            self.line(style, |grid, out| grid.row(row, frame.room.columns, out));
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

fn with_threads(process: &Process) -> impl Iterator<Item = &Process> {
    std::iter::once(process).chain(&process.threads)
}

/// The notes of the sample, then what was lost, each a paragraph.
fn notes(frame: &Frame<'_>) -> String {
    const LABEL: &str = "note: ";
    let sample = &frame.rates.sample;
    let lost = sample.lost.iter().filter(|it| it.ring_full + it.table_full > 0).map(loss);
    let mut out = String::new();
    for note in sample.notes.iter().map(|note| note.text.clone()).chain(lost) {
        let mut text = String::new();
        human::escaped(&note, &mut text);
        out.push_str(LABEL);
        wrap(&text, LABEL.len(), frame.room.columns, &mut out);
    }
    out
}

fn loss(lost: &Lost) -> String {
    let Lost { program, ring_full, table_full } = lost;
    format!("{program} lost {ring_full} records (ring full), {table_full} keys (table full)")
}

fn column(field: &'static Field) -> Column {
    let side = match field.kind {
        Kind::Text | Kind::Letter => Side::Left,
        _ => Side::Right,
    };
    let least = match field.unit {
        Unit::Nanoseconds | Unit::Bytes | Unit::BytesPerSecond | Unit::Percent => 6,
        Unit::Count | Unit::PerSecond => 5,
        Unit::None => {
            if field.role == Role::Label {
                6
            } else {
                0
            }
        }
    };
    Column { title: field.title, least, side }
}

fn cell<O: Object>(object: &O, it: O::Field, out: &mut String) {
    let field = it.field();
    let absent = |out: &mut String| out.push('-');
    if field.kind == Kind::Text {
        match object.text(it) {
            Some(text) => human::escaped(&text, out),
            None => absent(out),
        }
    } else {
        match object.number(it) {
            Some(value) => human::value(field, value, out),
            None => absent(out),
        }
    }
}

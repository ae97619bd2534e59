//! The table: text in columns, 80 characters or the width of the terminal.
//!
//! A line with node, backend and time, then the requested parts, then signals, then notes. An
//! absent value is `-`. Processes come last, so that a small screen cuts only them; if a line is
//! too short for the columns, the optional ones are left out.

use super::grid::Grid;
use super::object::{GroupHead, GroupSums};
use super::page::{ENDED, NOTE, Page, Paint, cell, column, fitting_columns, with_threads};
use super::{Frame, FrameWriter, Layout, Viewport, events, human, node_rows, notes};
use anstyle::Style;
use monitor_model::{Category, GroupField, Grouped, degradation::NoteFolder};
use std::fmt::Write;

/// Writes one block of lines per sample.
pub struct Table {
    layout: Layout,
    page: Page,
    folder: NoteFolder,
    written: bool,
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

    fn write_nodes(&mut self, frames: &[Frame<'_>], out: &mut Vec<u8>) {
        self.page.text.clear();
        if std::mem::replace(&mut self.written, true) {
            self.page.text.push('\n');
        }
        node_rows::write(&mut self.page, &self.layout, frames);
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

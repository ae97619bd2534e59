//! A table of many nodes: each row begins with the name of its node.
//!
//! In: a frame for each node. Out: a line that counts nodes and rows, then the nodes, disks,
//! interfaces, groups or processes of all of them below one heading each. Nodes are in the order of
//! the frames, and rows of a node in its own. Notes are left to the caller, which
//! may know nodes that have the same.

use super::grid::{Column, Side};
use super::object::{GroupHead, GroupSums, Object};
use super::page::{ENDED, Page, cell, column, fitting_columns, with_threads};
use super::{Frame, Layout, human};
use anstyle::Style;
use monitor_model::{Category, GroupField, Node};
use std::fmt::Write;

/// The heading of the first column.
const TITLE: &str = "NODE";

/// Appends the frames. Writing to a `String` cannot fail.
pub fn write(page: &mut Page, layout: &Layout, frames: &[Frame<'_>]) {
    let Some(room) = frames.first().map(|it| it.viewport.columns) else { return };
    let n_nodes = frames.len();
    let plural = |count: usize, end| if count == 1 { "" } else { end };
    let _ = write!(page.text, "{n_nodes} node{}", plural(n_nodes, "s"));
    let matched: usize = frames.iter().map(|it| it.matched).sum();
    let is_grouped = frames.iter().any(|it| it.rates.groups.is_some());
    if is_grouped {
        let _ = write!(page.text, "  {matched} group{}", plural(matched, "s"));
    } else if layout.scope.processes() {
        let _ = write!(page.text, "  {matched} process{}", plural(matched, "es"));
    }
    if let Some(at) = frames.iter().map(|it| it.rates.sample.at.unix).max() {
        page.text.push_str("  ");
        human::timestamp(at, &mut page.text);
    }
    page.text.push('\n');
    if layout.scope.node() {
        // Columns that were not named are left out where the line is too short.
        let most = if layout.optional.is_empty() { usize::MAX } else { room };
        let fields = first_columns(&layout.node, most.saturating_sub(names_width(frames) + 1));
        objects(page, frames, (room, fields), |node| std::slice::from_ref(node));
    }
    if layout.scope.disks() && !layout.disks.is_empty() {
        objects(page, frames, (room, &layout.disks), |node| &node.disks);
    }
    if layout.scope.nets() && !layout.nets.is_empty() {
        objects(page, frames, (room, &layout.nets), |node| &node.nets);
    }
    if is_grouped {
        groups(page, layout, frames);
    } else if layout.scope.processes() && !layout.processes.is_empty() {
        processes(page, layout, frames);
    }
}

fn node_column() -> Column {
    Column { title: TITLE, min_width: 0, side: Side::Left }
}

fn node_cell(page: &mut Page, frame: &Frame<'_>) {
    page.grid.cell(|out| human::escaped(&frame.rates.sample.node, out));
}

/// The width of the first column.
fn names_width(frames: &[Frame<'_>]) -> usize {
    let width = |frame: &Frame<'_>| human::escaped_text(&frame.rates.sample.node).chars().count();
    frames.iter().map(width).max().unwrap_or(0).max(TITLE.len())
}

/// As many fields as fit the width, and at least one.
fn first_columns<F: Category>(fields: &[F], room: usize) -> &[F] {
    let mut used = 0;
    let fits = |field: &&F| {
        let Column { title, min_width, .. } = column(field.field());
        used += min_width.max(title.len()) + 1;
        used <= room.saturating_add(1)
    };
    let n_fitting = fields.iter().take_while(fits).count();
    &fields[..n_fitting.max(1).min(fields.len())]
}

/// A row for each object of each node.
fn objects<O: Object>(
    page: &mut Page,
    frames: &[Frame<'_>],
    (room, fields): (usize, &[O::Field]),
    select: impl Fn(&Node) -> &[O],
) {
    page.grid
        .begin(std::iter::once(node_column()).chain(fields.iter().map(|it| column(it.field()))));
    for frame in frames {
        let Some(node) = &frame.rates.sample.node_stats else { continue };
        for object in select(node) {
            node_cell(page, frame);
            fields.iter().for_each(|&it| page.grid.cell(|out| cell(object, it, out)));
        }
    }
    page.heading(room);
    for row in 0..page.grid.rows() {
        page.line(Style::new(), |grid, out| grid.row(row, room, out));
    }
}

/// Groups of each node, the name last.
fn groups(page: &mut Page, layout: &Layout, frames: &[Frame<'_>]) {
    const COUNTS: [GroupField; 2] = [GroupField::Processes, GroupField::Ended];
    let fields = layout.group_fields();
    let counts = COUNTS.iter().map(|it| column(it.field()));
    let columns = std::iter::once(node_column()).chain(counts);
    let columns = columns.chain(fields.iter().map(|it| column(it.field())));
    page.grid.begin(columns.chain(std::iter::once(column(GroupField::Name.field()))));
    let all = frames.iter().flat_map(|frame| {
        let groups = frame.rates.groups.iter().flat_map(|it| &it.groups);
        groups.map(move |group| (frame, group))
    });
    for (frame, group) in all {
        node_cell(page, frame);
        COUNTS.iter().for_each(|&it| page.grid.cell(|out| cell(&GroupHead(group), it, out)));
        fields.iter().for_each(|&it| page.grid.cell(|out| cell(&GroupSums(group), it, out)));
        page.grid.cell(|out| cell(&GroupHead(group), GroupField::Name, out));
    }
    let room = frames.first().map_or(0, |it| it.viewport.columns);
    page.heading(room);
    for row in 0..page.grid.rows() {
        page.line(Style::new(), |grid, out| grid.row(row, room, out));
    }
}

/// Processes with their threads.
fn processes(page: &mut Page, layout: &Layout, frames: &[Frame<'_>]) {
    let room = frames.first().map_or(0, |it| it.viewport.columns);
    let fields = fitting_columns(layout, room.saturating_sub(names_width(frames) + 1));
    page.grid
        .begin(std::iter::once(node_column()).chain(fields.iter().map(|it| column(it.field()))));
    let rows = || {
        frames.iter().flat_map(|frame| {
            frame.processes.iter().flat_map(with_threads).map(move |process| (frame, process))
        })
    };
    for (frame, process) in rows() {
        node_cell(page, frame);
        fields.iter().for_each(|&it| page.grid.cell(|out| cell(process, it, out)));
    }
    page.heading(room);
    for (row, (_, process)) in rows().enumerate() {
        let style = if process.ended() { ENDED } else { Style::new() };
        page.line(style, |grid, out| grid.row(row, room, out));
    }
}

//! The rows of a frame, for the formats whose rows are all of one kind: CSV and Parquet.
//!
//! In: a frame and its layout. Out: the cells of each row: the time of the sample, the node if the
//! layout names it, then the fields.
//! Scope `all` has rows of several kinds and is refused by the caller.

use super::object::{GroupHead, GroupSums, Object};
use super::{Frame, Layout};
use monitor_model::{Category, Field, FieldValue, GroupField, Scope};

/// Name of the first column.
pub const TIME: &str = "time_unix_ns";
/// Name of the second column, where rows are of many nodes.
pub const NODE: &str = "node";

/// Receives rows, cell by cell.
pub trait RowSink {
    /// The next cell of the row.
    fn cell(&mut self, value: Option<FieldValue<'_>>);

    /// The end of the row.
    fn end_row(&mut self);
}

/// The fields of a row after the time and the node.
pub fn fields(layout: &Layout, is_grouped: bool) -> Vec<&'static Field> {
    fn list<C: Category>(fields: impl IntoIterator<Item = C>) -> Vec<&'static Field> {
        fields.into_iter().map(C::field).collect()
    }
    match layout.scope {
        _ if is_grouped => [list(GroupField::all()), list(layout.group_fields())].concat(),
        Scope::Processes | Scope::All => list(layout.processes.iter().copied()),
        Scope::Node => list(layout.node.iter().copied()),
        Scope::Disks => list(layout.disks.iter().copied()),
        Scope::Nets => list(layout.nets.iter().copied()),
    }
}

/// Passes the rows of a frame to a sink.
pub fn write(frame: &Frame<'_>, layout: &Layout, sink: &mut impl RowSink) {
    let sample = &frame.rates.sample;
    let node = layout.names_nodes.then_some(&*sample.node);
    let mut rows = Rows { at: sample.at.unix.0, node, sink };
    if let Some(grouped) = &frame.rates.groups {
        let (heads, sums): (Vec<_>, _) = (GroupField::all().collect(), layout.group_fields());
        // The current groups, then those that have finished.
        for group in grouped.groups.iter().chain(&grouped.finished) {
            rows.begin();
            rows.cells(&GroupHead(group), &heads);
            rows.cells(&GroupSums(group), &sums);
            rows.sink.end_row();
        }
        return;
    }
    match (layout.scope, &frame.rates.sample.node_stats) {
        (Scope::Processes | Scope::All, _) => rows.objects(frame.processes, &layout.processes),
        (Scope::Node, Some(node)) => rows.objects(std::slice::from_ref(node), &layout.node),
        (Scope::Disks, Some(node)) => rows.objects(&node.disks, &layout.disks),
        (Scope::Nets, Some(node)) => rows.objects(&node.nets, &layout.nets),
        (_, None) => {}
    }
}

struct Rows<'s, S> {
    at: u64,
    /// The name of the node, if it is a column.
    node: Option<&'s str>,
    sink: &'s mut S,
}

impl<S: RowSink> Rows<'_, S> {
    /// A row for each object, and for each part of it.
    fn objects<O: Object>(&mut self, objects: &[O], fields: &[O::Field]) {
        for row in objects.iter().flat_map(|it| std::iter::once(it).chain(it.parts().1)) {
            self.begin();
            self.cells(row, fields);
            self.sink.end_row();
        }
    }

    fn begin(&mut self) {
        self.sink.cell(Some(FieldValue::Number(self.at)));
        if let Some(node) = self.node {
            self.sink.cell(Some(FieldValue::Text(node)));
        }
    }

    fn cells<O: Object>(&mut self, object: &O, fields: &[O::Field]) {
        fields.iter().for_each(|&field| object.with_value(field, |value| self.sink.cell(value)));
    }
}

//! CSV (RFC 4180): a header, then one line per process, thread, disk, interface, node or group.
//!
//! The first column is the time of the sample, the second one the node where there are many. An
//! absent field is empty.
//! Control characters in names are escaped, because a terminal may show them. CSV has no notes; the
//! commands print them to standard error. Scope `all` has rows of several kinds and is refused
//! by the caller.

use super::rows::{self, NODE, RowSink, TIME};
use super::{Frame, FrameWriter, Layout, human};
use monitor_model::FieldValue;
use std::fmt::Write;

const FITS: &str = "every line has the fields of the header and a vector takes every byte";

/// Writes the header once, then lines of one category.
pub struct Csv {
    layout: Layout,
    headed: bool,
}

impl Csv {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout, headed: false }
    }
}

impl FrameWriter for Csv {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let mut lines = Lines { out: csv::Writer::from_writer(out), cell: String::new() };
        let is_grouped = frame.rates.groups.is_some();
        let has_node = frame.rates.sample.node_stats.is_some();
        if !self.headed && (is_grouped || has_node || self.layout.scope.processes()) {
            self.headed = true;
            let names = rows::fields(&self.layout, is_grouped).into_iter().map(|it| it.name);
            let node = self.layout.names_nodes.then_some(NODE);
            let heads = std::iter::once(TIME).chain(node).chain(names);
            lines.out.write_record(heads).expect(FITS);
        }
        rows::write(frame, &self.layout, &mut lines);
    }
}

struct Lines<'w> {
    out: csv::Writer<&'w mut Vec<u8>>,
    /// The text of a cell, to reuse its memory.
    cell: String,
}

impl RowSink for Lines<'_> {
    fn cell(&mut self, value: Option<FieldValue<'_>>) {
        self.cell.clear();
        match value.and_then(human::rounded_value) {
            Some(FieldValue::Text(text)) => human::escaped(text, &mut self.cell),
            // Writing to a `String` cannot fail.
            Some(value) => write!(self.cell, "{value}").unwrap_or_default(),
            None => {}
        }
        self.out.write_field(&self.cell).expect(FITS);
    }

    fn end_row(&mut self) {
        self.out.write_record(None::<&[u8]>).expect(FITS);
    }
}

//! CSV (RFC 4180): a header, then one line per process, thread, disk, interface, node or group.
//!
//! The first column is the time of the sample. An absent field is empty. CSV has no notes; the
//! commands print them to standard error. Scope `all` has rows of several kinds and is refused
//! by the caller.

use super::object::{GroupHead, GroupSums, Object};
use super::{Frame, FrameWriter, Layout, rounded};
use monitor_model::field::{Category, FieldValue, GroupField, ProcessField, ValueKind};
use monitor_model::id::Ns;
use monitor_model::scope::Scope;
use std::fmt::Write;

/// Writes the header once, then lines of one category.
pub struct Csv {
    layout: Layout,
    headed: bool,
    scratch: String,
}

type Lines<'w> = csv::Writer<&'w mut Vec<u8>>;

impl Csv {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout, headed: false, scratch: String::new() }
    }

    fn rows<O: Object>(
        &mut self,
        lines: &mut Lines<'_>,
        rows: &ObjectRows<'_, O>,
    ) -> csv::Result<()> {
        if !self.headed {
            self.headed = true;
            lines.write_field("time_unix_ns")?;
            for field in rows.fields {
                lines.write_field(field.field().name)?;
            }
            lines.write_record(None::<&[u8]>)?;
        }
        for object in rows.objects {
            self.row(lines, object, rows)?;
            for part in object.parts().1 {
                self.row(lines, part, rows)?;
            }
        }
        Ok(())
    }

    fn row<O: Object>(
        &mut self,
        lines: &mut Lines<'_>,
        object: &O,
        rows: &ObjectRows<'_, O>,
    ) -> csv::Result<()> {
        lines.write_field(self.text(FieldValue::Number(rows.at.0)))?;
        self.cells(lines, object, rows.fields)?;
        lines.write_record(None::<&[u8]>)
    }

    /// The current groups, then those that have finished.
    fn groups(
        &mut self,
        lines: &mut Lines<'_>,
        frame: &Frame<'_>,
        fields: &[ProcessField],
    ) -> csv::Result<()> {
        let heads: Vec<_> = GroupField::all().collect();
        if !std::mem::replace(&mut self.headed, true) {
            let names = heads.iter().map(|it| it.field().name);
            let names = names.chain(fields.iter().map(|it| it.field().name));
            lines.write_record(std::iter::once("time_unix_ns").chain(names))?;
        }
        let grouped = frame.rates.groups.iter();
        for group in grouped.flat_map(|it| it.groups.iter().chain(&it.finished)) {
            lines.write_field(self.text(FieldValue::Number(frame.rates.sample.at.unix.0)))?;
            self.cells(lines, &GroupHead(group), &heads)?;
            self.cells(lines, &GroupSums(group), fields)?;
            lines.write_record(None::<&[u8]>)?;
        }
        Ok(())
    }

    fn cells<O: Object>(
        &mut self,
        lines: &mut Lines<'_>,
        object: &O,
        fields: &[O::Field],
    ) -> csv::Result<()> {
        for &field in fields {
            if field.field().kind == ValueKind::Text {
                lines.write_field(object.text(field).unwrap_or_default().as_bytes())?;
            } else {
                let text = object.number(field).map_or("", |value| self.text(value));
                lines.write_field(text)?;
            }
        }
        Ok(())
    }

    /// A value as text, valid until the next call. Writing to a `String` cannot fail.
    fn text(&mut self, value: FieldValue<'_>) -> &str {
        self.scratch.clear();
        let _ = match value {
            FieldValue::Number(n) => write!(self.scratch, "{n}"),
            FieldValue::Signed(n) => write!(self.scratch, "{n}"),
            FieldValue::Float(x) => rounded(x).map_or(Ok(()), |x| write!(self.scratch, "{x}")),
            FieldValue::Flag(yes) => write!(self.scratch, "{yes}"),
            FieldValue::Letter(letter) => write!(self.scratch, "{letter}"),
            FieldValue::Text(text) => write!(self.scratch, "{text}"),
        };
        &self.scratch
    }
}

struct ObjectRows<'a, O: Object> {
    at: Ns,
    objects: &'a [O],
    fields: &'a [O::Field],
}

impl FrameWriter for Csv {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let layout = self.layout.clone();
        let sample = &frame.rates.sample;
        let at = sample.at.unix;
        let mut lines = csv::Writer::from_writer(out);
        let written = match (layout.scope, &sample.node_stats) {
            _ if frame.rates.groups.is_some() => {
                self.groups(&mut lines, frame, &layout.group_fields())
            }
            (Scope::Processes | Scope::All, _) => self.rows(
                &mut lines,
                &ObjectRows { at, objects: frame.processes, fields: &layout.processes },
            ),
            (Scope::Node, Some(node)) => self.rows(
                &mut lines,
                &ObjectRows { at, objects: std::slice::from_ref(node), fields: &layout.node },
            ),
            (Scope::Disks, Some(node)) => self
                .rows(&mut lines, &ObjectRows { at, objects: &node.disks, fields: &layout.disks }),
            (Scope::Nets, Some(node)) => {
                self.rows(&mut lines, &ObjectRows { at, objects: &node.nets, fields: &layout.nets })
            }
            (_, None) => Ok(()),
        };
        written.expect("every line has the fields of the header and a vector takes every byte");
    }
}

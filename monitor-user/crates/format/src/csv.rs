//! CSV (RFC 4180): a header, then one line for each process, thread, disk, interface or node.
//!
//! The first column is the sample's time. A field that is absent is empty. Notes have no place in
//! it; the command line tells them on the other stream. `all` has rows of two kinds and is refused
//! before it comes here.

use super::object::{Head, Object, Sums};
use super::{Format, Frame, Layout, rounded};
use monitor_model::field::{Category, GroupField, Kind, ProcessField, Value};
use monitor_model::id::Ns;
use monitor_model::scope::Scope;
use std::fmt::Write;

/// Writes lines of one category.
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

    fn rows<O: Object>(&mut self, lines: &mut Lines<'_>, rows: &Rows<'_, O>) -> csv::Result<()> {
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
        rows: &Rows<'_, O>,
    ) -> csv::Result<()> {
        lines.write_field(self.text(Value::Number(rows.at.0)))?;
        self.cells(lines, object, rows.fields)?;
        lines.write_record(None::<&[u8]>)
    }

    /// The groups that there are, then those that are told for the last time.
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
            lines.write_field(self.text(Value::Number(frame.rates.sample.at.unix.0)))?;
            self.cells(lines, &Head(group), &heads)?;
            self.cells(lines, &Sums(group), fields)?;
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
            if field.field().kind == Kind::Text {
                lines.write_field(object.text(field).unwrap_or_default().as_bytes())?;
            } else {
                let text = object.number(field).map_or("", |value| self.text(value));
                lines.write_field(text)?;
            }
        }
        Ok(())
    }

    /// A value as text, until the next one. Writing to a `String` cannot fail.
    fn text(&mut self, value: Value<'_>) -> &str {
        self.scratch.clear();
        let _ = match value {
            Value::Number(n) => write!(self.scratch, "{n}"),
            Value::Signed(n) => write!(self.scratch, "{n}"),
            Value::Float(x) => rounded(x).map_or(Ok(()), |x| write!(self.scratch, "{x}")),
            Value::Flag(yes) => write!(self.scratch, "{yes}"),
            Value::Letter(letter) => write!(self.scratch, "{letter}"),
            Value::Text(text) => write!(self.scratch, "{text}"),
        };
        &self.scratch
    }
}

struct Rows<'a, O: Object> {
    at: Ns,
    objects: &'a [O],
    fields: &'a [O::Field],
}

impl Format for Csv {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let layout = self.layout.clone();
        let sample = &frame.rates.sample;
        let at = sample.at.unix;
        let mut lines = csv::Writer::from_writer(out);
        let written = match (layout.scope, &sample.node_stats) {
            _ if frame.rates.groups.is_some() => {
                self.groups(&mut lines, frame, &layout.of_groups())
            }
            (Scope::Processes | Scope::All, _) => self.rows(
                &mut lines,
                &Rows { at, objects: frame.processes, fields: &layout.processes },
            ),
            (Scope::Node, Some(node)) => self.rows(
                &mut lines,
                &Rows { at, objects: std::slice::from_ref(node), fields: &layout.node },
            ),
            (Scope::Disks, Some(node)) => {
                self.rows(&mut lines, &Rows { at, objects: &node.disks, fields: &layout.disks })
            }
            (Scope::Nets, Some(node)) => {
                self.rows(&mut lines, &Rows { at, objects: &node.nets, fields: &layout.nets })
            }
            (_, None) => Ok(()),
        };
        written.expect("every line has the fields of the header and a vector takes every byte");
    }
}

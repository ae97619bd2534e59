//! Parquet: one row per process, thread, disk, interface, node or group, in compressed columns.
//!
//! In: frames. Out: the bytes of a file, in chunks; `finish` completes it, because a Parquet file
//! is read from its end. An absent field is null. Scope `all` is refused by the caller, as for CSV.

use super::object::{GroupHead, GroupSums, Object};
use super::{Frame, FrameWriter, Layout};
use monitor_model::field::{Category, Field, FieldValue, GroupField, ProcessField, ValueKind};
use monitor_model::scope::Scope;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// Maximum rows in memory; they are compressed together.
const ROWS: usize = 64 << 10;
const TIME: &str = "time_unix_ns";

/// Writes a file of one category.
pub struct Parquet {
    layout: Layout,
    table: Option<ParquetTable>,
}

/// The file in progress.
struct ParquetTable {
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Vec<ColumnBuffer>,
    rows: usize,
}

/// The cells of a column since the last flush; `present` has 1 for a value and 0 for null.
struct ColumnBuffer {
    cells: Cells,
    present: Vec<i16>,
}

enum Cells {
    Whole(Vec<i64>),
    Float(Vec<f64>),
    Flag(Vec<bool>),
    Text(Vec<ByteArray>),
}

impl Parquet {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout, table: None }
    }

    fn fields(&self, is_grouped: bool) -> Vec<&'static Field> {
        fn fields_of<C: Category>(fields: &[C]) -> Vec<&'static Field> {
            fields.iter().map(|it| it.field()).collect()
        }
        match self.layout.scope {
            _ if is_grouped => {
                let heads: Vec<_> = GroupField::all().collect();
                [fields_of(&heads), fields_of(&self.layout.group_fields())].concat()
            }
            Scope::Processes | Scope::All => fields_of(&self.layout.processes),
            Scope::Node => fields_of(&self.layout.node),
            Scope::Disks => fields_of(&self.layout.disks),
            Scope::Nets => fields_of(&self.layout.nets),
        }
    }

    fn append(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut table = match self.table.take() {
            Some(table) => table,
            None => ParquetTable::new(&self.fields(frame.rates.groups.is_some()))?,
        };
        let (layout, sample) = (&self.layout, &frame.rates.sample);
        let at = sample.at.unix.0;
        match (layout.scope, &sample.node_stats) {
            _ if frame.rates.groups.is_some() => table.groups(at, frame, &layout.group_fields()),
            (Scope::Processes | Scope::All, _) => {
                table.rows(at, frame.processes, &layout.processes);
            }
            (Scope::Node, Some(node)) => {
                table.rows(at, std::slice::from_ref(node), &layout.node);
            }
            (Scope::Disks, Some(node)) => table.rows(at, &node.disks, &layout.disks),
            (Scope::Nets, Some(node)) => table.rows(at, &node.nets, &layout.nets),
            (_, None) => {}
        }
        if table.rows >= ROWS {
            table.flush()?;
            out.append(table.writer.inner_mut());
        }
        self.table = Some(table);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let mut table = match self.table.take() {
            Some(table) => table,
            None => ParquetTable::new(&self.fields(false))?,
        };
        table.flush()?;
        out.append(&mut table.writer.into_inner()?);
        Ok(())
    }
}

impl FrameWriter for Parquet {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        self.append(frame, out)
            .expect("every column has the same rows, and memory takes every byte");
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.end(out).expect("every column has the same rows, and memory takes every byte");
    }
}

impl ParquetTable {
    fn new(fields: &[&'static Field]) -> Result<Self> {
        let mut schema = vec![time_type()?];
        for field in fields {
            schema.push(field_type(field)?);
        }
        let schema = Type::group_type_builder("sample").with_fields(schema).build()?;
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let columns = fields.iter().map(|field| ColumnBuffer::for_kind(field.kind));
        let columns =
            std::iter::once(ColumnBuffer::for_kind(ValueKind::Number)).chain(columns).collect();
        Ok(Self { writer, columns, rows: 0 })
    }

    fn rows<O: Object>(&mut self, at: u64, objects: &[O], fields: &[O::Field]) {
        for object in objects {
            self.row(at, object, fields);
            object.parts().1.iter().for_each(|part| self.row(at, part, fields));
        }
    }

    fn row<O: Object>(&mut self, at: u64, object: &O, fields: &[O::Field]) {
        self.begin(at);
        self.cells(1, object, fields);
    }

    /// Appends the current groups, then those that have finished.
    fn groups(&mut self, at: u64, frame: &Frame<'_>, fields: &[ProcessField]) {
        let heads: Vec<_> = GroupField::all().collect();
        let grouped = frame.rates.groups.iter();
        for group in grouped.flat_map(|it| it.groups.iter().chain(&it.finished)) {
            self.begin(at);
            self.cells(1, &GroupHead(group), &heads);
            self.cells(1 + heads.len(), &GroupSums(group), fields);
        }
    }

    fn begin(&mut self, at: u64) {
        self.columns[0].push(Some(FieldValue::Number(at)));
        self.rows += 1;
    }

    fn cells<O: Object>(&mut self, from: usize, object: &O, fields: &[O::Field]) {
        for (column, &field) in self.columns[from..].iter_mut().zip(fields) {
            match field.field().kind {
                ValueKind::Text => column.push(object.text(field).as_deref().map(FieldValue::Text)),
                _ => column.push(object.number(field)),
            }
        }
    }

    /// Writes the buffered rows as one row group.
    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let mut writer = group.next_column()?.expect("the schema has a column for each");
            column.write(&mut writer)?;
            writer.close()?;
        }
        let _ = group.close()?;
        self.rows = 0;
        Ok(self.writer.flush()?)
    }
}

impl ColumnBuffer {
    const fn for_kind(kind: ValueKind) -> Self {
        let cells = match kind {
            ValueKind::Number | ValueKind::Signed => Cells::Whole(Vec::new()),
            ValueKind::Float => Cells::Float(Vec::new()),
            ValueKind::Flag => Cells::Flag(Vec::new()),
            ValueKind::Letter | ValueKind::Text => Cells::Text(Vec::new()),
        };
        Self { cells, present: Vec::new() }
    }

    fn push(&mut self, value: Option<FieldValue<'_>>) {
        // Infinity and NaN are absent, as in the other formats.
        let value = value.filter(|it| !matches!(it, FieldValue::Float(x) if !x.is_finite()));
        self.present.push(i16::from(value.is_some()));
        match (&mut self.cells, value) {
            (_, None) => {}
            (Cells::Whole(all), Some(FieldValue::Number(n))) => all.push(n.cast_signed()),
            (Cells::Whole(all), Some(FieldValue::Signed(n))) => all.push(n),
            (Cells::Float(all), Some(FieldValue::Float(x))) => all.push(x),
            (Cells::Flag(all), Some(FieldValue::Flag(yes))) => all.push(yes),
            (Cells::Text(all), Some(FieldValue::Text(text))) => all.push(text.into()),
            (Cells::Text(all), Some(FieldValue::Letter(letter))) => {
                all.push(letter.to_string().as_str().into());
            }
            _ => unreachable!("a field has values of its kind"),
        }
    }

    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let present = Some(self.present.as_slice());
        let _rows = match &mut self.cells {
            Cells::Whole(all) => {
                to.typed::<Int64Type>().write_batch(&std::mem::take(all), present, None)
            }
            Cells::Float(all) => {
                to.typed::<DoubleType>().write_batch(&std::mem::take(all), present, None)
            }
            Cells::Flag(all) => {
                to.typed::<BoolType>().write_batch(&std::mem::take(all), present, None)
            }
            Cells::Text(all) => {
                to.typed::<ByteArrayType>().write_batch(&std::mem::take(all), present, None)
            }
        }?;
        self.present.clear();
        Ok(())
    }
}

fn time_type() -> Result<TypePtr> {
    let it = LogicalType::timestamp(true, TimeUnit::NANOS);
    primitive(TIME, Physical::INT64, Some(it))
}

fn field_type(field: &Field) -> Result<TypePtr> {
    let (physical, logical) = match field.kind {
        ValueKind::Number => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ValueKind::Signed => (Physical::INT64, None),
        ValueKind::Float => (Physical::DOUBLE, None),
        ValueKind::Flag => (Physical::BOOLEAN, None),
        ValueKind::Letter | ValueKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    primitive(field.name, physical, logical)
}

fn primitive(name: &str, physical: Physical, logical: Option<LogicalType>) -> Result<TypePtr> {
    let builder = Type::primitive_type_builder(name, physical);
    let builder = builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
    Ok(Arc::new(builder.build()?))
}

//! Parquet: one row per process, thread, disk, interface, node or group, in compressed columns.
//!
//! In: frames. Out: the bytes of a file, in chunks; `finish` completes it, because a Parquet file
//! is read from its end. An absent field is null. Scope `all` is refused by the caller, as for CSV.

use super::rows::{self, NODE, RowSink, TIME};
use super::{Frame, FrameWriter, Layout};
use monitor_model::{Field, FieldValue, ValueKind};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use parquet::{errors::Result, file::properties::WriterProperties};
use std::sync::Arc;

/// Maximum rows in memory; they are compressed together.
const ROWS: usize = 64 << 10;

/// Writes a file of one category.
pub struct Parquet {
    layout: Layout,
    table: Option<ParquetTable>,
}

/// The file in progress.
struct ParquetTable {
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Vec<ColumnBuffer>,
    /// The column of the next cell.
    next: usize,
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

    /// Takes the file in progress, or begins it.
    fn table(&mut self, is_grouped: bool) -> Result<ParquetTable> {
        let layout = &self.layout;
        let node = layout.names_nodes.then_some(NODE);
        let new = || ParquetTable::new(node, &rows::fields(layout, is_grouped));
        self.table.take().map_or_else(new, Ok)
    }

    fn append(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut table = self.table(frame.rates.groups.is_some())?;
        rows::write(frame, &self.layout, &mut table);
        if table.rows >= ROWS {
            table.flush()?;
            out.append(table.writer.inner_mut());
        }
        self.table = Some(table);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let mut table = self.table(false)?;
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
    fn new(node: Option<&str>, fields: &[&'static Field]) -> Result<Self> {
        let time = LogicalType::timestamp(true, TimeUnit::NANOS);
        let mut schema = vec![primitive(TIME, Physical::INT64, Some(time))?];
        if let Some(node) = node {
            schema.push(primitive(node, Physical::BYTE_ARRAY, Some(LogicalType::String))?);
        }
        for field in fields {
            schema.push(field_type(field)?);
        }
        let schema = Type::group_type_builder("sample").with_fields(schema).build()?;
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let columns = fields.iter().map(|field| ColumnBuffer::for_kind(field.kind));
        let first = std::iter::once(ColumnBuffer::for_kind(ValueKind::Number));
        let node = node.map(|_| ColumnBuffer::for_kind(ValueKind::Text));
        let columns = first.chain(node).chain(columns).collect();
        Ok(Self { writer, columns, next: 0, rows: 0 })
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

impl RowSink for ParquetTable {
    fn cell(&mut self, value: Option<FieldValue<'_>>) {
        self.columns[self.next].push(value);
        self.next += 1;
    }

    fn end_row(&mut self) {
        (self.next, self.rows) = (0, self.rows + 1);
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
        match &mut self.cells {
            Cells::Whole(all) => write_batch::<Int64Type>(to, all, present),
            Cells::Float(all) => write_batch::<DoubleType>(to, all, present),
            Cells::Flag(all) => write_batch::<BoolType>(to, all, present),
            Cells::Text(all) => write_batch::<ByteArrayType>(to, all, present),
        }?;
        self.present.clear();
        Ok(())
    }
}

/// Writes cells and removes them.
fn write_batch<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    cells: &mut Vec<T::T>,
    present: Option<&[i16]>,
) -> Result<()> {
    let _rows = to.typed::<T>().write_batch(cells, present, None)?;
    cells.clear();
    Ok(())
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

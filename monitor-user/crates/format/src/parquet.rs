//! Parquet: a row for each process, thread, disk, interface, node or group, by column, compressed.
//!
//! In: frames. Out: the bytes of a file, piece by piece; `finish` makes it whole, because a
//! Parquet file is read from its end. A field that is absent is null. What has no rows of one kind
//! is refused before it comes here, as for CSV.

use super::object::{Head, Object, Sums};
use super::{Format, Frame, Layout};
use monitor_model::field::{Category, Field, GroupField, Kind, ProcessField, Value};
use monitor_model::scope::Scope;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// Rows that are compressed together: what is held in memory.
const ROWS: usize = 64 << 10;
const TIME: &str = "time_unix_ns";

/// Writes a file of one category.
pub struct Parquet {
    layout: Layout,
    table: Option<Table>,
}

/// What is being written.
struct Table {
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Vec<Column>,
    rows: usize,
}

/// The cells of a column since rows were written last, and which of them are there (1).
struct Column {
    cells: Cells,
    there: Vec<i16>,
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
        fn of<C: Category>(fields: &[C]) -> Vec<&'static Field> {
            fields.iter().map(|it| it.field()).collect()
        }
        match self.layout.scope {
            _ if is_grouped => {
                let heads: Vec<_> = GroupField::all().collect();
                [of(&heads), of(&self.layout.of_groups())].concat()
            }
            Scope::Processes | Scope::All => of(&self.layout.processes),
            Scope::Node => of(&self.layout.node),
            Scope::Disks => of(&self.layout.disks),
            Scope::Nets => of(&self.layout.nets),
        }
    }

    fn put(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut table = match self.table.take() {
            Some(table) => table,
            None => Table::new(&self.fields(frame.rates.groups.is_some()))?,
        };
        let (layout, sample) = (&self.layout, &frame.rates.sample);
        let at = sample.at.unix.0;
        match (layout.scope, &sample.node_stats) {
            _ if frame.rates.groups.is_some() => table.groups(at, frame, &layout.of_groups()),
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
            None => Table::new(&self.fields(false))?,
        };
        table.flush()?;
        out.append(&mut table.writer.into_inner()?);
        Ok(())
    }
}

impl Format for Parquet {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        self.put(frame, out).expect("every column has the same rows, and memory takes every byte");
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.end(out).expect("every column has the same rows, and memory takes every byte");
    }
}

impl Table {
    fn new(fields: &[&'static Field]) -> Result<Self> {
        let mut schema = vec![of_time()?];
        for field in fields {
            schema.push(of_field(field)?);
        }
        let schema = Type::group_type_builder("sample").with_fields(schema).build()?;
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let columns = fields.iter().map(|field| Column::of(field.kind));
        let columns = std::iter::once(Column::of(Kind::Number)).chain(columns).collect();
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

    /// The groups that there are, then those that are told for the last time.
    fn groups(&mut self, at: u64, frame: &Frame<'_>, fields: &[ProcessField]) {
        let heads: Vec<_> = GroupField::all().collect();
        let grouped = frame.rates.groups.iter();
        for group in grouped.flat_map(|it| it.groups.iter().chain(&it.finished)) {
            self.begin(at);
            self.cells(1, &Head(group), &heads);
            self.cells(1 + heads.len(), &Sums(group), fields);
        }
    }

    fn begin(&mut self, at: u64) {
        self.columns[0].push(Some(Value::Number(at)));
        self.rows += 1;
    }

    fn cells<O: Object>(&mut self, from: usize, object: &O, fields: &[O::Field]) {
        for (column, &field) in self.columns[from..].iter_mut().zip(fields) {
            match field.field().kind {
                Kind::Text => column.push(object.text(field).as_deref().map(Value::Text)),
                _ => column.push(object.number(field)),
            }
        }
    }

    /// Writes the rows that are held as one group.
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

impl Column {
    const fn of(kind: Kind) -> Self {
        let cells = match kind {
            Kind::Number | Kind::Signed => Cells::Whole(Vec::new()),
            Kind::Float => Cells::Float(Vec::new()),
            Kind::Flag => Cells::Flag(Vec::new()),
            Kind::Letter | Kind::Text => Cells::Text(Vec::new()),
        };
        Self { cells, there: Vec::new() }
    }

    fn push(&mut self, value: Option<Value<'_>>) {
        // What is no number is absent, as in the other forms.
        let value = value.filter(|it| !matches!(it, Value::Float(x) if !x.is_finite()));
        self.there.push(i16::from(value.is_some()));
        match (&mut self.cells, value) {
            (_, None) => {}
            (Cells::Whole(all), Some(Value::Number(n))) => all.push(n.cast_signed()),
            (Cells::Whole(all), Some(Value::Signed(n))) => all.push(n),
            (Cells::Float(all), Some(Value::Float(x))) => all.push(x),
            (Cells::Flag(all), Some(Value::Flag(yes))) => all.push(yes),
            (Cells::Text(all), Some(Value::Text(text))) => all.push(text.into()),
            (Cells::Text(all), Some(Value::Letter(letter))) => {
                all.push(letter.to_string().as_str().into());
            }
            _ => unreachable!("a field has values of its kind"),
        }
    }

    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let there = Some(self.there.as_slice());
        let _rows = match &mut self.cells {
            Cells::Whole(all) => {
                to.typed::<Int64Type>().write_batch(&std::mem::take(all), there, None)
            }
            Cells::Float(all) => {
                to.typed::<DoubleType>().write_batch(&std::mem::take(all), there, None)
            }
            Cells::Flag(all) => {
                to.typed::<BoolType>().write_batch(&std::mem::take(all), there, None)
            }
            Cells::Text(all) => {
                to.typed::<ByteArrayType>().write_batch(&std::mem::take(all), there, None)
            }
        }?;
        self.there.clear();
        Ok(())
    }
}

fn of_time() -> Result<TypePtr> {
    let it = LogicalType::timestamp(true, TimeUnit::NANOS);
    primitive(TIME, Physical::INT64, Some(it))
}

fn of_field(field: &Field) -> Result<TypePtr> {
    let (physical, logical) = match field.kind {
        Kind::Number => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Signed => (Physical::INT64, None),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Flag => (Physical::BOOLEAN, None),
        Kind::Letter | Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    primitive(field.name, physical, logical)
}

fn primitive(name: &str, physical: Physical, logical: Option<LogicalType>) -> Result<TypePtr> {
    let builder = Type::primitive_type_builder(name, physical);
    let builder = builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
    Ok(Arc::new(builder.build()?))
}

//! The schema of a recording: tables, and names, units and kinds of their columns.
//!
//! In: the field lists. Out: the current schema; and, for a recording of another version, the
//! positions of the current columns in it. Unknown columns are skipped; missing ones are absent.

use super::table::COLUMNS;
use monitor_model::{
    BlockField, Category, CpuField, DiskField, Field, NetField, NodeField, ProcessField, Role,
};
use serde::{Deserialize, Serialize};

/// A table of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// Its name.
    pub name: String,
    /// Names of the parts of the row key.
    pub key: Vec<String>,
    /// Its columns.
    pub columns: Vec<ColumnSchema>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSchema {
    /// Its name.
    pub name: String,
    /// Its unit; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Meaning of its 64 bits: `number`, `signed`, `float`, `flag`, `letter`, `text` (the number of
    /// a string), or `rate`, which is never stored.
    pub kind: String,
}

/// The tables that this program writes, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum TableKind {
    /// One row with the properties of the sample.
    Sample,
    /// Processes.
    Process,
    /// Threads.
    Thread,
    /// Block I/O per process and disk.
    DiskUse,
    /// CPU time per process and processor.
    CpuTime,
    /// Latencies: one row per bucket that is not empty.
    Latency,
    /// Exited processes without a final record yet.
    Dying,
    /// One row with the node.
    Node,
    /// Processors.
    Cpu,
    /// Disks.
    Disk,
    /// Interfaces.
    Net,
    /// Events.
    Event,
    /// Notes.
    Note,
    /// Losses of BPF programs.
    Lost,
}

/// Maximum number of tables in a recording.
const MAX_TABLES: usize = 64;

/// Columns of a process after its fields.
pub const PROCESS_COLUMNS: [(&str, &str, &str); 3] =
    [("parent_pid", "", "number"), ("parent_start_ns", "ns", "number"), ("unlent", "", "flag")];

const _: () = assert!(ProcessField::COUNT + PROCESS_COLUMNS.len() <= COLUMNS);

const SAMPLE_COLUMNS: [(&str, &str, &str); 7] = [
    ("time_unix_ns", "ns", "number"),
    ("time_boot_ns", "ns", "number"),
    ("backend", "", "text"),
    ("node", "", "text"),
    ("relayed", "", "flag"),
    ("time_error_ns", "ns", "number"),
    ("all_visible", "", "flag"),
];
const EVENT_COLUMNS: [(&str, &str, &str); 10] = [
    ("time_boot_ns", "ns", "number"),
    ("pid", "", "number"),
    ("start_time_ns", "ns", "number"),
    ("delivered", "", "flag"),
    ("signal", "", "number"),
    ("code", "", "signed"),
    ("thread", "", "number"),
    ("sender_pid", "", "number"),
    ("sender_start_ns", "ns", "number"),
    ("outcome", "", "number"),
];

/// The tables that this program writes, in the order of [`TableKind`].
pub fn current_schema() -> Vec<TableSchema> {
    const PROCESS: [&str; 2] = ["pid", "start_time_ns"];
    let process = [field_columns(ProcessField::FIELDS), columns(&PROCESS_COLUMNS)].concat();
    let pair = [("parent_pid", "", "number"), ("parent_start_ns", "ns", "number")];
    let note = [("text", "", "text"), ("partial", "", "flag")];
    let lost = [("program", "", "text"), ("ring_full", "count", "number")];
    let lost = [&lost[..], &[("table_full", "count", "number")]].concat();
    let of_process = |more: &[&'static str]| [&PROCESS[..], more].concat();
    vec![
        table_schema("sample", &[], columns(&SAMPLE_COLUMNS)),
        table_schema("process", &PROCESS, process.clone()),
        table_schema("thread", &of_process(&["tid", "thread_start_time_ns"]), process),
        table_schema("process_disk", &of_process(&["place"]), field_columns(BlockField::FIELDS)),
        table_schema("process_cpu", &of_process(&["cpu"]), columns(&[("cpu_ns", "ns", "number")])),
        table_schema(
            "latency",
            &of_process(&["what", "from_ns"]),
            columns(&[("durations", "count", "number")]),
        ),
        table_schema("dying", &PROCESS, columns(&pair)),
        table_schema("node", &[], field_columns(NodeField::FIELDS)),
        table_schema("cpu", &["cpu"], field_columns(CpuField::FIELDS)),
        table_schema("disk", &["place"], field_columns(DiskField::FIELDS)),
        table_schema("net", &["place"], field_columns(NetField::FIELDS)),
        table_schema("event", &["place"], columns(&EVENT_COLUMNS)),
        table_schema("note", &["place"], columns(&note)),
        table_schema("lost", &["place"], columns(&lost)),
    ]
}

fn table_schema(name: &str, key: &[&str], columns: Vec<ColumnSchema>) -> TableSchema {
    let key = key.iter().map(|&it| it.to_owned()).collect();
    TableSchema { name: name.to_owned(), key, columns }
}

fn columns(columns: &[(&str, &str, &str)]) -> Vec<ColumnSchema> {
    let column = |&(name, unit, kind): &(&str, &str, &str)| ColumnSchema {
        name: name.to_owned(),
        unit: unit.to_owned(),
        kind: kind.to_owned(),
    };
    columns.iter().map(column).collect()
}

fn field_columns(fields: &[Field]) -> Vec<ColumnSchema> {
    let column = |field: &Field| {
        let kind = match field.role {
            Role::RateOf(_) => "rate",
            _ => field.kind.name(),
        };
        (field.name, field.unit.name(), kind)
    };
    columns(&fields.iter().map(column).collect::<Vec<_>>())
}

/// The positions of the current tables and columns in a recording.
#[derive(Clone, Debug)]
pub struct ColumnMap {
    /// By kind: the position of the table, and of each current column in it.
    tables: Vec<Option<(usize, ColumnPositions)>>,
}

/// The positions of columns.
#[derive(Clone, Debug)]
enum ColumnPositions {
    /// As in the current schema.
    Same,
    /// At these positions.
    Positions(Vec<Option<usize>>),
}

impl ColumnMap {
    /// Maps a recording with these tables; `None` if they exceed the limits.
    pub fn new(theirs: &[TableSchema]) -> Option<Self> {
        let fits = |it: &TableSchema| it.columns.len() <= COLUMNS && it.key.len() <= 4;
        if theirs.len() > MAX_TABLES || !theirs.iter().all(fits) {
            return None;
        }
        let table = |ours: &TableSchema| {
            let at = theirs.iter().position(|it| it.name == ours.name && it.key == ours.key)?;
            let theirs = &theirs[at].columns;
            let find = |our: &ColumnSchema| {
                let is = |it: &ColumnSchema, name: &str| {
                    it.name == name && it.kind == our.kind && it.unit == our.unit
                };
                theirs.iter().position(|it| is(it, &our.name) || is(it, former_name(&our.name)))
            };
            let columns = match *theirs == ours.columns {
                true => ColumnPositions::Same,
                false => ColumnPositions::Positions(ours.columns.iter().map(find).collect()),
            };
            Some((at, columns))
        };
        Some(Self { tables: current_schema().iter().map(table).collect() })
    }

    /// The position of a table.
    pub fn table(&self, kind: TableKind) -> Option<usize> {
        self.tables[kind as usize].as_ref().map(|(at, _)| *at)
    }

    /// Whether the table at this position is one of the current schema.
    pub fn is_known(&self, at: usize) -> bool {
        self.tables.iter().flatten().any(|(position, _)| *position == at)
    }

    /// Maps a row to the current schema: presence mask and the first cells.
    pub fn cells<const N: usize>(
        &self,
        kind: TableKind,
        (present, cells): (u128, &[u64]),
    ) -> (u128, [u64; N]) {
        let mut ours = [0; N];
        match &self.tables[kind as usize] {
            Some((_, ColumnPositions::Positions(places))) => {
                let mut mapped = 0;
                for (at, place) in places.iter().enumerate().take(N) {
                    let Some(place) = place.filter(|place| present & (1 << place) != 0) else {
                        continue;
                    };
                    mapped |= 1 << at;
                    ours[at] = cells[place];
                }
                (mapped, ours)
            }
            _ => {
                let n = N.min(cells.len());
                ours[..n].copy_from_slice(&cells[..n]);
                (present, ours)
            }
        }
    }
}

/// What a column was called in recordings of earlier versions.
fn former_name(name: &str) -> &str {
    match name {
        "online_cpus" => "cpus",
        "flush_requests" => "flushes",
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_name_at_any_position() {
        let mut theirs = current_schema();
        theirs.reverse();
        let cpu = theirs.iter_mut().find(|it| it.name == "process_cpu").expect("it is there");
        let other = ColumnSchema { name: "new".into(), unit: String::new(), kind: "number".into() };
        cpu.columns.insert(0, other);
        let map = ColumnMap::new(&theirs).expect("a valid schema");
        assert_eq!(map.table(TableKind::Sample), Some(theirs.len() - 1));
        assert_eq!(map.cells(TableKind::CpuTime, (3, &[7, 8])), (1, [8]));
    }

    #[test]
    fn missing_tables_and_columns_are_absent() {
        let mut theirs = current_schema();
        theirs[TableKind::CpuTime as usize].columns.clear();
        let _lost = theirs.pop();
        let map = ColumnMap::new(&theirs).expect("a valid schema");
        assert_eq!(map.table(TableKind::Lost), None);
        assert_eq!(map.cells(TableKind::CpuTime, (0, &[])), (0, [0]));
    }

    #[test]
    fn too_many_columns_are_refused() {
        let mut theirs = current_schema();
        let column = theirs[0].columns[0].clone();
        theirs[0].columns = vec![column; COLUMNS + 1];
        assert!(ColumnMap::new(&theirs).is_none());
    }
}

//! What the columns of a recording are: their names, units and kinds, as its header tells them.
//!
//! In: the field lists. Out: a list of sheets; and, for a recording of another program than this,
//! where each of our columns stands in it. A column that we do not know is read over; one that
//! the recording lacks is absent.

use super::sheet::COLUMNS;
use monitor_model::field::{
    BlockField, Category, CpuField, DiskField, Field, NetField, NodeField, ProcessField, Role,
};
use serde::{Deserialize, Serialize};

/// A sheet of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// What its rows are named by.
    pub key: Vec<String>,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// A column of a sheet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it counts; empty for names and the like.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// How its 64 bits are meant: `number`, `signed`, `float`, `flag`, `letter`, `text` (the
    /// number of a string), or `rate`, which is never there.
    pub kind: String,
}

/// The sheets that this program writes, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// One row: what is said of the whole sample.
    Sample,
    /// Processes.
    Process,
    /// Their threads.
    Thread,
    /// What each did on each disk.
    DiskUse,
    /// Time on each processor.
    CpuTime,
    /// Latencies: a row for each bucket that is not empty.
    Latency,
    /// Those who have ended and left no record yet.
    Dying,
    /// One row: the node.
    Node,
    /// Processors.
    Cpu,
    /// Disks.
    Disk,
    /// Interfaces.
    Net,
    /// What happened.
    Event,
    /// What is missing.
    Note,
    /// What programs had to drop.
    Lost,
}

/// Most sheets of a recording.
const SHEETS: usize = 64;

/// Columns of a process after its fields.
pub const OF_PROCESS: [(&str, &str, &str); 3] =
    [("parent_pid", "", "number"), ("parent_start_ns", "ns", "number"), ("unlent", "", "flag")];

const _: () = assert!(ProcessField::COUNT + OF_PROCESS.len() <= COLUMNS);

const OF_SAMPLE: [(&str, &str, &str); 5] = [
    ("time_unix_ns", "ns", "number"),
    ("time_boot_ns", "ns", "number"),
    ("backend", "", "text"),
    ("node", "", "text"),
    ("relayed", "", "flag"),
];
const OF_EVENT: [(&str, &str, &str); 10] = [
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

/// The sheets that this program writes, in the order of [`Kind`].
pub fn ours() -> Vec<Shape> {
    const PROCESS: [&str; 2] = ["pid", "start_time_ns"];
    let process = [of_fields(ProcessField::FIELDS), named(&OF_PROCESS)].concat();
    let pair = [("parent_pid", "", "number"), ("parent_start_ns", "ns", "number")];
    let note = [("text", "", "text"), ("partial", "", "flag")];
    let lost = [("program", "", "text"), ("ring_full", "count", "number")];
    let lost = [&lost[..], &[("table_full", "count", "number")]].concat();
    let of_process = |more: &[&'static str]| [&PROCESS[..], more].concat();
    vec![
        shape("sample", &[], named(&OF_SAMPLE)),
        shape("process", &PROCESS, process.clone()),
        shape("thread", &of_process(&["tid", "thread_start_time_ns"]), process),
        shape("process_disk", &of_process(&["place"]), of_fields(BlockField::FIELDS)),
        shape("process_cpu", &of_process(&["cpu"]), named(&[("cpu_ns", "ns", "number")])),
        shape(
            "latency",
            &of_process(&["what", "from_ns"]),
            named(&[("durations", "count", "number")]),
        ),
        shape("dying", &PROCESS, named(&pair)),
        shape("node", &[], of_fields(NodeField::FIELDS)),
        shape("cpu", &["cpu"], of_fields(CpuField::FIELDS)),
        shape("disk", &["place"], of_fields(DiskField::FIELDS)),
        shape("net", &["place"], of_fields(NetField::FIELDS)),
        shape("event", &["place"], named(&OF_EVENT)),
        shape("note", &["place"], named(&note)),
        shape("lost", &["place"], named(&lost)),
    ]
}

fn shape(name: &str, key: &[&str], columns: Vec<Column>) -> Shape {
    let key = key.iter().map(|&it| it.to_owned()).collect();
    Shape { name: name.to_owned(), key, columns }
}

fn named(columns: &[(&str, &str, &str)]) -> Vec<Column> {
    let column = |&(name, unit, kind): &(&str, &str, &str)| Column {
        name: name.to_owned(),
        unit: unit.to_owned(),
        kind: kind.to_owned(),
    };
    columns.iter().map(column).collect()
}

fn of_fields(fields: &[Field]) -> Vec<Column> {
    let column = |field: &Field| {
        let kind = match field.role {
            Role::RateOf(_) => "rate",
            _ => field.kind.name(),
        };
        (field.name, field.unit.name(), kind)
    };
    named(&fields.iter().map(column).collect::<Vec<_>>())
}

/// Where our sheets and columns stand in a recording.
#[derive(Clone, Debug)]
pub struct Lens {
    /// By kind: the place of the sheet, and of each of our columns in it.
    sheets: Vec<Option<(usize, Columns)>>,
}

/// Where columns stand.
#[derive(Clone, Debug)]
enum Columns {
    /// As ours.
    Same,
    /// There.
    At(Vec<Option<usize>>),
}

impl Lens {
    /// For a recording with these sheets; nothing, if they cannot be sheets.
    pub fn new(theirs: &[Shape]) -> Option<Self> {
        let fits = |it: &Shape| it.columns.len() <= COLUMNS && it.key.len() <= 4;
        if theirs.len() > SHEETS || !theirs.iter().all(fits) {
            return None;
        }
        let sheet = |ours: &Shape| {
            let at = theirs.iter().position(|it| it.name == ours.name && it.key == ours.key)?;
            let theirs = &theirs[at].columns;
            let find = |our: &Column| theirs.iter().position(|it| it == our);
            let columns = match *theirs == ours.columns {
                true => Columns::Same,
                false => Columns::At(ours.columns.iter().map(find).collect()),
            };
            Some((at, columns))
        };
        Some(Self { sheets: ours().iter().map(sheet).collect() })
    }

    /// The place of a sheet.
    pub fn sheet(&self, kind: Kind) -> Option<usize> {
        self.sheets[kind as usize].as_ref().map(|(at, _)| *at)
    }

    /// A row as ours: what is there, and the first cells.
    pub fn cells<const N: usize>(
        &self,
        kind: Kind,
        (present, cells): (u128, &[u64]),
    ) -> (u128, [u64; N]) {
        let mut ours = [0; N];
        match &self.sheets[kind as usize] {
            Some((_, Columns::At(places))) => {
                let mut there = 0;
                for (at, place) in places.iter().enumerate().take(N) {
                    let Some(place) = place.filter(|place| present & (1 << place) != 0) else {
                        continue;
                    };
                    there |= 1 << at;
                    ours[at] = cells[place];
                }
                (there, ours)
            }
            _ => {
                let n = N.min(cells.len());
                ours[..n].copy_from_slice(&cells[..n]);
                (present, ours)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_name_wherever_it_stands() {
        let mut theirs = ours();
        theirs.reverse();
        let cpu = theirs.iter_mut().find(|it| it.name == "process_cpu").expect("it is there");
        let other = Column { name: "new".into(), unit: String::new(), kind: "number".into() };
        cpu.columns.insert(0, other);
        let lens = Lens::new(&theirs).expect("sheets");
        assert_eq!(lens.sheet(Kind::Sample), Some(theirs.len() - 1));
        assert_eq!(lens.cells(Kind::CpuTime, (3, &[7, 8])), (1, [8]));
    }

    #[test]
    fn what_they_lack_is_absent() {
        let mut theirs = ours();
        theirs[Kind::CpuTime as usize].columns.clear();
        let _lost = theirs.pop();
        let lens = Lens::new(&theirs).expect("sheets");
        assert_eq!(lens.sheet(Kind::Lost), None);
        assert_eq!(lens.cells(Kind::CpuTime, (0, &[])), (0, [0]));
    }

    #[test]
    fn more_columns_than_there_can_be_are_refused() {
        let mut theirs = ours();
        let column = theirs[0].columns[0].clone();
        theirs[0].columns = vec![column; COLUMNS + 1];
        assert!(Lens::new(&theirs).is_none());
    }
}

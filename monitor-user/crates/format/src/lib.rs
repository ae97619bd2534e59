//! L1, a frame as text: one file for each form, all behind one method.
//!
//! In: `Rates`, the rows chosen to be shown, and a layout that names the fields. Out: bytes,
//! appended. A form walks the field list and knows no field by name; it reads and writes no file.

pub mod containers;
mod csv;
pub mod diagnosis;
pub mod events;
pub mod exposition;
pub mod grid;
mod happened;
pub mod human;
mod json;
mod layout;
mod notes;
mod object;
mod parquet;
mod pmix;
mod prometheus;
mod table;
pub mod wrap;

pub use layout::{Layout, Spare};
pub use monitor_model::scope::Scope;

use monitor_model::event::Event;
use monitor_model::name;
use monitor_model::name::Unknown;
use monitor_model::rates::Rates;
use monitor_model::sample::Process;

/// What is printed at once.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The sample, its notes and its losses.
    pub rates: &'a Rates,
    /// The processes to show, in their order.
    pub processes: &'a [Process],
    /// How many there were to choose from.
    pub matched: usize,
    /// What happened to those that were asked for.
    pub events: &'a [Event],
    /// How much of it can be seen.
    pub room: Room,
}

/// The room on the reader's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Width of a line.
    pub columns: usize,
    /// Lines of a screen; a stream has no end.
    pub lines: Option<usize>,
}

/// Whether colour may be used. It is never the only sign of anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// A terminal that wants it.
    Colour,
    /// Anything else.
    Plain,
}

/// A form of output.
pub trait Format {
    /// Appends a frame: whole lines, so that what is written is always valid.
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>);

    /// Appends what must stand at the end; most forms have nothing there.
    fn finish(&mut self, _: &mut Vec<u8>) {}
}

/// The forms there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Table,
    /// One object for each sample, on a line of its own.
    Json,
    /// One line for each process, disk, interface or node.
    Csv,
    /// Prometheus' text form.
    Prometheus,
    /// JSON under the keys and in the units of PMIx.
    Pmix,
    /// Columns, compressed; a file as a whole, and never a stream.
    Parquet,
}

impl Form {
    /// Those that can be printed sample by sample, in the order of the enum.
    pub const NAMES: [&str; 5] = ["table", "json", "csv", "prometheus", "pmix"];

    /// Its name, if it has rows of one kind only, each with the same fields.
    pub const fn of_rows(self) -> Option<&'static str> {
        match self {
            Self::Csv => Some("csv"),
            Self::Parquet => Some("parquet"),
            _ => None,
        }
    }

    /// Makes a writer of this form.
    pub fn writer(self, layout: Layout, paint: Paint) -> Box<dyn Format + Send> {
        match self {
            Self::Table => Box::new(table::Table::new(layout, paint)),
            Self::Json => Box::new(json::Json::new(layout)),
            Self::Csv => Box::new(csv::Csv::new(layout)),
            Self::Prometheus => Box::new(prometheus::Prometheus::new(layout)),
            Self::Pmix => Box::new(pmix::Pmix::new(layout)),
            Self::Parquet => Box::new(parquet::Parquet::new(layout)),
        }
    }
}

impl std::str::FromStr for Form {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        if text == "parquet" {
            return Ok(Self::Parquet);
        }
        const ALL: [Form; 5] = [Form::Table, Form::Json, Form::Csv, Form::Prometheus, Form::Pmix];
        Ok(ALL[name::position("format", Self::NAMES.into_iter(), text)?])
    }
}

/// At most three decimals: finer is noise, and the text stays short. What is no number is absent.
pub fn rounded(number: f64) -> Option<f64> {
    number.is_finite().then(|| (number * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests;

//! Output formats: one file per format, all behind the trait `FrameWriter`.
//!
//! In: `Rates`, the selected rows, and a layout that names the fields. Out: bytes, appended to a
//! buffer. A format walks the field list and knows no field by name. No I/O.

mod csv;
pub mod diagnosis;
mod event_json;
pub mod events;
pub mod exposition;
pub mod grid;
pub mod human;
mod json;
mod layout;
mod notes;
mod object;
#[cfg(feature = "parquet")]
mod parquet;
mod pmix;
pub mod pmix_text;
mod prometheus;
mod table;
pub mod wrap;

pub use layout::{Layout, OptionalColumn};
pub use monitor_model::scope::Scope;

use monitor_model::event::SampleEvent;
use monitor_model::name;
use monitor_model::name::UnknownName;
use monitor_model::rates::Rates;
use monitor_model::sample::Process;

/// One sample to print.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The sample, its notes and its losses.
    pub rates: &'a Rates,
    /// The processes to show, in order.
    pub processes: &'a [Process],
    /// Number of processes or groups that matched the filter.
    pub matched: usize,
    /// The events of the selected processes.
    pub events: &'a [SampleEvent],
    /// The space for the output.
    pub viewport: Viewport,
}

/// The space for the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewport {
    /// Width of a line, in characters.
    pub columns: usize,
    /// Lines of a screen; `None` for a stream.
    pub lines: Option<usize>,
}

/// Whether colour is used. Colour is never the only carrier of information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// For a colour terminal.
    Colour,
    /// No colour.
    Plain,
}

/// Writes frames in one format.
pub trait FrameWriter {
    /// Appends a frame as whole lines, so that the output is valid after every frame.
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>);

    /// Appends the end of the output; empty for most formats.
    fn finish(&mut self, _: &mut Vec<u8>) {}
}

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text in columns.
    Table,
    /// One JSON object per sample, on one line.
    Json,
    /// One line per process, disk, interface or node.
    Csv,
    /// The text format of Prometheus.
    Prometheus,
    /// JSON with the keys and units of PMIx.
    Pmix,
    /// Compressed columns; valid only as a whole file, not as a stream.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl OutputFormat {
    /// The names of the formats that can be printed sample by sample, in the order of the enum.
    pub const NAMES: [&str; 5] = ["table", "json", "csv", "prometheus", "pmix"];

    /// The name of a format whose rows are all of one kind, with the same fields; else `None`.
    pub const fn row_format(self) -> Option<&'static str> {
        match self {
            Self::Csv => Some("csv"),
            #[cfg(feature = "parquet")]
            Self::Parquet => Some("parquet"),
            _ => None,
        }
    }

    /// Whether the format is binary.
    pub const fn is_binary(self) -> bool {
        match self {
            #[cfg(feature = "parquet")]
            Self::Parquet => true,
            Self::Table | Self::Json | Self::Csv | Self::Prometheus | Self::Pmix => false,
        }
    }

    /// Creates a writer for this format.
    pub fn writer(self, layout: Layout, paint: Paint) -> Box<dyn FrameWriter + Send> {
        match self {
            Self::Table => Box::new(table::Table::new(layout, paint)),
            Self::Json => Box::new(json::Json::new(layout)),
            Self::Csv => Box::new(csv::Csv::new(layout)),
            Self::Prometheus => Box::new(prometheus::Prometheus::new(layout)),
            Self::Pmix => Box::new(pmix::Pmix::new(layout)),
            #[cfg(feature = "parquet")]
            Self::Parquet => Box::new(parquet::Parquet::new(layout)),
        }
    }
}

impl std::str::FromStr for OutputFormat {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        #[cfg(feature = "parquet")]
        if text == "parquet" {
            return Ok(Self::Parquet);
        }
        const ALL: [OutputFormat; 5] = [
            OutputFormat::Table,
            OutputFormat::Json,
            OutputFormat::Csv,
            OutputFormat::Prometheus,
            OutputFormat::Pmix,
        ];
        Ok(ALL[name::position("format", Self::NAMES.into_iter(), text)?])
    }
}

/// Rounds to three decimals, to keep the text short; `None` for infinity and NaN.
pub fn rounded(number: f64) -> Option<f64> {
    number.is_finite().then(|| (number * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests;

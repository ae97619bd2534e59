//! The output formats by name, and the writer of each.

#[cfg(feature = "parquet")]
use super::parquet::Parquet;
use super::{
    FrameWriter, Layout, Paint, csv::Csv, exposition::Prometheus, json::Json, pmix::Pmix,
    table::Table,
};
use monitor_model::{UnknownName, name};

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
    const TEXTS: [Self; 5] = [Self::Table, Self::Json, Self::Csv, Self::Prometheus, Self::Pmix];

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
    pub fn is_binary(self) -> bool {
        !Self::TEXTS.contains(&self)
    }

    /// Creates a writer for this format.
    pub fn writer(self, layout: Layout, paint: Paint) -> Box<dyn FrameWriter + Send> {
        match self {
            Self::Table => Box::new(Table::new(layout, paint)),
            Self::Json => Box::new(Json::new(layout)),
            Self::Csv => Box::new(Csv::new(layout)),
            Self::Prometheus => Box::new(Prometheus::new(layout)),
            Self::Pmix => Box::new(Pmix::new(layout)),
            #[cfg(feature = "parquet")]
            Self::Parquet => Box::new(Parquet::new(layout)),
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
        Ok(Self::TEXTS[name::position("format", Self::NAMES.into_iter(), text)?])
    }
}

//! What the formats of a report print.
//!
//! In: the accumulated usage, and the header of the recording. Out: both, with what is derived from
//! them for every format.

use crate::cli::recording::args::rfc3339;
use monitor_format::human;
use monitor_model::field::ProcessField;
use monitor_model::id::Ns;
use monitor_recording::Header;
use monitor_sampling::usage_report::{ReportBy, UsageEntry, UsageReport};
use std::path::Path;

/// Entries with a plot of their own.
pub const PLOTTED: usize = 8;

/// What the formats print.
pub struct ReportInput<'a> {
    /// The file.
    pub path: &'a Path,
    /// Header of the recording.
    pub header: &'a Header,
    /// The grouping of entries.
    pub by: ReportBy,
    /// Maximum entries in the text.
    pub top: usize,
    /// The accumulated usage.
    pub ledger: &'a UsageReport,
    /// Missing or damaged parts.
    pub notes: &'a [String],
}

impl ReportInput<'_> {
    /// The mean number of busy processors, and the highest.
    pub fn busy(&self) -> [f64; 2] {
        let total = self.ledger.total();
        let mean = self.mean(total.used(ProcessField::CpuTime).unwrap_or(0));
        [mean, percent(total.cpu.largest().unwrap_or(0)) / 100.0]
    }

    /// The mean CPU use of an entry, in percent of one processor.
    pub fn cpu_percent(&self, entry: &UsageEntry) -> Option<f64> {
        entry.used(ProcessField::CpuTime).map(|cpu| self.mean(cpu) * 100.0)
    }

    fn mean(&self, cpu_ns: u64) -> f64 {
        cpu_ns as f64 / length(self.ledger).0.max(1) as f64
    }
}

/// Percent of one processor, from hundredths.
pub fn percent(hundredths: u64) -> f64 {
    hundredths as f64 / 100.0
}

/// The recorded time range as text.
pub fn span_text(ledger: &UsageReport) -> String {
    let Some((first, last, samples)) = ledger.span() else { return "nothing".into() };
    let length = human::duration_text(length(ledger).0 as f64);
    let (first, last) = (rfc3339(first.unix), rfc3339(last.unix));
    format!("{first} to {last}, {length}, {samples} samples")
}

/// The duration of the recorded time range.
pub fn length(ledger: &UsageReport) -> Ns {
    ledger.span().map_or(Ns(0), |(first, last, _)| last.boot.since(first.boot))
}

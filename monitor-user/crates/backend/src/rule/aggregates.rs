//! Values of the larger aggregates of rule programs: gauges, value histograms and traces.

use monitor_model::id::Ns;

/// A gauge, and the sums that its integral over time follows from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GaugeIntegral {
    /// Current value, whatever changed it.
    pub value: i64,
    /// Number of changes by programs.
    pub count: u64,
    /// Sum of these changes.
    pub changed: i64,
    /// Sum of each change times its time on `CLOCK_BOOTTIME`.
    pub moments: i128,
}

impl GaugeIntegral {
    /// Integral of the programs' changes until `at`, in units of the gauge times nanoseconds.
    pub fn integral_at(&self, at: Ns) -> i128 {
        i128::from(at.0) * i128::from(self.changed) - self.moments
    }
}

/// Values counted by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueHistogram {
    /// Sum of the values.
    pub sum: i64,
    /// The smallest.
    pub min: Option<i64>,
    /// The largest.
    pub max: Option<i64>,
    /// Negative values, which are counted nowhere else.
    pub n_negative: u64,
    /// Upper bound and count of each bucket that is not empty.
    pub buckets: Vec<(u64, u64)>,
}

/// Records of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceRecords {
    /// Number of records made up to the last of these; later ones are returned by the next read.
    pub n_made: u64,
    /// Number of records overwritten before they were read.
    pub n_lost: u64,
    /// The remaining records, in order.
    pub records: Vec<TraceRecord>,
}

/// A trace record: its time on `CLOCK_BOOTTIME`, and its values.
pub type TraceRecord = (Ns, Vec<i64>);

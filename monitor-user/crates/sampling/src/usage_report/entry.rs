//! One entry of a usage report: what a process or a group used, its quantiles and its peaks.
//!
//! In: counters and memory of each sample. Out: the growth of each counter since counting began.

use hdrhistogram::Histogram;
use monitor_model::{Identity, Instant, Ns, ProcessField};
use std::sync::Arc;

/// The counters in a report.
pub const USAGE_COUNTERS: [ProcessField; 9] = [
    ProcessField::CpuTime,
    ProcessField::RunDelay,
    ProcessField::ReadBytes,
    ProcessField::WrittenBytes,
    ProcessField::BlockReadBytes,
    ProcessField::BlockWrittenBytes,
    ProcessField::TcpReceived,
    ProcessField::TcpSent,
    ProcessField::MajorFaults,
];

/// Their values, where known.
pub type Counters = [Option<u64>; USAGE_COUNTERS.len()];

/// Quantiles of values: percentiles to two significant digits, and the exact maximum.
#[derive(Clone, Debug, Default)]
pub struct UsageQuantiles {
    /// The first value: most processes have only one, which needs no histogram.
    only: u64,
    count: u64,
    largest: u64,
    all: Option<Box<Histogram<u32>>>,
}

impl UsageQuantiles {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.largest = self.largest.max(value);
        if self.count == 1 {
            self.only = value;
            return;
        }
        let only = self.only;
        let all = self.all.get_or_insert_with(|| Box::new(first(only)));
        // The histogram resizes itself, so this cannot fail.
        let _in_range = all.record(value);
    }

    /// A percentile; `None` without values.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let value = |all: &Histogram<u32>| all.value_at_percentile(percent).min(self.largest);
        (self.count > 0).then(|| self.all.as_deref().map_or(self.only, value))
    }

    /// The largest value; `None` without values.
    pub fn largest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.largest)
    }
}

/// A histogram with one value.
fn first(value: u64) -> Histogram<u32> {
    let mut all = Histogram::new(2).expect("two significant digits are supported");
    let _in_range = all.record(value);
    all
}

/// The usage of a process or a group.
#[derive(Clone, Debug, Default)]
pub struct UsageEntry {
    /// Its name.
    pub name: Arc<str>,
    /// The process; `None` for a group.
    pub id: Option<Identity>,
    /// The user of the process, if known.
    pub user: Option<Arc<str>>,
    /// The job of the process, if known.
    pub job: Option<Arc<str>>,
    /// The command line of the process, if known.
    pub cmdline: Option<Arc<str>>,
    /// When it was first seen.
    pub first: Instant,
    /// When it was last seen.
    pub last: Instant,
    /// Number of samples that it is in.
    pub samples: u64,
    /// Maximum number of processes at once.
    pub processes: u64,
    /// Number of processes that ended.
    pub ended: u64,
    /// Number of processes that had ended when counting began.
    pub(super) ended_before: u64,
    /// CPU usage in hundredths of a percent of one processor.
    pub cpu: UsageQuantiles,
    /// Resident memory in KiB.
    pub resident: UsageQuantiles,
    used: Counters,
    /// The highest value of each counter.
    highest: [u64; USAGE_COUNTERS.len()],
}

impl UsageEntry {
    /// An entry without usage.
    pub fn new(name: Arc<str>, first: Instant) -> Self {
        Self { name, first, last: first, ..Self::default() }
    }

    /// The growth of a counter; `None` if unknown.
    pub fn used(&self, field: ProcessField) -> Option<u64> {
        USAGE_COUNTERS.iter().position(|it| *it == field).and_then(|at| self.used[at])
    }

    /// Sets the values at which counting begins.
    pub(super) fn begin_at(&mut self, counters: Counters) {
        self.highest = counters.map(Option::unwrap_or_default);
    }

    /// Returns how much its counters have grown. A counter that went backwards grows again when it
    /// exceeds its highest value.
    pub(super) fn grow(&mut self, counters: Counters) -> Counters {
        let mut grown = [None; USAGE_COUNTERS.len()];
        for (at, now) in counters.into_iter().enumerate() {
            let Some(now) = now else { continue };
            let more = now.saturating_sub(self.highest[at]);
            self.highest[at] = self.highest[at].max(now);
            self.used[at] = Some(self.used[at].unwrap_or(0) + more);
            grown[at] = Some(more);
        }
        grown
    }

    /// Adds a sample with this number of processes and this resident memory in bytes.
    pub(super) fn add_sample(
        &mut self,
        at: Instant,
        interval: Ns,
        grown: Counters,
        (processes, resident): (u64, Option<u64>),
    ) {
        let cpu = grown[0].unwrap_or(0);
        if processes == 0 && cpu == 0 {
            return;
        }
        self.last = at;
        self.samples += 1;
        self.processes = self.processes.max(processes);
        if interval > Ns(0) && grown[0].is_some() {
            self.cpu.record((cpu as f64 / interval.0 as f64 * 1e4).round() as u64);
        }
        if let Some(resident) = resident {
            self.resident.record(resident >> 10);
        }
    }
}

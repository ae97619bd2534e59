//! Aggregates in arrays mapped into our memory: gauges, value histograms and traces.
//!
//! In: their ids. Out: consistent values, although programs change them concurrently.

use super::{map, per_cpu};
use crate::object::Object;
use monitor_backend::Error;
use monitor_backend::rule::aggregates::{GaugeIntegral, TraceRecord, TraceRecords, ValueHistogram};
use monitor_backend::rule::insn::{
    Cell, CellKind, GaugeChange, GaugeId, TraceId, ValueHistogramId,
};
use monitor_ebpf::abi::rule::gauge::GaugeSums;
use monitor_ebpf::abi::rule::trace::{MAX_VALUES, ROWS, WORDS};
use monitor_ebpf::abi::rule::value_histogram::{self, BUCKETS};
use monitor_ebpf::abi::rule::{self as abi, MAX_GAUGES, MAX_TRACES, MAX_VALUE_HISTOGRAMS};
use monitor_model::Ns;
use monitor_sys::mmapped_array::MmappedArray;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

/// Attempts to read sums without a concurrent change.
const ATTEMPTS: usize = 64;

/// The mapped arrays.
pub struct MmappedArrays {
    gauges: MmappedArray,
    buckets: MmappedArray,
    record_counts: MmappedArray,
    rows: MmappedArray,
}

impl MmappedArrays {
    /// Maps the arrays of an object.
    pub fn from_object(object: &Object) -> Result<Self, Error> {
        let words = |name: &str, n: u32| map::mmapped(object, name, n as usize);
        Ok(Self {
            gauges: words(abi::GAUGES, MAX_GAUGES)?,
            buckets: words(abi::VALUE_HISTS, MAX_VALUE_HISTOGRAMS * BUCKETS)?,
            record_counts: words(abi::TRACE_COUNTS, MAX_TRACES)?,
            rows: words(abi::TRACE_ROWS, MAX_TRACES * ROWS * WORDS as u32)?,
        })
    }

    /// Sets a gauge to its initial value and clears its sums.
    pub fn reset_gauge(&self, object: &mut Object, id: GaugeId, first: i64) -> Result<(), Error> {
        let _before = self.change_gauge(id, GaugeChange::To(first));
        map::set_all(object, abi::GAUGE_SUMS, id.0, GaugeSums::default())
    }

    /// Changes a gauge and returns its previous value.
    pub fn change_gauge(&self, id: GaugeId, change: GaugeChange) -> i64 {
        let Some(gauge) = self.gauges.at(id.0 as usize) else { return 0 };
        let before = match change {
            GaugeChange::By(change) => gauge.fetch_add(change.cast_unsigned(), SeqCst),
            GaugeChange::To(now) => gauge.swap(now.cast_unsigned(), SeqCst),
        };
        before.cast_signed()
    }

    /// A gauge, and the sums for its integral.
    pub fn gauge_integral(&self, object: &Object, id: GaugeId) -> GaugeIntegral {
        let gauge = self.gauges.at(id.0 as usize).map_or(0, |gauge| gauge.load(SeqCst));
        let mut sums = GaugeIntegral { value: gauge.cast_signed(), ..GaugeIntegral::default() };
        for part in consistent_parts(object, id) {
            sums.count += part.ended;
            sums.changed = sums.changed.wrapping_add(part.changed.cast_signed());
            let upper = i128::from(part.high.cast_signed()) << 64;
            sums.moments = sums.moments.wrapping_add(upper | i128::from(part.low));
        }
        sums
    }

    /// Clears a value histogram.
    pub fn reset_value_histogram(
        &self,
        object: &mut Object,
        id: ValueHistogramId,
    ) -> Result<(), Error> {
        for at in bucket_range(id) {
            let _ = self.buckets.at(at).map(|count| count.store(0, SeqCst));
        }
        cells(id).into_iter().try_for_each(|cell| per_cpu::reset_cell(object, cell))
    }

    /// Contents of a value histogram.
    pub fn value_histogram(&self, object: &Object, id: ValueHistogramId) -> ValueHistogram {
        let [sum, min, max, negative] = cells(id).map(|cell| per_cpu::cell(object, cell));
        let count = |at| self.buckets.at(at).map_or(0, |count| count.load(Acquire));
        let counts = (0..)
            .zip(bucket_range(id))
            .map(|(bucket, at)| (value_histogram::bounds(bucket).1, count(at)));
        ValueHistogram {
            sum: sum.unwrap_or(0),
            min,
            max,
            n_negative: negative.map_or(0, i64::cast_unsigned),
            buckets: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// Clears a trace.
    pub fn reset_trace(&self, id: TraceId) {
        for at in (0..ROWS as usize * WORDS).map(|word| row(id, 0) + word) {
            let _ = self.rows.at(at).map(|word| word.store(0, SeqCst));
        }
        let _ = self.record_counts.at(id.0 as usize).map(|made| made.store(0, SeqCst));
    }

    /// Records after the first `after` ones, up to the first incomplete one.
    pub fn trace_records(&self, id: TraceId, after: u64) -> TraceRecords {
        let made = self.record_counts.at(id.0 as usize).map_or(0, |made| made.load(Acquire));
        let first = after.max(made.saturating_sub(ROWS.into()));
        let mut traced = TraceRecords { n_made: first, n_lost: first - after, records: Vec::new() };
        for number in first + 1..=made {
            match self.record(id, number) {
                SlotState::Complete(record) => traced.records.push(record),
                SlotState::Overwritten => traced.n_lost += 1,
                SlotState::Unfinished => break,
            }
            traced.n_made = number;
        }
        traced
    }

    fn record(&self, id: TraceId, number: u64) -> SlotState {
        let at = row(id, number - 1);
        let word = |n: usize| self.rows.at(at + n).map_or(0, |word| word.load(Acquire));
        let ended = word(0);
        let n_values = usize::try_from(word(2)).map_or(0, |n| n.min(MAX_VALUES));
        let values = (3..3 + n_values).map(|n| word(n).cast_signed()).collect();
        let record = (Ns(word(1)), values);
        let begun = word(WORDS - 1);
        match () {
            () if ended == number && begun == number => SlotState::Complete(record),
            () if ended > number || begun > number => SlotState::Overwritten,
            () => SlotState::Unfinished,
        }
    }
}

/// State of the row that a record belongs in.
enum SlotState {
    Complete(TraceRecord),
    Overwritten,
    Unfinished,
}

/// The sums of each CPU, read without a concurrent change. If a program is in the middle of a
/// change during all attempts, the last read is returned.
fn consistent_parts(object: &Object, id: GaugeId) -> Vec<GaugeSums> {
    let mut parts = Vec::new();
    for _ in 0..ATTEMPTS {
        parts = map::get_all::<GaugeSums>(object, abi::GAUGE_SUMS, id.0);
        if parts.iter().all(|part| part.ended == part.begun) {
            break;
        }
    }
    parts
}

/// The cells of a value histogram: sum, minimum, maximum, and count of negative values.
fn cells(id: ValueHistogramId) -> [Cell; 4] {
    let cell = |offset, kind| Cell { index: id.cells + offset, kind };
    [
        cell(value_histogram::SUM, CellKind::Sum),
        cell(value_histogram::MIN, CellKind::Min),
        cell(value_histogram::MAX, CellKind::Max),
        cell(value_histogram::NEGATIVE, CellKind::Sum),
    ]
}

/// Index range of the counts of a value histogram.
fn bucket_range(id: ValueHistogramId) -> std::ops::Range<usize> {
    let (first, n) = (id.index as usize * BUCKETS as usize, BUCKETS as usize);
    first..first + n
}

/// First word of the row of the record that `before` records precede.
fn row(id: TraceId, before: u64) -> usize {
    let slot = usize::try_from(before % u64::from(ROWS)).unwrap_or(0);
    (id.0 as usize * ROWS as usize + slot) * WORDS
}

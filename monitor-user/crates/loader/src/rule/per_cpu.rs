//! Per-CPU aggregates of rule programs: cells and latency histograms, merged.

use super::map;
use crate::object::Object;
use monitor_backend::Error;
use monitor_backend::rule::insn::{Cell, CellKind, LatencyHistogramId};
use monitor_ebpf::abi::{histogram, rule as abi};
use monitor_model::Histogram;

/// Initial value of a cell.
const fn initial(kind: CellKind) -> i64 {
    match kind {
        CellKind::Sum => 0,
        CellKind::Min => i64::MAX,
        CellKind::Max => i64::MIN,
    }
}

/// Resets a cell to its initial value.
pub fn reset_cell(object: &mut Object, cell: Cell) -> Result<(), Error> {
    let Cell { index, kind } = cell;
    map::set_all(object, abi::CELLS, index, initial(kind))
}

/// Value of a cell; none for an extreme without values.
pub fn cell(object: &Object, cell: Cell) -> Option<i64> {
    let parts = map::get_all::<i64>(object, abi::CELLS, cell.index).into_iter();
    let value = match cell.kind {
        CellKind::Sum => return Some(parts.fold(0, i64::wrapping_add)),
        CellKind::Min => parts.min(),
        CellKind::Max => parts.max(),
    };
    value.filter(|value| *value != initial(cell.kind))
}

/// Contents of a latency histogram.
pub fn latency_histogram(object: &Object, id: LatencyHistogramId) -> Histogram {
    let mut sum = Histogram::default();
    for part in map::get_all::<histogram::Histogram>(object, abi::LATENCY_HISTS, id.0) {
        sum.merge(&Histogram::from(&part.counts));
    }
    sum
}

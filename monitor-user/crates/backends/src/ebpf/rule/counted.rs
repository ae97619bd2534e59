//! What lists counted: parts of each CPU, put together.

use super::map;
use crate::ebpf::object::Object;
use monitor_backend::Error;
use monitor_backend::rule::ListId;
use monitor_backend::rule::act::{Cell, CellKind, HistogramId};
use monitor_backend::rule::told;
use monitor_backend::rule::told::Tally;
use monitor_ebpf::abi::{histogram, rule as abi};
use monitor_model::histogram::Histogram;

/// What an extreme is without a value.
const fn beginning(kind: CellKind) -> i64 {
    match kind {
        CellKind::Sum => 0,
        CellKind::Least => i64::MAX,
        CellKind::Most => i64::MIN,
    }
}

/// Brings a cell to its beginning.
pub fn reset_cell(object: &mut Object, cell: Cell) -> Result<(), Error> {
    let Cell { index, kind } = cell;
    map::set_all(object, abi::CELLS, index, beginning(kind))
}

/// Takes all values out of a histogram.
pub fn reset_histogram(object: &mut Object, id: HistogramId) -> Result<(), Error> {
    map::set_all(object, abi::HISTOGRAMS, id.0, histogram::Histogram::EMPTY)
}

/// What a cell holds.
pub fn cell(object: &Object, cell: Cell) -> Option<i64> {
    let parts = map::get_all::<i64>(object, abi::CELLS, cell.index).into_iter();
    let held = match cell.kind {
        CellKind::Sum => return Some(parts.fold(0, i64::wrapping_add)),
        CellKind::Least => parts.min(),
        CellKind::Most => parts.max(),
    };
    held.filter(|held| *held != beginning(cell.kind))
}

/// What a histogram holds.
pub fn histogram(object: &Object, id: HistogramId) -> Histogram {
    let mut sum = Histogram::default();
    for part in map::get_all::<histogram::Histogram>(object, abi::HISTOGRAMS, id.0) {
        sum.merge(&Histogram::from(&part));
    }
    sum
}

/// What became of a list's runs.
pub fn tally(object: &Object, id: ListId) -> Tally {
    told::sum(map::get_all(object, abi::TALLIES, id.0))
}

//! Converts samples to tables (`write`) and back (`read`).
//!
//! Rows keep the order of the sample. Rates are not stored; readers recompute them.

mod read;
mod write;

pub use read::TableView;
pub use write::write;

use super::schema::{TableKind, current_schema};
use super::table::ColumnTable;

/// Number of latency kinds.
const LATENCIES: u64 = 3;

/// Empty tables, in the order of [`TableKind`].
pub fn empty_tables() -> Vec<ColumnTable> {
    current_schema().iter().map(|it| ColumnTable::new(it.columns.len())).collect()
}

/// The key of the only row of a table.
const ONLY: [u64; 4] = [0; 4];

impl TableKind {
    /// Its table in the list of [`empty_tables`].
    fn table_in(self, tables: &mut [ColumnTable]) -> &mut ColumnTable {
        &mut tables[self as usize]
    }
}

#[cfg(test)]
mod tests;

//! A columnar table: the rows of one kind in one sample, each a key and cells of 64 bits.
//!
//! In: rows. Out: the same rows. Knows neither fields nor files; `delta` computes differences.

use std::ops::Range;

/// The key of a row; unused parts are zero.
pub type TableKey = [u64; 4];
/// Maximum columns of a table.
pub const COLUMNS: usize = 128;
/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnTable {
    width: usize,
    keys: Vec<TableKey>,
    /// Presence masks of the rows. An absent cell is zero.
    present: Vec<u128>,
    cells: Vec<u64>,
}

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRow<'a> {
    /// The key.
    pub key: &'a TableKey,
    /// Presence mask of the cells.
    pub present: u128,
    /// The cells.
    pub cells: &'a [u64],
}

impl ColumnTable {
    /// An empty table with `width` columns.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Number of columns.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Memory for its rows, in bytes.
    pub const fn memory(&self) -> usize {
        self.memory_for(self.len())
    }

    /// Makes it an empty table with `width` columns; keeps the memory.
    pub fn reset(&mut self, width: usize) {
        self.width = width;
        self.clear();
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.present.clear();
        self.cells.clear();
    }

    /// Memory for this number of rows, in bytes.
    pub const fn memory_for(&self, rows: usize) -> usize {
        let key = size_of::<TableKey>() + size_of::<u128>();
        rows.saturating_mul(key + self.width * size_of::<u64>())
    }

    /// Appends a row. Absent cells become zero; missing cells at the end are absent.
    pub fn push(&mut self, key: TableKey, present: u128, cells: &[u64]) {
        self.keys.push(key);
        self.present.push(present);
        let start = self.cells.len();
        self.cells.resize(start + self.width, 0);
        let row = &mut self.cells[start..];
        for (at, (to, from)) in row.iter_mut().zip(cells).enumerate() {
            *to = if present & (1 << at) != 0 { *from } else { 0 };
        }
    }

    /// Appends a row of optional cells.
    pub fn push_some<const N: usize>(&mut self, key: TableKey, cells: [Option<u64>; N]) {
        let present = |(at, it): (usize, &Option<u64>)| u128::from(it.is_some()) << at;
        let present = cells.iter().enumerate().map(present).sum();
        self.push(key, present, &cells.map(Option::unwrap_or_default));
    }

    /// Sets a cell of the last row.
    pub fn set(&mut self, column: usize, value: u64) {
        if let Some((present, cells)) = self.last() {
            *present |= 1 << column;
            cells[column] = value;
        }
    }

    /// A row.
    pub fn row(&self, at: usize) -> ColumnRow<'_> {
        let cells = &self.cells[at * self.width..(at + 1) * self.width];
        ColumnRow { key: &self.keys[at], present: self.present[at], cells }
    }

    /// Presence mask and cells of the last row, to change them.
    pub fn last(&mut self) -> Option<(&mut u128, &mut [u64])> {
        let start = self.cells.len().checked_sub(self.width)?;
        Some((self.present.last_mut()?, &mut self.cells[start..]))
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = ColumnRow<'_>> {
        (0..self.len()).map(|at| self.row(at))
    }

    /// Appends rows of another table.
    pub fn append_rows(&mut self, from: &Self, rows: Range<usize>) {
        self.keys.extend_from_slice(&from.keys[rows.clone()]);
        self.present.extend_from_slice(&from.present[rows.clone()]);
        let cells = rows.start * self.width..rows.end * self.width;
        self.cells.extend_from_slice(&from.cells[cells]);
    }
}

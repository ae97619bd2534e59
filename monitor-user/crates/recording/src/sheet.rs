//! A sheet: rows of one kind at one instant, each a key and so many cells of 64 bits.
//!
//! In: rows. Out: the same. Knows no field and no file, and does not say what changed: that is
//! in `change`.

use std::ops::Range;

/// What names a row; numbers that its kind does not need are zero.
pub type Key = [u64; 4];
/// Most columns of a sheet.
pub const COLUMNS: usize = 128;
/// Most memory that the rows of a sheet may take: a quarter of a million processes.
pub const CELL_BYTES: usize = 256 << 20;
/// Rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    width: usize,
    keys: Vec<Key>,
    /// Which cells of a row are there. An absent one is zero.
    present: Vec<u128>,
    cells: Vec<u64>,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetRow<'a> {
    /// Its name.
    pub key: &'a Key,
    /// Which cells are there.
    pub present: u128,
    /// The cells.
    pub cells: &'a [u64],
}

impl Sheet {
    /// Without rows, so many columns wide.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Columns.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Takes the rows out, and keeps the room.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.present.clear();
        self.cells.clear();
    }

    /// Bytes that so many rows take.
    pub const fn bytes_of(&self, rows: usize) -> usize {
        let key = size_of::<Key>() + size_of::<u128>();
        rows.saturating_mul(key + self.width * size_of::<u64>())
    }

    /// Appends a row; cells that are not there become zero, cells that it does not name are absent.
    pub fn push(&mut self, key: Key, present: u128, cells: &[u64]) {
        self.keys.push(key);
        self.present.push(present);
        let start = self.cells.len();
        self.cells.resize(start + self.width, 0);
        let room = &mut self.cells[start..];
        for (at, (to, from)) in room.iter_mut().zip(cells).enumerate() {
            *to = if present & (1 << at) != 0 { *from } else { 0 };
        }
    }

    /// Appends a row of cells that are there or not.
    pub fn push_some<const N: usize>(&mut self, key: Key, cells: [Option<u64>; N]) {
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
    pub fn row(&self, at: usize) -> SheetRow<'_> {
        let cells = &self.cells[at * self.width..(at + 1) * self.width];
        SheetRow { key: &self.keys[at], present: self.present[at], cells }
    }

    /// The last row, to change it: what is there, and its cells.
    pub fn last(&mut self) -> Option<(&mut u128, &mut [u64])> {
        let start = self.cells.len().checked_sub(self.width)?;
        Some((self.present.last_mut()?, &mut self.cells[start..]))
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = SheetRow<'_>> {
        (0..self.len()).map(|at| self.row(at))
    }

    /// Appends rows of another.
    pub fn copy(&mut self, from: &Self, rows: Range<usize>) {
        self.keys.extend_from_slice(&from.keys[rows.clone()]);
        self.present.extend_from_slice(&from.present[rows.clone()]);
        let cells = rows.start * self.width..rows.end * self.width;
        self.cells.extend_from_slice(&from.cells[cells]);
    }
}

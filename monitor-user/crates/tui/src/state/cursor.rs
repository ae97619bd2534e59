//! The cursor of the table: the selected row and the scroll position.
//!
//! The cursor stays on its process or group when the order changes. Before a selection it is on the
//! first row.

use super::row::{RowId, ScreenRow, row_id};
use monitor_model::rates::Rates;

/// The selected row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor {
    /// The selected process or group.
    pub row: Option<RowId>,
    /// The index of its row.
    pub index: usize,
    /// The first visible row.
    pub top: usize,
}

impl Cursor {
    /// Finds the row again, and scrolls to it.
    pub fn update(&mut self, rows: &[ScreenRow], rates: &Rates, page: usize) {
        let last = rows.len().saturating_sub(1);
        match &self.row {
            None => self.index = 0,
            Some(on) => {
                let found = rows.iter().position(|row| row_id(row, rates).as_ref() == Some(on));
                self.index = found.unwrap_or(self.index).min(last);
                if found.is_none() {
                    // The row is gone: select the one that is at its index now.
                    self.row = rows.get(self.index).and_then(|row| row_id(row, rates));
                }
            }
        }
        let min_top = (self.index + 1).saturating_sub(page);
        self.top = self.top.clamp(min_top, self.index.max(min_top)).min(self.index);
        // No empty lines below the last row while rows above are hidden.
        self.top = self.top.min(rows.len().saturating_sub(page)).max(min_top.min(self.index));
    }

    /// Selects a row.
    pub fn move_to(&mut self, at: usize, rows: &[ScreenRow], rates: &Rates) {
        self.index = at.min(rows.len().saturating_sub(1));
        self.row = rows.get(self.index).and_then(|row| row_id(row, rates));
    }

    /// Moves to the first row, without selecting its process.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

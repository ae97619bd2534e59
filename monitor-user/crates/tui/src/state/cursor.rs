//! The bar: on which row it is, and which rows are above the screen.
//!
//! It stays with the process or group that it was put on, wherever that moves. Before it was put
//! anywhere it is on the first row, whoever that is.

use super::row::{Key, Row, key};
use monitor_model::rates::Rates;

/// Where the bar is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor {
    /// On whom it was put.
    pub on: Option<Key>,
    /// On which row that is.
    pub at: usize,
    /// The first row that can be seen.
    pub top: usize,
}

impl Cursor {
    /// Finds its row again, and shows it.
    pub fn settle(&mut self, rows: &[Row], rates: &Rates, page: usize) {
        let last = rows.len().saturating_sub(1);
        match &self.on {
            None => self.at = 0,
            Some(on) => {
                let found = rows.iter().position(|row| key(row, rates).as_ref() == Some(on));
                self.at = found.unwrap_or(self.at).min(last);
                if found.is_none() {
                    // Who it was on has gone: it stays where it is, with whoever is there now.
                    self.on = rows.get(self.at).and_then(|row| key(row, rates));
                }
            }
        }
        let least = (self.at + 1).saturating_sub(page);
        self.top = self.top.clamp(least, self.at.max(least)).min(self.at);
        // No empty lines below the last row while there are rows above.
        self.top = self.top.min(rows.len().saturating_sub(page)).max(least.min(self.at));
    }

    /// Puts it on a row.
    pub fn put(&mut self, at: usize, rows: &[Row], rates: &Rates) {
        self.at = at.min(rows.len().saturating_sub(1));
        self.on = rows.get(self.at).and_then(|row| key(row, rates));
    }

    /// Lets it be on the first row, whoever that is.
    pub fn release(&mut self) {
        *self = Self::default();
    }
}

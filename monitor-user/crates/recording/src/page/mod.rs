//! A sample as sheets, and back: `write` and `read`.
//!
//! Every row keeps the order of the sample. Rates are left out; who reads computes them again.

mod read;
mod write;

pub use read::{instant, sample};
pub use write::write;

use super::schema::{Kind, ours};
use super::sheet::Sheet;

/// The three kinds of latency, by number.
const LATENCIES: u64 = 3;

/// Empty sheets, in the order of [`Kind`].
pub fn sheets() -> Vec<Sheet> {
    ours().iter().map(|it| Sheet::new(it.columns.len())).collect()
}

/// The row of a thing that there is one of.
const ONLY: [u64; 4] = [0; 4];

impl Kind {
    /// Its sheet among [`sheets`].
    fn of(self, sheets: &mut [Sheet]) -> &mut Sheet {
        &mut sheets[self as usize]
    }
}

#[cfg(test)]
mod tests;

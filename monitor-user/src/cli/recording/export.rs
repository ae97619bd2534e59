//! `monitor export FILE`: a recording in a form that other programs read.
//!
//! CSV and JSON are what a replay prints without waiting.

use super::replay::play;
use super::words::{Export, Speed};
use crate::cli::exit::{Exit, Failure};

/// Exports.
pub fn export(words: &Export) -> Result<Exit, Failure> {
    play(&words.file, &words.reading, (Speed::Max, &words.part, None))
}

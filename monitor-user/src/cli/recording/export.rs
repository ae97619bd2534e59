//! `monitor export FILE`: a recording in a form that other programs read.
//!
//! CSV and JSON are what a replay prints without waiting; Parquet is the same by column, for
//! programs that read much of it. It is a file of bytes, so a terminal gets none.

use super::replay::play;
use super::words::{Export, Speed};
use crate::cli::exit::{Exit, Failure};
use monitor_format::Form;
use std::io::IsTerminal as _;

/// Exports.
pub fn export(words: &Export) -> Result<Exit, Failure> {
    if words.reading.form() == Form::Parquet
        && words.reading.output.is_none()
        && std::io::stdout().is_terminal()
    {
        let why = "parquet is no text for a terminal: name a file with --output";
        return Err(Failure::usage(why));
    }
    play(&words.file, &words.reading, (Speed::Max, &words.part, None))
}

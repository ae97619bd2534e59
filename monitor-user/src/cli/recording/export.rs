//! `monitor export FILE`: converts a recording to CSV, JSON or Parquet.
//!
//! CSV and JSON are what `replay --speed max` prints; Parquet has the same data by column. Parquet
//! is binary, so it is not printed to a terminal.

use super::args::{ExportArgs, Speed};
use super::replay::play;
use crate::cli::exit::{Exit, Failure};
use std::io::IsTerminal as _;

/// Exports the recording.
pub fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    if args.reading.output_format().is_binary()
        && args.reading.output.is_none()
        && std::io::stdout().is_terminal()
    {
        let why = "parquet is binary: name a file with --output";
        return Err(Failure::usage(why));
    }
    play(&args.file, &args.reading, (Speed::Max, &args.part, None))
}

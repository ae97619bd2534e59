//! `monitor job calls`: how long the ranks of a job are in MPI, in which functions, and called from
//! where.
//!
//! In: the arguments. Out: the profile, in the format that the user wants.

use super::args::JobCallsArgs;
use super::{calls_json, calls_text, measured_calls};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;

/// Measures the calls, and prints the profile.
///
/// # Errors
/// If there is no such job or rank, none calls MPI, or the kernel refuses the probes.
pub fn calls(args: &JobCallsArgs) -> Result<Exit, Failure> {
    let calls = measured_calls::measure(args)?;
    let text = match args.format.as_str() {
        "json" => output::json(&calls_json::json(&calls))?,
        _ => calls_text::text(&calls, args.top),
    };
    let printed = output::print(text.as_bytes())?;
    Ok(if calls.measured.is_partial { Exit::Partial } else { printed })
}

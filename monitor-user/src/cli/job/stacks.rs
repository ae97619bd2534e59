//! `monitor job stacks`: where the ranks of a job are.
//!
//! In: the arguments. Out: the merged call stacks, in the format that the user wants.

use super::args::JobStacksArgs;
use super::{merged_stacks, stacks_export, stacks_text};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;

/// Reads the stacks, and prints them.
///
/// # Errors
/// If there is no such job or rank, or no rank may be traced.
pub fn stacks(args: &JobStacksArgs) -> Result<Exit, Failure> {
    let stacks = merged_stacks::read(args)?;
    let text = match args.format.as_str() {
        "json" => output::json(&stacks_export::json(&stacks))?,
        "dot" => stacks_export::dot(&stacks),
        "folded" => stacks_export::folded(&stacks.stacks.tree),
        _ => stacks_text::text(&stacks),
    };
    if matches!(args.format.as_str(), "dot" | "folded") {
        stacks.notes.iter().for_each(|note| output::notice(note));
    }
    let printed = output::print(text.as_bytes())?;
    Ok(if stacks.is_partial { Exit::Partial } else { printed })
}

//! `monitor job stacks`: where the ranks of a job are.
//!
//! In: the arguments. Out: the merged call stacks, in the format that the user wants.

use super::args::JobStacksArgs;
use super::merged_stacks::{self, MergedStacks};
use super::{stacks_export, stacks_nodes, stacks_text};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;

/// Reads the stacks, and prints them.
///
/// # Errors
/// If there is no such job or rank, or no rank may be traced.
pub fn stacks(args: &JobStacksArgs) -> Result<Exit, Failure> {
    if let Some(nodes) = &args.on_nodes.nodes {
        let found = stacks_nodes::read(args, (nodes, args.on_nodes.within))?;
        let n_nodes = usize::from(found.stacks.stacks.ranks > 0);
        if n_nodes == 0 {
            let exit = found.missing.end(0, Exit::Ok);
            return Ok(if found.is_denied { Exit::Denied } else { exit });
        }
        return Ok(found.missing.end(n_nodes, print(&found.stacks, &args.format)?));
    }
    print(&merged_stacks::read(args)?, &args.format)
}

fn print(stacks: &MergedStacks, format: &str) -> Result<Exit, Failure> {
    let text = match format {
        "json" => output::json(&stacks_export::json(stacks))?,
        "dot" => stacks_export::dot(stacks),
        "folded" => stacks_export::folded(&stacks.stacks.tree),
        _ => stacks_text::text(stacks),
    };
    if matches!(format, "dot" | "folded") {
        stacks.notes.iter().for_each(|note| output::notice(note));
    }
    let printed = output::print(text.as_bytes())?;
    Ok(if stacks.is_partial { Exit::Partial } else { printed })
}

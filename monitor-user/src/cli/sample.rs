//! `monitor sample`: one reading, one frame.

use super::args::Reading;
use super::columns::Pace;
use super::exit::{Exit, Failure};
use super::output::{self, Output};
use super::pipeline::Pipeline;
use super::plan::Plan;

/// Reads once.
pub fn sample(words: &Reading) -> Result<Exit, Failure> {
    let plan = Plan::resolve(words, Pace::Once)?;
    let mut output = words.output.clone().map_or(Output::Stream, Output::Whole);
    let mut pipeline = Pipeline::open(plan, output::paint(&output))?;
    let frame = pipeline.turn(output.room())?;
    output.put(frame)?;
    Ok(pipeline.exit())
}

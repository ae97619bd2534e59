//! `monitor sample`: one reading, one frame; by the daemon, if one answers.

use super::args::Sample;
use super::client::{found, runtime};
use super::columns::Pace;
use super::exit::{Exit, Failure};
use super::log;
use super::output::{self, Output};
use super::pen::Pen;
use super::pipeline::Pipeline;
use super::plan::Plan;

/// Reads once.
pub fn sample(words: &Sample) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&words.reading, Pace::Once)?;
    let probe_log = words.log.level();
    log::start(probe_log);
    if probe_log == 0
        && let Some(exit) = runtime()?.block_on(relayed(words, &plan))?
    {
        return Ok(exit);
    }
    let mut output = words.reading.output.clone().map_or(Output::Stream, Output::Whole);
    let mut pipeline =
        Pipeline::open(plan, words.reader.backend, probe_log, output::paint(&output))?;
    let frame = pipeline.turn(output.room())?;
    output.put(frame)?;
    Ok(pipeline.exit())
}

/// By the daemon, if there is one.
async fn relayed(words: &Sample, plan: &Plan) -> Result<Option<Exit>, Failure> {
    let Some(client) = found(&words.reader).await? else { return Ok(None) };
    let mut output = words.reading.output.clone().map_or(Output::Stream, Output::Whole);
    let sampled = client.sample(&plan.request).await?;
    let mut pen = Pen::samples(plan, output::paint(&output));
    let mut event = sampled.event;
    event.partial = sampled.partial;
    output.put(pen.write(&event, output.room())?)?;
    Ok(Some(pen.exit()))
}

//! `monitor sample`: reads once and prints one frame; from the daemon, if one answers.

use super::args::SampleArgs;
use super::client::{find, runtime};
use super::columns::SampleMode;
use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::log;
use super::output::{self, Output};
use super::pipeline::Pipeline;
use super::plan::Plan;

/// Reads and prints one sample.
pub fn sample(args: &SampleArgs) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&args.reading, SampleMode::Once)?;
    let probe_log = args.log.level();
    log::start(probe_log);
    if probe_log == 0
        && let Some(exit) = runtime()?.block_on(sample_by_daemon(args, &plan))?
    {
        return Ok(exit);
    }
    let mut output = args.reading.output.clone().map_or(Output::Stream, Output::Replace);
    let mut pipeline =
        Pipeline::open(plan, args.reader.backend, probe_log, output::paint(&output))?;
    let frame = pipeline.next_frame(output.room())?;
    output.put(frame)?;
    Ok(pipeline.exit())
}

/// Prints a sample of the daemon; `None` if there is no daemon.
async fn sample_by_daemon(args: &SampleArgs, plan: &Plan) -> Result<Option<Exit>, Failure> {
    let Some(client) = find(&args.reader).await? else { return Ok(None) };
    let mut output = args.reading.output.clone().map_or(Output::Stream, Output::Replace);
    let sampled = client.sample(&plan.request).await?;
    let mut writer = EventWriter::sample_forms(plan, output::paint(&output));
    let mut event = sampled.event;
    event.partial = sampled.partial;
    output.put(writer.write(&event, output.room())?)?;
    Ok(Some(writer.exit()))
}

//! `monitor sample` and `monitor watch`: read once, or at an interval, and print each sample.
//!
//! `watch` ends when it is stopped or has printed `--count` samples. The daemon reads, if one
//! answers.

use super::args::{ReadingArgs, SampleArgs, SampleOnceArgs, WatchArgs};
use super::client::{find, runtime};
use super::columns::SampleMode;
use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::log;
use super::output::{self, Output, OutputState, Screen, notice};
use super::pipeline::Pipeline;
use super::plan::Plan;
use super::run_loop::{self, LoopEnd, PeriodicTask, skipped_note};
use super::sample_nodes::sample_nodes;
use super::series_printer::{DrawMode, SeriesPrinter};
use monitor_client::{Client, Error};
use monitor_format::OutputFormat;
use monitor_model::id::Ns;
use monitor_model::request::MonitorRequest;
use monitor_model::status::Status;
use monitor_sampling::schedule::Schedule;
use std::os::fd::OwnedFd;

/// Reads and prints one sample, or one of each node.
pub fn sample(args: &SampleOnceArgs) -> Result<Exit, Failure> {
    let SampleOnceArgs { sample: args, on_nodes } = args;
    if let Some(nodes) = &on_nodes.nodes {
        return sample_nodes(args, (nodes, on_nodes.within));
    }
    let plan = Plan::resolve(&args.reading, SampleMode::Once)?;
    let probe_log = args.log.level();
    log::start(probe_log);
    plan.rate_note(&args.reading.fields).iter().for_each(|note| notice(note));
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
    Ok(selected(args, pipeline.matched(), pipeline.exit()))
}

/// The exit code of a sample. If options select processes and none matches, that is printed. A
/// condition without a match is an answer; a name without a process is not.
fn selected(args: &SampleArgs, matched: usize, exit: Exit) -> Exit {
    let options = args.reading.selecting_options();
    if options.is_empty() || matched > 0 {
        return exit;
    }
    let rows = if args.reading.group_by.is_some() { "group" } else { "process" };
    notice(&format!("no {rows} matches {options}"));
    if exit == Exit::Ok && args.reading.names_processes() { Exit::NoTarget } else { exit }
}

/// Prints a sample of the daemon; `None` if there is no daemon.
async fn sample_by_daemon(args: &SampleArgs, plan: &Plan) -> Result<Option<Exit>, Failure> {
    let Some(client) = find(&args.reader).await? else { return Ok(None) };
    let mut output = args.reading.output.clone().map_or(Output::Stream, Output::Replace);
    let sampled = client.sample(&plan.request).await?;
    let mut writer = EventWriter::sample_forms(plan, output::paint(&output));
    let mut event = sampled.event;
    event.partial = sampled.partial;
    let matched = event.matched.and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX);
    output.put(writer.write(&event, output.room())?)?;
    Ok(Some(selected(args, matched, writer.exit())))
}

/// Rows requested beyond the lines of the screen, because it may grow.
const MORE_ROWS: usize = 256;

/// Reads and prints until it is stopped or the count is reached.
pub fn watch(args: &WatchArgs) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&args.sample.reading, SampleMode::Periodic)?;
    let probe_log = args.sample.log.level();
    log::start(probe_log);
    let runtime = runtime()?;
    let output = args.sample.reading.output.clone().map_or(Output::Stream, Output::Deferred);
    let client = match probe_log {
        0 => runtime.block_on(find(&args.sample.reader))?,
        _ => None,
    };
    if let Some(client) = client {
        return runtime.block_on(watch_by_daemon(args, &plan, output, &client));
    }
    let choice = args.sample.reader.backend;
    let pipeline = Pipeline::open(plan, choice, probe_log, output::paint(&output))?;
    runtime.block_on(run_loop::run(|| {
        // After the signal handlers: a signal before them would leave the terminal changed.
        let output =
            if redraws(&args.sample.reading) { Output::Screen(Screen::open()?) } else { output };
        let schedule = Schedule::new(Ns(0), Ns::from(args.every), args.limit.samples(args.every));
        Ok(LocalWatch { pipeline, output, schedule })
    }))
}

/// Like `watch`, with samples of the daemon.
async fn watch_by_daemon(
    args: &WatchArgs,
    plan: &Plan,
    output: Output,
    client: &Client,
) -> Result<Exit, Failure> {
    let redraws = redraws(&args.sample.reading) && args.sample.reading.part.processes();
    let max_rows = output::lines().filter(|_| redraws).map(|lines| lines + MORE_ROWS);
    let request = MonitorRequest {
        every_ns: Some(Ns::from(args.every).0),
        count: args.limit.samples(args.every),
        // As without a daemon: continue after all named processes have exited.
        follow: true,
        top: plan.request.top.or(max_rows.and_then(|max_rows| u32::try_from(max_rows).ok())),
        ..plan.request.clone()
    };
    let series = client.start(&request).await.map_err(|error| {
        let limit = matches!(&error, Error::Refused(it) if it.status == Status::OutOfResource);
        let mut failure = Failure::from(error);
        failure.message += if limit { "; --local reads without the daemon" } else { "" };
        failure
    })?;
    let writer = EventWriter::sample_forms(plan, output::paint(&output));
    SeriesPrinter::new(series, writer, output, draw_mode(&args.sample.reading))?.run(None).await
}

/// How frames follow each other.
pub fn draw_mode(args: &ReadingArgs) -> DrawMode {
    if redraws(args) { DrawMode::Redraw } else { DrawMode::Append }
}

/// Whether each frame is drawn over the one before: a table on a terminal.
pub fn redraws(args: &ReadingArgs) -> bool {
    args.output_format() == OutputFormat::Table && args.output.is_none() && output::on_terminal()
}

/// Samples of a local backend, printed here.
struct LocalWatch {
    pipeline: Pipeline,
    output: Output,
    schedule: Schedule,
}

impl PeriodicTask for LocalWatch {
    fn next_due(&self) -> Option<Ns> {
        self.schedule.due()
    }

    fn tick(&mut self) -> Result<OutputState, Failure> {
        let frame = self.pipeline.next_frame(self.output.room())?;
        self.output.put(frame)
    }

    fn ticked(&mut self, now: Ns) {
        if let Some(note) = skipped_note(self.schedule.taken(now)) {
            self.pipeline.note(note);
        }
    }

    fn wake(&self) -> std::io::Result<Option<OwnedFd>> {
        self.pipeline.wake()
    }

    fn drain(&mut self) {
        self.pipeline.drain();
    }

    fn finish(&mut self, ended: LoopEnd) -> Result<Exit, Failure> {
        Ok(match ended {
            LoopEnd::Done => self.pipeline.exit(),
            LoopEnd::Interrupted => Exit::Interrupted,
            LoopEnd::Gone | LoopEnd::Terminated => Exit::Ok,
        })
    }
}

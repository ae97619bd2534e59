//! `monitor replay FILE` and `monitor export FILE`: print a recording as `watch` would print it, at
//! its original speed or a multiple of it, or as fast as possible to another format.
//!
//! Parquet is binary, so it is not printed to a terminal. A frame is formatted before it is due.

use super::args::{ExportArgs, PartArgs, ReplayArgs, Speed, TimeRange, time_range};
use super::page;
use crate::cli::args::ReadingArgs;
use crate::cli::client::runtime;
use crate::cli::columns::SampleMode;
use crate::cli::exit::{Exit, Failure};
use crate::cli::log;
use crate::cli::output::{self, Output, OutputState, Screen, notice};
use crate::cli::pipeline::Pipeline;
use crate::cli::plan::Plan;
use crate::cli::progress::ReadProgress;
use crate::cli::run_loop::{self, LoopEnd, PeriodicTask};
use crate::cli::watch::redraws;
use monitor_backend::Backend;
use monitor_model::id::Ns;
use monitor_model::sample::{Instant, Note};
use monitor_recording::{Recording, Replay, Span};
use monitor_sampling::plan::COSTLY;
use std::path::Path;

/// Plays a recording to the output or to a page.
pub fn replay(args: &ReplayArgs) -> Result<Exit, Failure> {
    if let Some(address) = args.page {
        log::start(0);
        let (recording, span) = open(&args.file)?;
        let speed = args.speed.unwrap_or(Speed::Times(1.0));
        return page::show(recording, address, (span, time_range(&args.part, &span)?, speed));
    }
    let drawn = redraws(&args.reading);
    let speed = args.speed.unwrap_or(if drawn { Speed::Times(1.0) } else { Speed::Max });
    play(&args.file, &args.reading, (speed, &args.part, args.count))
}

/// Opens a recording and returns its span. Fails if it has no sample.
pub fn open(file: &Path) -> Result<(Recording, Span), Failure> {
    let recording = Recording::open(file)?;
    let empty = || nothing_to_show(&format!("{} has no sample", file.display()), &recording);
    let span = recording.span().ok_or_else(empty)?;
    Ok((recording, span))
}

/// The failure for a recording without samples, with the notes about missing parts.
pub fn nothing_to_show(what: &str, recording: &Recording) -> Failure {
    let missing = recording.end_notes().into_iter().map(|note| note.text);
    let parts: Vec<String> = std::iter::once(what.to_owned()).chain(missing).collect();
    Failure::failed(parts.join(": "))
}

/// Plays a part of a file at a speed, and at most `count` samples.
pub fn play(
    file: &Path,
    reading: &ReadingArgs,
    (speed, part, count): (Speed, &PartArgs, Option<u64>),
) -> Result<Exit, Failure> {
    let mut plan = Plan::resolve(reading, SampleMode::Periodic)?;
    log::start(0);
    let (mut recording, span) = open(file)?;
    let range = time_range(part, &span)?;
    // Costly fields cost nothing once recorded.
    if reading.fields.is_empty() {
        plan.read_spec.costly = COSTLY.to_vec();
    }
    // Start one sample earlier, so that the first shown sample has rates.
    recording.seek(Ns(range.from.0.saturating_sub(1)))?;
    let output = reading.output.clone().map_or(Output::Stream, Output::Deferred);
    let drawn = redraws(reading);
    let backend: Box<dyn Backend> = Box::new(Replay::new(recording));
    let pipeline = Pipeline::with_backend((backend, Vec::new()), plan, output::paint(&output))?;
    runtime()?.block_on(async {
        run_loop::run(|| {
            // After the signal handlers: a signal before them would leave the terminal changed.
            let output = if drawn { Output::Screen(Screen::open()?) } else { output };
            let progress = ReadProgress::new(&range, &span);
            Player::new(pipeline, output, (speed, range, count), progress)
        })
        .await
    })
}

/// Exports the recording.
pub fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let is_printed = args.reading.output.is_none() && output::on_terminal();
    if is_printed && args.reading.output_format().is_binary() {
        return Err(Failure::usage("parquet is binary: name a file with --output"));
    }
    play(&args.file, &args.reading, (Speed::Max, &args.part, None))
}

/// Plays a recording.
pub struct Player {
    pipeline: Pipeline,
    output: Output,
    speed: Speed,
    range: TimeRange,
    /// Remaining samples.
    left: u64,
    /// Time of the first shown sample.
    first: Option<Ns>,
    /// The next frame, and when it is due.
    ready: Option<(Ns, Vec<u8>)>,
    /// Shows progress if the output does not.
    progress: Option<ReadProgress>,
    exit: Exit,
}

impl Player {
    /// Plays from the current position, and shows the samples in the range.
    pub fn new(
        pipeline: Pipeline,
        output: Output,
        (speed, range, count): (Speed, TimeRange, Option<u64>),
        progress: ReadProgress,
    ) -> Result<Self, Failure> {
        let left = count.unwrap_or(u64::MAX);
        let is_waited_for = speed == Speed::Max && !output.is_terminal();
        let progress = is_waited_for.then_some(progress);
        let (first, ready, exit) = (None, None, Exit::Ok);
        let mut player =
            Self { pipeline, output, speed, range, left, first, ready, progress, exit };
        player.prepare()?;
        Ok(player)
    }

    /// Formats the next frame, if there is one.
    fn prepare(&mut self) -> Result<(), Failure> {
        self.ready = None;
        while self.left > 0 {
            let room = self.output.room();
            let Some((at, frame)) = self.pipeline.next_recorded(room)? else {
                self.report_missing();
                return Ok(());
            };
            if at.unix > self.range.to {
                return Ok(());
            }
            self.progress.iter().for_each(|progress| progress.update(at.unix));
            if at.unix >= self.range.from {
                let frame = frame.to_vec();
                self.ready = Some((self.due_at(at), frame));
                return Ok(());
            }
        }
        Ok(())
    }

    fn due_at(&mut self, at: Instant) -> Ns {
        let first = *self.first.get_or_insert(at.boot);
        match self.speed {
            Speed::Max => Ns(0),
            Speed::Times(times) => Ns((at.boot.since(first).0 as f64 / times) as u64),
        }
    }

    fn report_missing(&mut self) {
        self.progress = None;
        for Note { text, .. } in self.pipeline.missing() {
            notice(text);
            self.exit = Exit::Partial;
        }
    }
}

impl PeriodicTask for Player {
    fn next_due(&self) -> Option<Ns> {
        self.ready.as_ref().map(|(due, _)| *due)
    }

    fn tick(&mut self) -> Result<OutputState, Failure> {
        let Some((_, frame)) = self.ready.take() else { return Ok(OutputState::Open) };
        let reader = self.output.put(&frame)?;
        self.left -= 1;
        self.prepare()?;
        Ok(reader)
    }

    fn finish(&mut self, ended: LoopEnd) -> Result<Exit, Failure> {
        self.progress = None;
        let end = self.pipeline.finish();
        if !end.is_empty() {
            // A closed output needs no end.
            let _reader = self.output.put(end)?;
        }
        Ok(match (ended, self.exit) {
            (LoopEnd::Interrupted, _) => Exit::Interrupted,
            (_, Exit::Ok) => self.pipeline.exit(),
            (_, exit) => exit,
        })
    }
}

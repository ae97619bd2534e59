//! `monitor replay FILE`: prints a recording as `watch` would print it.

use super::args::{PartArgs, ReplayArgs, Speed};
use super::page;
use super::player::Player;
use super::progress::ReadProgress;
use super::time_range::time_range;
use crate::cli::args::ReadingArgs;
use crate::cli::client::runtime;
use crate::cli::columns::SampleMode;
use crate::cli::exit::{Exit, Failure};
use crate::cli::log;
use crate::cli::output::{self, Output, Screen};
use crate::cli::pipeline::Pipeline;
use crate::cli::plan::Plan;
use crate::cli::run_loop;
use crate::cli::watch::redraws;
use monitor_backend::Backend;
use monitor_model::id::Ns;
use monitor_model::sample::Note;
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
    match recording.span() {
        Some(span) => Ok((recording, span)),
        None => Err(nothing_to_show(
            &format!("{} has no sample", file.display()),
            recording.end_notes(),
        )),
    }
}

/// The failure for a recording without samples, with the notes about missing parts.
pub fn nothing_to_show(what: &str, missing: Vec<Note>) -> Failure {
    let missing = missing.into_iter().map(|note| note.text);
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
        run_loop::run_with(|| {
            // After the signal handlers: a signal before them would leave the terminal changed.
            let output = if drawn { Output::Screen(Screen::open()?) } else { output };
            let progress = ReadProgress::new(&range, &span);
            Player::new(pipeline, output, (speed, range, count), progress)
        })
        .await
    })
}

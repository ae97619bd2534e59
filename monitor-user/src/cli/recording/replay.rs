//! `monitor replay FILE`: a recording printed as `watch` would have printed it.

use super::page;
use super::player::Player;
use super::progress::Passage;
use super::when::between;
use super::words::{Part, Replay as Words, Speed};
use crate::cli::args::Reading;
use crate::cli::client::runtime;
use crate::cli::columns::Pace;
use crate::cli::exit::{Exit, Failure};
use crate::cli::log;
use crate::cli::output::{self, Output, Screen};
use crate::cli::pace;
use crate::cli::pipeline::Pipeline;
use crate::cli::plan::Plan;
use crate::cli::watch::draws;
use monitor_backend::Backend;
use monitor_model::id::Ns;
use monitor_model::sample::Note;
use monitor_recording::{Recording, Replay, Span};
use monitor_sampling::plan::COSTLY;
use std::path::Path;

/// Plays it.
pub fn replay(words: &Words) -> Result<Exit, Failure> {
    if let Some(address) = words.page {
        log::start(0);
        let (recording, span) = opened(&words.file)?;
        let speed = words.speed.unwrap_or(Speed::Times(1.0));
        return page::show(recording, address, (span, between(&words.part, &span)?, speed));
    }
    let drawn = draws(&words.reading);
    let speed = words.speed.unwrap_or(if drawn { Speed::Times(1.0) } else { Speed::Max });
    play(&words.file, &words.reading, (speed, &words.part, words.count))
}

/// A recording that has something to show, and from when to when.
pub fn opened(file: &Path) -> Result<(Recording, Span), Failure> {
    let recording = Recording::open(file)?;
    match recording.span() {
        Some(span) => Ok((recording, span)),
        None => Err(none(&format!("{} has no sample", file.display()), recording.at_end())),
    }
}

/// There is nothing to show, and this is what is missing.
pub fn none(what: &str, missing: Vec<Note>) -> Failure {
    let missing = missing.into_iter().map(|note| note.text);
    let told: Vec<String> = std::iter::once(what.to_owned()).chain(missing).collect();
    Failure::failed(told.join(": "))
}

/// Plays a part of a file at a speed, so many samples at most.
pub fn play(
    file: &Path,
    reading: &Reading,
    (speed, part, count): (Speed, &Part, Option<u64>),
) -> Result<Exit, Failure> {
    let mut plan = Plan::resolve(reading, Pace::Again)?;
    log::start(0);
    let (mut recording, span) = opened(file)?;
    let between = between(part, &span)?;
    // What was recorded is there for nothing.
    if reading.fields.is_empty() {
        plan.want.costly = COSTLY.to_vec();
    }
    // The sample before the first that is shown, so that the first has its rates.
    recording.seek(Ns(between.from.0.saturating_sub(1)))?;
    let output = reading.output.clone().map_or(Output::Stream, Output::Later);
    let drawn = draws(reading);
    let backend: Box<dyn Backend> = Box::new(Replay::new(recording));
    let pipeline = Pipeline::over((backend, Vec::new()), plan, output::paint(&output))?;
    runtime()?.block_on(async {
        pace::run_with(|| {
            // Only once signals are heeded: they would leave the terminal as it is drawn on.
            let output = if drawn { Output::Screen(Screen::open()?) } else { output };
            let passage = Passage::new(&between, &span);
            Player::new(pipeline, output, (speed, between, count), passage)
        })
        .await
    })
}

//! `monitor report FILE`: what used what, from a recording.
//!
//! The recording is read once, and once more for plots, when it is known whose course is plotted.

mod chart;
mod json;
mod page;
mod text;

use super::progress::Passage;
use super::replay::{none, opened};
use super::when::{Between, between, rfc3339};
use super::words::Report as Words;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Output, say};
use monitor_model::id::Ns;
use monitor_model::sample::Note;
use monitor_recording::{Header, Recording};
use monitor_sampling::filter::Filter;
use monitor_sampling::ledger::{Ledger, Of, Plot};
use std::path::Path;

/// Entries that are plotted by themselves.
const PLOTTED: usize = 8;

/// What is told.
pub(super) struct Told<'a> {
    /// The file.
    pub path: &'a Path,
    /// Whose it is.
    pub header: &'a Header,
    /// By what.
    pub by: Of,
    /// Lines of entries that are shown.
    pub top: usize,
    /// What used what.
    pub ledger: &'a Ledger,
    /// What is missing.
    pub notes: &'a [String],
}

/// Reports.
pub fn report(words: &Words) -> Result<Exit, Failure> {
    let (mut recording, span) = opened(&words.file)?;
    let between = between(&words.part, &span)?;
    let plots = words.svg.is_some() || words.html.is_some();
    let mut reading = Reading { recording: &mut recording, between, notes: Vec::new() };
    let mut ledger = Ledger::new(words.by, Filter::default());
    reading.pass(&mut ledger)?;
    if ledger.span().is_none() {
        let what = format!("{} has no sample of that time", words.file.display());
        return Err(none(&what, recording.at_end()));
    }
    if plots && let Some((first, last, samples)) = ledger.span() {
        let keys = ledger.entries().into_iter().take(PLOTTED).map(|(key, _)| key.clone());
        let plot = Plot::new(keys, (first.unix, last.unix), samples);
        let mut again = Ledger::new(words.by, Filter::default()).plotting(plot);
        reading.pass(&mut again)?;
        ledger = again;
    }
    let notes = reading.notes;
    let told = Told {
        path: &words.file,
        header: recording.header(),
        by: words.by,
        top: words.top,
        ledger: &ledger,
        notes: &notes,
    };
    write(words, &told)?;
    Ok(if notes.is_empty() { Exit::Ok } else { Exit::Partial })
}

fn write(words: &Words, told: &Told<'_>) -> Result<(), Failure> {
    if let Some(path) = &words.svg {
        let _there = Output::Whole(path.clone()).put(chart::all(told).as_bytes())?;
    }
    if let Some(path) = &words.html {
        let _there = Output::Whole(path.clone()).put(page::page(told).as_bytes())?;
    }
    let text = match words.format.as_str() {
        "json" => json::json(told)?,
        _ => text::text(told, Output::Stream.room().columns),
    };
    let _exit = output::print(text.as_bytes())?;
    told.notes.iter().for_each(|note| say(note));
    Ok(())
}

/// A recording that is read through.
struct Reading<'a> {
    recording: &'a mut Recording,
    between: Between,
    notes: Vec<String>,
}

impl Reading<'_> {
    /// Gives the ledger the last sample before the time, and all within it.
    fn pass(&mut self, ledger: &mut Ledger) -> Result<(), Failure> {
        self.notes.clear();
        self.recording.seek(self.between.from)?;
        let span = self.recording.span().unwrap_or_default();
        let passage = Passage::new(&self.between, &span);
        while let Some(sample) = self.recording.next()? {
            let at = sample.at.unix;
            if at > self.between.to {
                return Ok(());
            }
            // What was missing as it was recorded stands in the samples themselves.
            let damaged = sample.notes.iter().filter(|note| note.text.contains("are damaged in"));
            self.notes.extend(damaged.map(|note| note.text.clone()));
            ledger.see(&sample);
            passage.at(at);
        }
        self.notes.extend(self.recording.at_end().into_iter().map(|Note { text, .. }| text));
        Ok(())
    }
}

/// Percent of one processor, as a spread has it.
pub(super) fn percent(hundredths: u64) -> f64 {
    hundredths as f64 / 100.0
}

/// From when to when, for people.
pub(super) fn course(ledger: &Ledger) -> String {
    let Some((first, last, samples)) = ledger.span() else { return "nothing".into() };
    let mut text = format!("{} to {}, ", rfc3339(first.unix), rfc3339(last.unix));
    monitor_format::human::span(length(ledger).0 as f64, &mut text);
    text + &format!(", {samples} samples")
}

/// How long it was.
pub(super) fn length(ledger: &Ledger) -> Ns {
    ledger.span().map_or(Ns(0), |(first, last, _)| last.boot.since(first.boot))
}

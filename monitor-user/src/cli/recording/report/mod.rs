//! `monitor report FILE`: summarizes from a recording which processes used which resources.
//!
//! In: a recording. Out: text, JSON, SVG or HTML. The recording is read once, and a second time for
//! plots, when the entries to plot are known.

mod chart;
mod input;
mod json;
mod page;
mod text;

use super::args::{ReportArgs, TimeRange, time_range};
use super::replay::{nothing_to_show, open};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Output, notice};
use crate::cli::progress::ReadProgress;
use input::{PLOTTED, ReportInput};
use monitor_model::sample::Note;
use monitor_recording::Recording;
use monitor_sampling::filter::Filter;
use monitor_sampling::usage_report::{UsagePlot, UsageReport};

/// Reads the recording and prints the report.
pub fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    let (mut recording, span) = open(&args.file)?;
    let range = time_range(&args.part, &span)?;
    let plots = args.svg.is_some() || args.html.is_some();
    let mut reader = ReportReader { recording: &mut recording, range, notes: Vec::new() };
    let mut ledger = UsageReport::new(args.by, Filter::default());
    reader.read_into(&mut ledger)?;
    if ledger.span().is_none() {
        let what = format!("{} has no sample in that time range", args.file.display());
        return Err(nothing_to_show(&what, &recording));
    }
    if plots && let Some((first, last, samples)) = ledger.span() {
        let keys = ledger.entries().into_iter().take(PLOTTED).map(|(key, _)| key.clone());
        let plot = UsagePlot::new(keys, (first.unix, last.unix), samples);
        let mut again = UsageReport::new(args.by, Filter::default()).plotting(plot);
        reader.read_into(&mut again)?;
        ledger = again;
    }
    let notes = reader.notes;
    let input = ReportInput {
        path: &args.file,
        header: recording.header(),
        by: args.by,
        top: args.top,
        ledger: &ledger,
        notes: &notes,
    };
    write(args, &input)?;
    Ok(if notes.is_empty() { Exit::Ok } else { Exit::Partial })
}

fn write(args: &ReportArgs, input: &ReportInput<'_>) -> Result<(), Failure> {
    if let Some(path) = &args.svg {
        let _there = Output::Replace(path.clone()).put(chart::all(input).as_bytes())?;
    }
    if let Some(path) = &args.html {
        let _there = Output::Replace(path.clone()).put(page::page(input).as_bytes())?;
    }
    let text = match args.printed.is_json() {
        true => json::json(input)?,
        false => text::text(input, Output::Stream.room().columns),
    };
    let _exit = output::print(text.as_bytes())?;
    input.notes.iter().for_each(|note| notice(note));
    Ok(())
}

/// Reads the selected part of a recording.
struct ReportReader<'a> {
    recording: &'a mut Recording,
    range: TimeRange,
    notes: Vec<String>,
}

impl ReportReader<'_> {
    /// Passes the last sample before the range and all samples in it to the accumulator.
    fn read_into(&mut self, ledger: &mut UsageReport) -> Result<(), Failure> {
        self.notes.clear();
        self.recording.seek(self.range.from)?;
        let span = self.recording.span().unwrap_or_default();
        let progress = ReadProgress::new(&self.range, &span);
        while let Some(sample) = self.recording.next()? {
            let at = sample.at.unix;
            if at > self.range.to {
                return Ok(());
            }
            // Notes of the time of recording are part of the samples themselves.
            let damaged = sample.notes.iter().filter(|note| note.text.contains("are damaged in"));
            self.notes.extend(damaged.map(|note| note.text.clone()));
            ledger.add_sample(&sample);
            progress.update(at);
        }
        self.notes.extend(self.recording.end_notes().into_iter().map(|Note { text, .. }| text));
        Ok(())
    }
}

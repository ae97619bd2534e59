//! Formats events of the daemon: samples in any output format, as if they had been read here.
//!
//! In: events. Out: frames. JSON passes through unchanged; the other formats are generated from
//! it. Missing parts are remembered for the exit code.

use super::client;
use super::columns;
use super::exit::{Exit, Failure};
use super::output::notice;
use super::plan::Plan;
use monitor_format::{Frame, FrameWriter, OutputFormat, Paint, Viewport, human, pmix_text};
use monitor_model::sample::Note;
use monitor_protocol::event::Event;
use monitor_protocol::terminal::write_json;
use serde::Deserialize;
use std::collections::HashSet;

/// The part of an event that is written, and how.
enum OutputMode {
    /// The sample as received.
    Sample,
    /// The whole event as JSON.
    Event,
    /// The sample in another format.
    Format(Box<dyn FrameWriter + Send>),
    /// The sample as a table of the fields it has, below the name of its monitor.
    Table(Paint),
}

/// Formats events into a reused buffer.
pub struct EventWriter {
    mode: OutputMode,
    frame: Vec<u8>,
    pids: Vec<u32>,
    /// Notes for the next sample.
    notes: Vec<Note>,
    /// Notes already printed to standard error; `None` if the format itself contains notes.
    reported: Option<HashSet<String>>,
    missed: u64,
    exit: Exit,
}

impl EventWriter {
    /// For samples in the format of a plan.
    pub fn sample_forms(plan: &Plan, paint: Paint) -> Self {
        let mode = match plan.form {
            OutputFormat::Json | OutputFormat::Pmix => OutputMode::Sample,
            form => OutputMode::Format(form.writer(plan.layout.clone(), paint)),
        };
        let reported = (plan.form != OutputFormat::Table).then(HashSet::new);
        let pids = plan.selector.filter.pids.iter().map(|pid| pid.0).collect();
        Self { mode, reported, pids, ..Self::events() }
    }

    /// Like `sample_forms`, but JSON formats print the whole event.
    pub fn series(plan: &Plan, paint: Paint) -> Self {
        let mut writer = Self::sample_forms(plan, paint);
        if matches!(plan.form, OutputFormat::Json | OutputFormat::Pmix) {
            writer.mode = OutputMode::Event;
        }
        writer
    }

    /// For whole events as JSON.
    pub fn events() -> Self {
        Self {
            mode: OutputMode::Event,
            frame: Vec::new(),
            pids: Vec::new(),
            notes: Vec::new(),
            reported: Some(HashSet::new()),
            missed: 0,
            exit: Exit::Ok,
        }
    }

    /// For samples as tables of the fields they have.
    pub fn tables(paint: Paint) -> Self {
        Self { mode: OutputMode::Table(paint), reported: None, ..Self::events() }
    }

    /// Formats an event. Empty if the event has nothing for this format.
    pub fn write(&mut self, event: &Event, room: Viewport) -> Result<&[u8], Failure> {
        self.frame.clear();
        self.check_delivery(event);
        let mut of_sample = Vec::new();
        match &mut self.mode {
            OutputMode::Event => {
                write_json(&mut self.frame, event).map_err(Failure::failed)?;
                self.frame.push(b'\n');
            }
            OutputMode::Sample => {
                if let Some(sample) = &event.sample {
                    write_json(&mut self.frame, sample).map_err(Failure::failed)?;
                    self.frame.push(b'\n');
                }
                of_sample = event.notes.iter().map(|it| Note::remark(it.as_str())).collect();
            }
            OutputMode::Format(_) | OutputMode::Table(_) => self.rows(event, room)?,
        }
        self.print_notes(&of_sample);
        Ok(&self.frame)
    }

    /// Decodes the sample and writes it in another format.
    fn rows(&mut self, event: &Event, room: Viewport) -> Result<(), Failure> {
        let json = event.sample.as_ref().map(|it| it.get()).unwrap_or_default();
        if let (OutputMode::Table(_), Some(text)) =
            (&self.mode, pmix_text::text(json, &event.notes, room))
        {
            self.headline(event, "\n");
            self.frame.extend_from_slice(text.as_bytes());
            self.frame.push(b'\n');
            return Ok(());
        }
        let Some(mut rates) = client::rates(event)? else { return Ok(()) };
        rates.sample.relayed = true;
        let notes = rates.sample.notes.clone();
        if self.reported.is_none() {
            rates.sample.notes.append(&mut self.notes);
        }
        let processes = &rates.sample.processes;
        let matched = event.matched.and_then(|it| usize::try_from(it).ok());
        let matched = matched.unwrap_or(processes.len());
        let events = &rates.sample.events;
        let frame = Frame { rates: &rates, processes, matched, events, viewport: room };
        match &mut self.mode {
            OutputMode::Format(format) => format.write(&frame, &mut self.frame),
            OutputMode::Table(paint) => {
                let mut table =
                    OutputFormat::Table.writer(columns::of_sample(&rates.sample), *paint);
                self.headline(event, " ");
                table.write(&frame, &mut self.frame);
                self.frame.push(b'\n');
            }
            OutputMode::Sample | OutputMode::Event => {}
        }
        self.print_notes(&notes);
        Ok(())
    }

    /// Writes the name of the monitor and the sequence number.
    fn headline(&mut self, event: &Event, after: &str) {
        let name = human::escaped_text(&event.id);
        self.frame.extend_from_slice(format!("{name} #{}:{after}", event.seq).as_bytes());
    }

    /// Notes skipped and dropped samples, and sets the exit code for missing parts.
    fn check_delivery(&mut self, event: &Event) {
        for note in client::delivery_notes(event, &mut self.missed) {
            self.note(note.text);
        }
        if event.partial && self.exit == Exit::Ok {
            self.exit = Exit::Partial;
            self.report_absent(event);
        }
    }

    /// Reports named processes that do not exist.
    fn report_absent(&mut self, event: &Event) {
        let sample = event.sample.as_ref().map(|it| it.get()).unwrap_or_default();
        // A PMIx sample has no notes: they are in the event.
        let SampleNotes { notes } = serde_json::from_str(sample).unwrap_or_default();
        let notes = || notes.iter().chain(&event.notes);
        let (mut absent, mut cause) = (Vec::new(), "");
        for pid in &self.pids {
            let named = format!("no process {pid}");
            let rest =
                |note: &'_ &String| matches!(note.strip_prefix(&named), Some(rest) if ends(rest));
            let Some(note) = notes().find(rest) else { continue };
            cause = if cause.is_empty() { &note[named.len()..] } else { cause };
            self.reported.iter_mut().for_each(|reported| _ = reported.insert(without_counts(note)));
            absent.push(pid.to_string());
        }
        if !absent.is_empty() {
            notice(&format!("no process {}{cause}", absent.join(", ")));
            self.exit = Exit::NoTarget;
        }
    }

    /// Adds a note to the next sample, or prints it to standard error.
    pub fn note(&mut self, text: String) {
        self.notes.push(Note::remark(text));
    }

    /// Prints the notes that the format cannot contain, each once.
    fn print_notes(&mut self, of_sample: &[Note]) {
        let Some(reported) = &mut self.reported else { return };
        let own: Vec<_> = self.notes.drain(..).collect();
        for note in
            of_sample.iter().filter(|note| reported.insert(without_counts(&note.text))).chain(&own)
        {
            notice(&note.text);
        }
    }

    /// The exit code for what was delivered so far.
    pub const fn exit(&self) -> Exit {
        self.exit
    }
}

/// The notes of a sample.
#[derive(Default, Deserialize)]
struct SampleNotes {
    #[serde(default)]
    notes: Vec<String>,
}

/// Whether the pid ends here, so that 12 does not match 123.
fn ends(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(": ")
}

/// A note without its numbers, so that notes that differ only in a count are printed once.
pub fn without_counts(text: &str) -> String {
    text.split(' ').filter(|word| word.parse::<u64>().is_err()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::Layout;
    use monitor_model::event::{SampleEvent, SampleEventKind, Signal, SignalOutcome};
    use monitor_model::id::{Identity, Ns, Pid};
    use monitor_model::rates;
    use monitor_model::sample::{Instant, Process, Sample};
    use monitor_model::scope::Scope;
    use monitor_protocol::decode;

    const ROOM: Viewport = Viewport { columns: 80, lines: None };

    fn sample() -> Sample {
        let id = |pid| Identity { pid: Pid(pid), start: Ns(2) };
        let shell = Process { id: id(7), comm: *b"sh\x1b\0............", ..Process::default() };
        let signal = Signal { number: 15, code: -6, thread: Some(Pid(8)) };
        let made = |sender, outcome| SampleEventKind::SignalGenerated { signal, sender, outcome };
        let whats = [
            made(Some(id(7)), SignalOutcome::Queued),
            made(None, SignalOutcome::Stripped),
            made(Some(id(9)), SignalOutcome::AlreadyPending),
            SampleEventKind::SignalDelivered { signal },
        ];
        let event = |(at, what)| SampleEvent { at: Ns(at), target: id(8), kind: what };
        Sample {
            at: Instant { boot: Ns(5_000_000_000), unix: Ns(9_000_000_000) },
            processes: vec![shell],
            events: (4_100_000_000..).step_by(1_000_000).zip(whats).map(event).collect(),
            ..Sample::default()
        }
    }

    fn layout() -> Layout {
        Layout { signals: true, ..Layout::all(Scope::Processes) }
    }

    /// The event lines of a table.
    fn lines(frame: &Frame<'_>) -> Vec<String> {
        let mut table = Vec::new();
        OutputFormat::Table.writer(layout(), Paint::Plain).write(frame, &mut table);
        let table = String::from_utf8(table).expect("text");
        table.lines().filter(|line| line.contains("SIGTERM")).map(str::to_owned).collect()
    }

    #[test]
    fn events_survive_encoding_and_decoding() {
        let there = rates::first(sample());
        let events = &there.sample.events;
        let frame = Frame { rates: &there, processes: &[], matched: 0, events, viewport: ROOM };
        let mut json = Vec::new();
        OutputFormat::Json.writer(layout(), Paint::Plain).write(&frame, &mut json);
        let here = decode::rates(&String::from_utf8(json).expect("text")).expect("an object");
        let events = &here.sample.events;
        assert_eq!(events.len(), 4);
        let read = Frame { rates: &here, processes: &[], matched: 0, events, viewport: ROOM };
        assert_eq!(lines(&read), lines(&frame));
        assert!(lines(&read)[0].ends_with("generated by 7 sh\\u{1b} for 8: queued"));
        for (event, want) in events.iter().zip(&there.sample.events) {
            assert_eq!((&event.kind, event.target), (&want.kind, want.target));
        }
    }
}

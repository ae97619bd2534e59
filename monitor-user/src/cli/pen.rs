//! What the daemon tells, as text: its samples in any form, as if they had been read here.
//!
//! In: events. Out: frames. JSON passes through as it came; the other forms are made here from
//! what it says. What is missing is remembered for the exit code.

use super::exit::{Exit, Failure};
use super::output::say;
use super::plan::Plan;
use super::seen;
use monitor_client::Error;
use monitor_format::{Form, Format, Frame, Paint, Room, containers, human};
use monitor_model::sample::Note;
use monitor_protocol::event::Event;
use serde::Deserialize;
use std::collections::HashSet;

/// What is written of an event.
enum Nib {
    /// Its sample, as it came.
    Sample,
    /// All of it.
    Event,
    /// Its sample, in another form.
    Format(Box<dyn Format + Send>),
    /// Its sample as a table of what it has, below the name of its monitor.
    Table(Paint),
}

/// Writes events.
pub struct Pen {
    nib: Nib,
    frame: Vec<u8>,
    pids: Vec<u32>,
    /// What the next sample shall tell.
    notes: Vec<Note>,
    /// What was told beside the data; nothing, if the form itself has room for notes.
    told: Option<HashSet<String>>,
    missed: u64,
    exit: Exit,
}

impl Pen {
    /// For samples in the form of a plan.
    pub fn samples(plan: &Plan, paint: Paint) -> Self {
        let nib = match plan.form {
            Form::Json | Form::Pmix => Nib::Sample,
            form => Nib::Format(form.writer(plan.layout.clone(), paint)),
        };
        let told = (plan.form != Form::Table).then(HashSet::new);
        let pids = plan.picker.filter.pids.iter().map(|pid| pid.0).collect();
        Self { nib, told, pids, ..Self::events() }
    }

    /// For samples in a form, where JSON is told with all that belongs to the event.
    pub fn series(plan: &Plan, paint: Paint) -> Self {
        let mut it = Self::samples(plan, paint);
        if matches!(plan.form, Form::Json | Form::Pmix) {
            it.nib = Nib::Event;
        }
        it
    }

    /// For events as they come.
    pub fn events() -> Self {
        Self {
            nib: Nib::Event,
            frame: Vec::new(),
            pids: Vec::new(),
            notes: Vec::new(),
            told: Some(HashSet::new()),
            missed: 0,
            exit: Exit::Ok,
        }
    }

    /// For events as tables of what they have.
    pub fn tables(paint: Paint) -> Self {
        Self { nib: Nib::Table(paint), told: None, ..Self::events() }
    }

    /// The text of an event; empty, if it has nothing for this form.
    pub fn write(&mut self, event: &Event, room: Room) -> Result<&[u8], Failure> {
        self.frame.clear();
        self.heed(event);
        let mut of_sample = Vec::new();
        match &mut self.nib {
            Nib::Event => {
                serde_json::to_writer(&mut self.frame, event).map_err(Failure::failed)?;
                self.frame.push(b'\n');
            }
            Nib::Sample => {
                let sample = event.sample.as_ref().map(|it| it.get().as_bytes());
                self.frame.extend_from_slice(sample.unwrap_or_default());
                self.frame.extend(sample.map(|_| b'\n'));
                of_sample = event.notes.iter().map(|it| Note::remark(it.as_str())).collect();
            }
            Nib::Format(_) | Nib::Table(_) => self.rows(event, room)?,
        }
        self.tell(&of_sample);
        Ok(&self.frame)
    }

    /// Its sample, read back and written in another form.
    fn rows(&mut self, event: &Event, room: Room) -> Result<(), Failure> {
        let json = event.sample.as_ref().map(|it| it.get()).unwrap_or_default();
        if let (Nib::Table(_), Some(text)) = (&self.nib, containers::text(json, &event.notes, room))
        {
            self.headline(event, "\n");
            self.frame.extend_from_slice(text.as_bytes());
            self.frame.push(b'\n');
            return Ok(());
        }
        let garbled = |error: serde_json::Error| Error::Garbled { why: error.to_string() };
        let Some(mut rates) = event.rates().map_err(garbled)? else { return Ok(()) };
        rates.sample.relayed = true;
        let notes = rates.sample.notes.clone();
        if self.told.is_none() {
            rates.sample.notes.append(&mut self.notes);
        }
        let processes = &rates.sample.processes;
        let matched = event.matched.and_then(|it| usize::try_from(it).ok());
        let matched = matched.unwrap_or(processes.len());
        let events = &rates.sample.events;
        let frame = Frame { rates: &rates, processes, matched, events, room };
        match &mut self.nib {
            Nib::Format(format) => format.write(&frame, &mut self.frame),
            Nib::Table(paint) => {
                let mut table = Form::Table.writer(seen::layout(&rates.sample), *paint);
                self.headline(event, " ");
                table.write(&frame, &mut self.frame);
                self.frame.push(b'\n');
            }
            Nib::Sample | Nib::Event => {}
        }
        self.tell(&notes);
        Ok(())
    }

    /// The name of its monitor and its place in the series.
    fn headline(&mut self, event: &Event, after: &str) {
        let mut name = String::new();
        human::escaped(&event.id, &mut name);
        self.frame.extend_from_slice(format!("{name} #{}:{after}", event.seq).as_bytes());
    }

    /// Remembers what is missing.
    fn heed(&mut self, event: &Event) {
        let late = event.missed.saturating_sub(self.missed);
        self.missed = event.missed;
        if late > 0 {
            let why = "the one before took longer than the interval";
            self.note(format!("{late} readings left out: {why}"));
        }
        if event.dropped > 0 {
            self.note(format!("{} samples dropped: they were read too slowly", event.dropped));
        }
        if event.partial && self.exit == Exit::Ok {
            self.exit = Exit::Partial;
            self.absent(event);
        }
    }

    /// Processes that were named and are not there.
    fn absent(&mut self, event: &Event) {
        let sample = event.sample.as_ref().map(|it| it.get()).unwrap_or_default();
        // A sample in the form of PMIx has none: its notes are those of the event.
        let Noted { notes } = serde_json::from_str(sample).unwrap_or_default();
        let notes = || notes.iter().chain(&event.notes);
        let (mut absent, mut cause) = (Vec::new(), "");
        for pid in &self.pids {
            let named = format!("no process {pid}");
            let rest =
                |note: &'_ &String| matches!(note.strip_prefix(&named), Some(rest) if ends(rest));
            let Some(note) = notes().find(rest) else { continue };
            cause = if cause.is_empty() { &note[named.len()..] } else { cause };
            self.told.iter_mut().for_each(|told| _ = told.insert(sense(note)));
            absent.push(pid.to_string());
        }
        if !absent.is_empty() {
            say(&format!("no process {}{cause}", absent.join(", ")));
            self.exit = Exit::NoTarget;
        }
    }

    /// Has the next sample tell this, or says it beside the data.
    pub fn note(&mut self, text: String) {
        self.notes.push(Note::remark(text));
    }

    /// Says what the form has no room for.
    fn tell(&mut self, of_sample: &[Note]) {
        let Some(told) = &mut self.told else { return };
        let own: Vec<_> = self.notes.drain(..).collect();
        for note in of_sample.iter().filter(|note| told.insert(sense(&note.text))).chain(&own) {
            say(&note.text);
        }
    }

    /// The code for what was delivered so far.
    pub const fn exit(&self) -> Exit {
        self.exit
    }
}

/// What of a sample says what is missing.
#[derive(Default, Deserialize)]
struct Noted {
    #[serde(default)]
    notes: Vec<String>,
}

/// Whether the name of a process ends here, and not only a number that begins like its own.
fn ends(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(": ")
}

/// A note without its counts: one that only counts differently was told already.
pub fn sense(text: &str) -> String {
    text.split(' ').filter(|word| word.parse::<u64>().is_err()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::Layout;
    use monitor_model::event::{Event, Outcome, Signal, What};
    use monitor_model::id::{Identity, Ns, Pid};
    use monitor_model::rates;
    use monitor_model::sample::{Instant, Process, Sample};
    use monitor_model::scope::Scope;
    use monitor_protocol::decode;

    const ROOM: Room = Room { columns: 80, lines: None };

    fn sample() -> Sample {
        let id = |pid| Identity { pid: Pid(pid), start: Ns(2) };
        let shell = Process { id: id(7), comm: *b"sh\x1b\0............", ..Process::default() };
        let signal = Signal { number: 15, code: -6, thread: Some(Pid(8)) };
        let made = |sender, outcome| What::SignalGenerated { signal, sender, outcome };
        let whats = [
            made(Some(id(7)), Outcome::Queued),
            made(None, Outcome::Stripped),
            made(Some(id(9)), Outcome::AlreadyPending),
            What::SignalDelivered { signal },
        ];
        let event = |(at, what)| Event { at: Ns(at), target: id(8), what };
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

    /// The lines of a table that tell events.
    fn lines(frame: &Frame<'_>) -> Vec<String> {
        let mut table = Vec::new();
        Form::Table.writer(layout(), Paint::Plain).write(frame, &mut table);
        let table = String::from_utf8(table).expect("text");
        table.lines().filter(|line| line.contains("SIGTERM")).map(str::to_owned).collect()
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        let there = rates::first(sample());
        let events = &there.sample.events;
        let frame = Frame { rates: &there, processes: &[], matched: 0, events, room: ROOM };
        let mut json = Vec::new();
        Form::Json.writer(layout(), Paint::Plain).write(&frame, &mut json);
        let here = decode::rates(&String::from_utf8(json).expect("text")).expect("an object");
        let events = &here.sample.events;
        assert_eq!(events.len(), 4);
        let read = Frame { rates: &here, processes: &[], matched: 0, events, room: ROOM };
        assert_eq!(lines(&read), lines(&frame));
        assert!(lines(&read)[0].ends_with("generated by 7 sh\\u{1b} for 8: queued"));
        for (event, want) in events.iter().zip(&there.sample.events) {
            assert_eq!((&event.what, event.target), (&want.what, want.target));
        }
    }
}

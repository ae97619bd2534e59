//! From samples to the file, wherever they come from.

use super::progress::Progress;
use crate::cli::args::Reading;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Reader, say};
use monitor_format::human;
use monitor_model::field::{Category, CpuField, DiskField, Field, NetField, NodeField};
use monitor_model::field::{ProcessField, Role};
use monitor_model::sample::{Note, Sample};
use monitor_recording::{Error, Roll, Room};

/// Writes samples, and says how far it is.
pub struct Feed {
    roll: Roll,
    progress: Progress,
    exit: Exit,
    /// What the next sample shall tell.
    notes: Vec<Note>,
}

impl Feed {
    /// Into these files.
    pub fn new(roll: Roll) -> Self {
        Self { roll, progress: Progress::new(), exit: Exit::Ok, notes: Vec::new() }
    }

    /// Has the next sample tell this.
    pub fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Writes a sample.
    pub fn put(&mut self, mut sample: Sample) -> Result<Reader, Failure> {
        sample.notes.append(&mut self.notes);
        if sample.notes.iter().any(|note| note.partial) {
            self.exit = Exit::Partial;
        }
        let room = self.roll.append(&sample).map_err(|error| self.stopped(error))?;
        let (samples, bytes) = self.roll.written();
        self.progress.tell(samples, bytes, sample.processes.len());
        Ok(if room == Room::Left { Reader::There } else { Reader::Gone })
    }

    fn stopped(&self, error: Error) -> Failure {
        let mut failure = Failure::from(error);
        failure.message += &format!("; the {} samples before are kept", self.roll.written().0);
        self.progress.end();
        failure
    }

    /// Ends the file, and says what it has.
    pub fn finish(&mut self) -> Result<Exit, Failure> {
        let ended = self.roll.finish();
        self.progress.end();
        ended?;
        let (samples, bytes) = self.roll.written();
        let mut size = String::new();
        human::scaled(bytes as f64, 1024.0, &mut size);
        say(&format!("{samples} samples, {size}B"));
        Ok(self.exit)
    }
}

/// What was selected, as it was written.
pub fn selection(words: &Reading) -> String {
    let list = |name: &str, items: Vec<String>| match items.is_empty() {
        true => String::new(),
        false => format!(" --{name} {}", items.join(",")),
    };
    let switch = |name: &str, on: bool| if on { format!(" --{name}") } else { String::new() };
    [
        words.part.name().to_owned(),
        words.device.iter().map(|it| format!(" {it}")).collect(),
        list("pid", words.pid.iter().map(u32::to_string).collect()),
        list("comm", words.comm.clone()),
        list("uid", words.uid.iter().map(u32::to_string).collect()),
        list("cgroup", words.cgroup.clone()),
        list("fields", words.fields.clone()),
        switch("threads", words.threads),
        switch("disk", words.disk),
        switch("net", words.net),
        switch("runqlat", words.runqlat),
        switch("writeback", words.writeback),
        switch("exact-cpu", words.exact_cpu),
        switch("signals", words.signals),
    ]
    .concat()
}

/// The fields to ask a daemon for where none are named: all but rates, which are computed again,
/// and what page tables must be walked for.
pub fn fields(words: &Reading) -> Vec<String> {
    let scope = words.part;
    let of = |asked: bool, category: &str, fields: &[Field]| -> Vec<String> {
        let kept = |it: &&Field| {
            !matches!(it.role, Role::RateOf(_)) && it.name != ProcessField::Pss.field().name
        };
        let fields = fields.iter().filter(kept).filter(|_| asked);
        fields.map(|it| format!("{category}.{}", it.name)).collect()
    };
    [
        of(scope.processes(), "proc", ProcessField::FIELDS),
        of(scope.node(), "node", NodeField::FIELDS),
        of(scope.node(), "cpu", CpuField::FIELDS),
        of(scope.disks(), "disk", DiskField::FIELDS),
        of(scope.nets(), "net", NetField::FIELDS),
    ]
    .concat()
}

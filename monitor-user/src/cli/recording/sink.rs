//! Writes samples to recording files, from any source.
//!
//! In: samples and notes. Out: files, progress, and the exit code. It does not read.

use super::progress::WriteProgress;
use crate::cli::args::ReadingArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{OutputState, notice};
use monitor_format::human;
use monitor_model::field::{Category, CpuField, DiskField, Field, NetField, NodeField};
use monitor_model::field::{ProcessField, Role};
use monitor_model::sample::{Note, Sample};
use monitor_recording::{Error, RotatingWriter, WriteOutcome};

/// Writes samples and shows the progress.
pub struct RecordingSink {
    roll: RotatingWriter,
    progress: WriteProgress,
    exit: Exit,
    /// Notes for the next sample.
    notes: Vec<Note>,
}

impl RecordingSink {
    /// Writes to these files.
    pub fn new(roll: RotatingWriter) -> Self {
        Self { roll, progress: WriteProgress::new(), exit: Exit::Ok, notes: Vec::new() }
    }

    /// Adds a note to the next sample.
    pub fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Writes a sample. `Closed` when a size or time limit is reached.
    pub fn append(&mut self, mut sample: Sample) -> Result<OutputState, Failure> {
        sample.notes.append(&mut self.notes);
        if sample.notes.iter().any(|note| note.partial) {
            self.exit = Exit::Partial;
        }
        let room = self.roll.append(&sample).map_err(|error| self.append_failure(error))?;
        let (samples, bytes) = self.roll.written();
        self.progress.update(samples, bytes, sample.processes.len());
        Ok(if room == WriteOutcome::Appended { OutputState::Open } else { OutputState::Closed })
    }

    fn append_failure(&self, error: Error) -> Failure {
        let mut failure = Failure::from(error);
        failure.message += &format!("; the {} samples before it are kept", self.roll.written().0);
        self.progress.finish();
        failure
    }

    /// Finishes the file and prints its number of samples and size.
    pub fn finish(&mut self) -> Result<Exit, Failure> {
        let ended = self.roll.finish();
        self.progress.finish();
        ended?;
        let (samples, bytes) = self.roll.written();
        let mut size = String::new();
        human::scaled(bytes as f64, 1024.0, &mut size);
        notice(&format!("{samples} samples, {size}B"));
        Ok(self.exit)
    }
}

/// The selection in the syntax of the command line.
pub fn selection(args: &ReadingArgs) -> String {
    let list = |name: &str, items: Vec<String>| match items.is_empty() {
        true => String::new(),
        false => format!(" --{name} {}", items.join(",")),
    };
    let switch = |name: &str, on: bool| if on { format!(" --{name}") } else { String::new() };
    [
        args.part.name().to_owned(),
        args.device.iter().map(|it| format!(" {it}")).collect(),
        list("pid", args.pid.iter().map(u32::to_string).collect()),
        list("comm", args.comm.clone()),
        list("uid", args.uid.iter().map(u32::to_string).collect()),
        list("cgroup", args.cgroup.clone()),
        list("fields", args.fields.clone()),
        switch("threads", args.threads),
        switch("disk", args.disk),
        switch("net", args.net),
        switch("runqlat", args.runqlat),
        switch("writeback", args.writeback),
        switch("exact-cpu", args.exact_cpu),
        switch("signals", args.signals),
    ]
    .concat()
}

/// The fields to request from a daemon if none are named: all but rates, which are recomputed, and
/// PSS, which needs a walk of the page tables.
pub fn default_fields(args: &ReadingArgs) -> Vec<String> {
    let scope = args.part;
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

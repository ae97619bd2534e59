//! What records samples: the files of a recording, its header and its progress.
//!
//! In: the arguments, the name of a node, samples. Out: files, and what was written.

use super::args::RecordArgs;
use crate::cli::args::ReadingArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{OutputState, notice};
use crate::cli::progress::WriteProgress;
use monitor_backends::host;
use monitor_format::human;
use monitor_model::field::{
    Category, CpuField, DiskField, Field, NetField, NodeField, ProcessField, Role,
};
use monitor_model::id::Ns;
use monitor_model::sample::{Note, Sample};
use monitor_recording::{Existing, Header, RotateOptions, RotatingWriter, WriteOutcome};
use std::path::Path;
use std::time::Duration;

/// Creates the file, once node and backend are known.
///
/// # Errors
/// The file exists, or cannot be created.
pub fn open_sink(
    (args, path): (&RecordArgs, &Path),
    node: &str,
    backend: &str,
) -> Result<RecordingSink, Failure> {
    let header = Header {
        node: node.to_owned(),
        selection: selection(&args.reading),
        ..header(backend, args.every)
    };
    let options = RotateOptions {
        path: path.to_owned(),
        existing: existing(args.force),
        max_bytes: args.max_size,
        max_time: args.max_time.map(Ns::from),
        kept: args.rotate,
    };
    Ok(RecordingSink::new(RotatingWriter::create(options, header)?))
}

/// The header of a recording that starts on this node now.
pub fn header(backend: &str, every: Duration) -> Header {
    Header {
        node: host::name().to_string(),
        backend: backend.to_owned(),
        boot_id: host::boot_id(),
        started_unix_ns: monitor_sys::clock::now().unix.0,
        every_ns: Ns::from(every).0,
        processors: std::thread::available_parallelism()
            .map_or(0, |it| u32::try_from(it.get()).unwrap_or(0)),
        ..Header::default()
    }
}

/// What to do with an existing file.
pub const fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}

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
    ///
    /// # Errors
    /// The file cannot be written.
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

    fn append_failure(&self, error: monitor_recording::Error) -> Failure {
        let mut failure = Failure::from(error);
        failure.message += &match self.roll.written().0 {
            0 => "; nothing was recorded, and no file is left".to_owned(),
            1 => "; the sample before it is kept".to_owned(),
            kept => format!("; the {kept} samples before it are kept"),
        };
        self.progress.finish();
        failure
    }

    /// Finishes the file and prints its number of samples and size.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> Result<Exit, Failure> {
        let text = self.finish_quietly()?;
        notice(&text);
        Ok(self.exit)
    }

    /// Finishes the file; its number of samples and size.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish_quietly(&mut self) -> Result<String, Failure> {
        let ended = self.roll.finish();
        self.progress.finish();
        ended.map_err(|error| self.append_failure(error))?;
        let (samples, bytes) = self.roll.written();
        let size = human::scaled_text(bytes as f64, 1024.0);
        Ok(format!("{samples} samples, {size}B"))
    }

    /// Whether something that was wanted is missing.
    pub fn is_partial(&self) -> bool {
        self.exit == Exit::Partial
    }
}

/// The selection in the syntax of the command line.
fn selection(args: &ReadingArgs) -> String {
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

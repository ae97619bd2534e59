//! Records samples of a local backend.

use super::args::RecordArgs;
use super::record::{open_sink, sample_count};
use super::sink::RecordingSink;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{OutputState, notice};
use crate::cli::pid_targets::PidTargets;
use crate::cli::plan::Plan;
use crate::cli::run_loop::{LoopEnd, PeriodicTask, skipped_note};
use monitor_backend::Backend;
use monitor_backends::select;
use monitor_model::field::ProcessField;
use monitor_model::id::Ns;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::Note;
use monitor_sampling::job::JobTable;
use monitor_sampling::schedule::Schedule;
use monitor_sampling::select_rows::RowSelector;
use std::os::fd::OwnedFd;

/// A backend and the sink that records its samples.
pub struct LocalSource {
    backend: Box<dyn Backend>,
    read_spec: ReadSpec,
    targets: Option<PidTargets>,
    selector: RowSelector,
    jobs: JobTable,
    schedule: Schedule,
    sink: RecordingSink,
}

impl LocalSource {
    /// Opens the backend, then creates the file.
    pub fn open(args: &RecordArgs, mut plan: Plan) -> Result<Self, Failure> {
        let choice = args.reader.backend;
        let (mut backend, opening) = select::open(choice, &plan.capabilities, 0)?;
        let targets = PidTargets::resolve(&mut *backend, &mut plan)?;
        if args.reading.fields.is_empty() && plan.read_spec.processes {
            // These names cannot be looked up later.
            plan.read_spec.costly.extend([ProcessField::User, ProcessField::Job]);
        }
        let mut sink = open_sink(args, &host_name(), backend.kind().name())?;
        opening.iter().for_each(|note| notice(&note.text));
        opening.into_iter().for_each(|note| sink.note(note));
        let schedule = Schedule::new(Ns(0), Ns::from(args.every), sample_count(args));
        Ok(Self {
            backend,
            read_spec: plan.read_spec,
            targets: Some(targets),
            selector: plan.selector,
            jobs: JobTable::default(),
            schedule,
            sink,
        })
    }
}

fn host_name() -> String {
    monitor_backends::host::name().to_string()
}

impl PeriodicTask for LocalSource {
    fn next_due(&self) -> Option<Ns> {
        self.schedule.due()
    }

    fn tick(&mut self) -> Result<OutputState, Failure> {
        let mut sample = self.backend.read(&self.read_spec)?;
        if let Some(targets) = self.targets.take()
            && let Some(message) = targets.absent(&sample)?
        {
            notice(&message);
            sample.notes.push(Note::missing(message));
        }
        self.backend.describe(&mut sample.processes, &self.read_spec);
        if self.read_spec.wants(ProcessField::Job) {
            self.jobs.learn(&mut sample);
        }
        sample.events = self.selector.events(&sample).into_owned();
        let filter = &self.selector.filter;
        sample.processes.retain(|process| filter.admits(process));
        self.sink.append(sample)
    }

    fn ticked(&mut self, now: Ns) {
        if let Some(note) = skipped_note(self.schedule.taken(now)) {
            self.sink.note(note);
        }
    }

    fn wake(&self) -> Option<std::io::Result<OwnedFd>> {
        self.backend.wake_fd().map(|fd| fd.try_clone_to_owned())
    }

    fn drain(&mut self) {
        self.backend.drain();
    }

    /// Finishes the file, for every kind of end.
    fn finish(&mut self, _: LoopEnd) -> Result<Exit, Failure> {
        self.sink.finish()
    }
}

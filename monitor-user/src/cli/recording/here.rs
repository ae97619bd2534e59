//! Samples that are read here and recorded.

use super::feed::Feed;
use super::record::{count, feed};
use super::words::Record;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Reader, say};
use crate::cli::pace::{Ended, Work, left_out};
use crate::cli::plan::Plan;
use crate::cli::target::Targets;
use monitor_backend::Backend;
use monitor_backends::select;
use monitor_model::field::ProcessField;
use monitor_model::id::Ns;
use monitor_model::sample::Note;
use monitor_model::want::Want;
use monitor_sampling::job::Jobs;
use monitor_sampling::pick::Picker;
use monitor_sampling::schedule::Schedule;
use std::os::fd::OwnedFd;

/// Who reads, and what becomes of it.
pub struct Here {
    backend: Box<dyn Backend>,
    want: Want,
    targets: Option<Targets>,
    picker: Picker,
    jobs: Jobs,
    schedule: Schedule,
    feed: Feed,
}

impl Here {
    /// Opens the backend, then the file.
    pub fn open(words: &Record, mut plan: Plan) -> Result<Self, Failure> {
        let choice = words.reader.backend;
        let (mut backend, opening) = select::open(choice, &plan.capabilities, 0)?;
        let targets = Targets::resolve(&mut *backend, &mut plan)?;
        if words.reading.fields.is_empty() && plan.want.processes {
            // Nobody is there to be asked later.
            plan.want.costly.extend([ProcessField::User, ProcessField::Job]);
        }
        let mut feed = feed(words, &host_name(), backend.source().name())?;
        opening.iter().for_each(|note| say(&note.text));
        opening.into_iter().for_each(|note| feed.note(note));
        let schedule = Schedule::new(Ns(0), Ns::from(words.every), count(words));
        let (want, picker) = (plan.want, plan.picker);
        let targets = Some(targets);
        Ok(Self { backend, want, targets, picker, jobs: Jobs::default(), schedule, feed })
    }
}

fn host_name() -> String {
    monitor_backends::host::name().to_string()
}

impl Work for Here {
    fn due(&self) -> Option<Ns> {
        self.schedule.due()
    }

    fn turn(&mut self) -> Result<Reader, Failure> {
        let mut sample = self.backend.read(&self.want)?;
        if let Some(targets) = self.targets.take()
            && let Some(message) = targets.absent(&sample)?
        {
            say(&message);
            sample.notes.push(Note::missing(message));
        }
        self.backend.describe(&mut sample.processes, &self.want);
        if self.want.wants(ProcessField::Job) {
            self.jobs.learn(&mut sample);
        }
        sample.events = self.picker.events(&sample).into_owned();
        let filter = &self.picker.filter;
        sample.processes.retain(|process| filter.admits(process));
        self.feed.put(sample)
    }

    fn taken(&mut self, now: Ns) {
        if let Some(note) = left_out(self.schedule.taken(now)) {
            self.feed.note(note);
        }
    }

    fn wake(&self) -> Option<std::io::Result<OwnedFd>> {
        self.backend.wake().map(|fd| fd.try_clone_to_owned())
    }

    fn drain(&mut self) {
        self.backend.drain();
    }

    /// However it ended, the file is to be whole.
    fn finish(&mut self, _: Ended) -> Result<Exit, Failure> {
        self.feed.finish()
    }
}

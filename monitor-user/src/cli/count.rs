//! Who counts what a command uses: the daemon, if one answers, else we.
//!
//! In: the command's process id. Out: totals in the same form from either.

use super::args::Reader;
use super::client::found;
use super::exit::Failure;
use super::output::say;
use super::recording::Course;
use super::report::{Counted, WAIT};
use monitor_backend::Backend;
use monitor_backends::select;
use monitor_client::{Client, Error};
use monitor_model::id::Pid;
use monitor_model::sample::{Note, Sample, Source};
use monitor_model::want::Want;
use monitor_protocol::answer::Totals;
use monitor_recording::Existing;
use monitor_sampling::account::CAPABILITIES;
use monitor_sampling::family::Family;
use monitor_sampling::totals::totals;
use monitor_sys::readable;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long after the end of the command the final records of its descendants are waited for.
const SETTLE: Duration = Duration::from_secs(2);
/// How often, meanwhile, somebody looks.
const SETTLE_EVERY: Duration = Duration::from_millis(5);

/// Who counts.
pub enum Count {
    /// The daemon, from before the command starts.
    Daemon(Client),
    /// We.
    Here(Box<Here>),
}

/// What is needed for counting here.
pub struct Here {
    backend: Box<dyn Backend>,
    notes: Vec<Note>,
    family: Family,
    course: Option<Course>,
}

impl Count {
    /// Has everything attached.
    pub async fn open(reader: &Reader) -> Result<Self, Failure> {
        if let Some(client) = found(reader).await? {
            match client.account().await {
                Ok(_) => return Ok(Self::Daemon(client)),
                Err(Error::Refused(refusal)) => {
                    say(&format!("the daemon does not count: {refusal}; counting without it"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self::Here(Box::new(Here::open(reader)?)))
    }

    /// The same, with every look recorded. The daemon counts a family and does not tell of its
    /// members, so it is not asked.
    pub fn recorded(reader: &Reader, file: (&Path, Existing, Duration)) -> Result<Self, Failure> {
        let mut here = Here::open(reader)?;
        here.course = Some(Course::create(file, here.backend.source())?);
        Ok(Self::Here(Box::new(here)))
    }

    /// Who counts, as the report tells it.
    pub const fn by(&self) -> Counted {
        match self {
            Self::Daemon(_) => Counted::ByDaemon,
            Self::Here(_) => Counted::Here,
        }
    }

    /// The command has started.
    pub fn begin(&mut self, child: Pid) -> Result<(), Failure> {
        if let Self::Here(here) = self {
            // It is there until it is waited for, so who is not found has the host's id already.
            let on_host = here.backend.host_pids(&[child])?.first().copied().flatten();
            here.family = Family::of(on_host.unwrap_or(child));
        }
        Ok(())
    }

    /// Looks at a long command; what is short is told by the kernel.
    pub fn look(&mut self) -> Result<(), Failure> {
        match self {
            // It looks by itself.
            Self::Daemon(_) => Ok(()),
            Self::Here(here) => here.look().map(drop),
        }
    }

    /// Waits until records should be fetched; for ever, if there are none.
    pub async fn woken(&self) {
        let wake = match self {
            Self::Daemon(_) => None,
            Self::Here(here) => here.backend.wake(),
        };
        match wake.and_then(|fd| readable::readable(fd.try_clone_to_owned().ok()?).ok()) {
            Some(fd) => drop(fd.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Fetches the records that wait.
    pub fn drain(&mut self) {
        if let Self::Here(here) = self {
            here.backend.drain();
        }
    }

    /// What the command and its descendants used, once it was waited for.
    pub async fn totals(self, child: Pid) -> Result<Totals, Failure> {
        match self {
            Self::Here(here) => here.settle(),
            Self::Daemon(client) => Ok(client.sum(child.0).await.unwrap_or_else(|error| {
                // The command has ended: what its parent knows of it is told all the same.
                let note = format!("{error}: only CPU and memory are known, as wait(2) tells them");
                Totals { backend: WAIT.into(), notes: vec![note], ..Totals::default() }
            })),
        }
    }
}

impl Here {
    fn open(reader: &Reader) -> Result<Self, Failure> {
        let (backend, notes) = select::open(reader.backend, &CAPABILITIES, 0)?;
        Ok(Self { backend, notes, family: Family::of(Pid(0)), course: None })
    }

    fn look(&mut self) -> Result<Sample, Failure> {
        let sample = self.backend.read(&Want { processes: true, ..Want::default() })?;
        self.family.learn(&sample.processes, &sample.dying);
        if let Some(course) = &mut self.course {
            course.put(&sample, &self.family, &mut *self.backend);
        }
        Ok(sample)
    }

    /// Waits for the final records of what has ended. What goes on is counted as it is now.
    fn settle(mut self) -> Result<Totals, Failure> {
        let deadline = Instant::now() + SETTLE;
        let sample = loop {
            let sample = self.look()?;
            // Only the kernel's own records come late; a sample of /proc is all there will be.
            let sampled = self.backend.source() != Source::Ebpf;
            let settled = sampled || self.family.root_ended() && self.family.awaited() == 0;
            if settled || Instant::now() >= deadline {
                break sample;
            }
            std::thread::sleep(SETTLE_EVERY);
        };
        if let Some(course) = self.course.take() {
            course.finish();
        }
        let source = self.backend.source();
        // What /proc cannot give is of every process, and says nothing of this command.
        let told = sample.notes.into_iter().filter(|_| source == Source::Ebpf);
        let notes = self.notes.into_iter().chain(told).map(|note| note.text);
        Ok(totals(&self.family, source, notes.collect()))
    }
}

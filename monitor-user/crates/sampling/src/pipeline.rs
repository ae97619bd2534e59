//! The stages from a backend to a frame, for every consumer of samples.
//!
//! ```text
//!  backend -> SampleReader: read, describe, jobs -> sample
//!  sample -> FrameBuilder: group, rate, select, describe, format -> frame
//! ```
//!
//! A consumer that shares its readings gets the sample from `shared_read` instead. Has no clock and
//! no thread.

use super::approximate_notes::approximate_notes;
use super::group::{self, Groups};
use super::select_rows::{RowSelector, events_of};
use super::session::{KeptReading, Session};
use super::{filter::Filter, job::JobTable, order::Order};
use monitor_backend::{Backend, Error};
use monitor_format::{Frame, FrameWriter, Viewport};
use monitor_model::{Grouped, Identity, Process, ProcessField, Rates, ReadSpec, Sample};
use std::collections::HashSet;
use std::{io, os::fd::OwnedFd, sync::Arc};

/// Reads the samples of one consumer.
pub struct SampleReader<B: Backend + ?Sized = dyn Backend> {
    /// The backend.
    pub backend: Box<B>,
    /// What is read.
    pub spec: ReadSpec,
    /// Whether the texts of all processes are read, not only those of the rows shown.
    pub describes_all: bool,
    jobs: JobTable,
}

impl<B: Backend + ?Sized> SampleReader<B> {
    /// A reader of an opened backend.
    pub fn new(backend: Box<B>, spec: ReadSpec, describes_all: bool) -> Self {
        Self { backend, spec, describes_all, jobs: JobTable::default() }
    }

    /// Reads a sample, with jobs if they are requested.
    ///
    /// # Errors
    /// If the backend cannot read, or a recording has ended.
    pub fn read(&mut self) -> Result<Sample, Error> {
        let mut sample = self.backend.read(&self.spec)?;
        let jobs = self.spec.wants(ProcessField::Job);
        if self.describes_all || jobs {
            self.backend.describe(&mut sample.processes, &self.spec);
        }
        if jobs {
            self.jobs.learn(&mut sample);
        }
        Ok(sample)
    }

    /// A duplicated descriptor that becomes readable when records are queued.
    ///
    /// # Errors
    /// If it cannot be duplicated.
    pub fn wake(&self) -> io::Result<Option<OwnedFd>> {
        self.backend.wake_fd().map(|fd| fd.try_clone_to_owned()).transpose()
    }
}

/// Makes frames of samples. Keeps the last sample, for rates.
pub struct FrameBuilder {
    session: Session,
    groups: Option<Groups>,
    selector: RowSelector,
    /// The requested order and number of rows; a frame may have to use others.
    requested: (Option<Order>, Option<usize>),
    /// The names of the groups of the last sample that match.
    admitted: HashSet<Arc<str>>,
    /// Whether events are shown, which need the processes of groups.
    shows_events: bool,
    /// Processes whose row in the next sample is that of the last reading.
    last_read: Vec<Identity>,
    format: Box<dyn FrameWriter + Send>,
}

impl FrameBuilder {
    /// A builder of frames of these rows, or of their groups.
    pub fn new(
        selector: RowSelector,
        groups: Option<Groups>,
        shows_events: bool,
        format: Box<dyn FrameWriter + Send>,
    ) -> Self {
        let (session, requested) = (Session::default(), (selector.order, selector.top));
        Self {
            session,
            groups,
            selector,
            requested,
            admitted: HashSet::new(),
            shows_events,
            last_read: Vec::new(),
            format,
        }
    }

    /// Whether the texts of all processes are needed, for the filter or the groups.
    pub fn needs_all_texts(&self) -> bool {
        self.groups.is_some() || self.selector.needs_texts()
    }

    /// Which processes it shows.
    pub const fn filter(&self) -> &Filter {
        &self.selector.filter
    }

    /// Sets which processes have the row of the last reading in the next sample, because they had
    /// ended before this one.
    pub fn set_last_read(&mut self, ids: &[Identity]) {
        self.last_read.clear();
        self.last_read.extend_from_slice(ids);
    }

    /// Adds up the groups of a sample. Returns them and how many matched; their processes are
    /// dropped.
    pub fn group(&mut self, sample: &mut Sample, room: Viewport) -> Option<(Grouped, usize)> {
        let order = self.order();
        let mut grouped = self.groups.as_mut()?.learn(sample, &self.selector.filter);
        if let Some(condition) = &self.selector.condition {
            grouped.groups.retain(|group| condition.admits(group));
            grouped.finished.retain(|group| condition.admits(group));
        }
        self.admitted.clear();
        self.admitted.extend(grouped.groups.iter().map(|group| Arc::clone(&group.name)));
        let matched = grouped.groups.len();
        let notes =
            approximate_notes(sample, &self.last_read, |it| self.selector.filter.admits(it));
        sample.notes.extend(notes);
        group::arrange(&mut grouped.groups, order, self.requested.1.or(room.lines));
        // Rates are of the groups.
        sample.all_visible = false;
        if !self.shows_events {
            sample.processes.clear();
        }
        Some((grouped, matched))
    }

    /// Computes the rates since the previous sample.
    pub fn rate(&mut self, sample: Sample, grouped: Option<Grouped>) -> &Rates {
        self.selector.order = self.order();
        let ungrouped = grouped.is_none();
        let rates = self.session.advance_grouped(sample, grouped);
        if ungrouped {
            add_notes(rates, &self.selector, &self.last_read);
        }
        rates
    }

    /// The same, since a reading that was kept.
    pub fn rate_since(
        &mut self,
        before: Option<&KeptReading>,
        sampled: (Sample, Option<Grouped>),
    ) -> &Rates {
        // Without rates there is none to sort by.
        self.selector.order = match before {
            Some(_) => self.order(),
            None => self.requested.0.map(Order::without_rates),
        };
        let ungrouped = sampled.1.is_none();
        let rates = self.session.advance_since(before, sampled);
        if ungrouped {
            add_notes(rates, &self.selector, &self.last_read);
        }
        rates
    }

    /// Frees the last sample and its rows.
    pub fn free_sample(&mut self) {
        self.session.free_sample();
        self.selector.free_rows();
    }

    /// Selects and describes the rows of the last sample, and appends the frame. Returns how many
    /// processes or groups matched.
    pub fn write(
        &mut self,
        (backend, spec): (&mut dyn Backend, &ReadSpec),
        (groups_matched, room): (Option<usize>, Viewport),
        out: &mut Vec<u8>,
    ) -> usize {
        let Some(rates) = self.session.last() else { return 0 };
        let matched = groups_matched.unwrap_or_else(|| {
            self.selector.top = self.requested.1.or(room.lines);
            let matched = self.selector.select(&rates.sample.processes);
            backend.describe(self.selector.rows_mut(), spec);
            matched
        });
        let events = &match &self.groups {
            Some(groups) if self.selector.condition.is_some() => {
                // A condition is on groups, not on each of their processes.
                let is_shown = |name: &Arc<str>| self.admitted.contains(name);
                let admits = |it: &Process| groups.group_of(it.id).is_some_and(is_shown);
                events_of(&rates.sample, admits).into()
            }
            Some(_) | None => self.selector.events(&rates.sample),
        };
        let processes = self.selector.rows();
        self.format.write(&Frame { rates, processes, matched, events, viewport: room }, out);
        matched
    }

    /// Appends the text after the last frame.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.format.finish(out);
    }

    /// The last sample, with its rates.
    pub const fn rates(&self) -> Option<&Rates> {
        self.session.last()
    }

    /// The requested order; the first sample has no rates to sort by.
    fn order(&self) -> Option<Order> {
        let rated = self.session.has_begun();
        self.requested.0.map(|order| if rated { order } else { order.without_rates() })
    }
}

/// Adds the notes on the ends of the processes that match.
fn add_notes(rates: &mut Rates, selector: &RowSelector, last_read: &[Identity]) {
    let notes = approximate_notes(&rates.sample, last_read, |it| selector.admits(it));
    rates.sample.notes.extend(notes);
}

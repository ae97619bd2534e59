//! One reading of a backend for the screen: rates, groups, jobs, ended processes, usage.
//!
//! In: queries and samples. Out: updates. Uses only the times of the samples; `local_source`
//! decides when to read.

use super::feed_source::{ProcessCost, ProcessDetails, Update};
use super::view_query::ViewQuery;
use monitor_backend::Opened;
use monitor_backend::{Backend, Error};
use monitor_model::{
    BackendKind, Category, GroupBy, Note, Ns, Process, ProcessField, ProcessTexts, ReadSpec, Role,
    Sample, rates,
};
use monitor_protocol::doctor::CapabilityReport;
use monitor_recording::{Recording, Replay};
use monitor_sampling::approximate_notes::approximate_notes;
use monitor_sampling::group::{GroupLimits, Groups};
use monitor_sampling::{doctor_report::capability_report, pipeline::SampleReader, plan::Plan};
use monitor_sys::clock;
use std::{os::fd::OwnedFd, sync::Arc};

/// Longest age of the state of the probes, which is read from a file of each program.
const HEALTH_MAX_AGE: Ns = Ns(10_000_000_000);
/// Fields that are described for the details of one process.
const FOCUS_FIELDS: [ProcessField; 4] =
    [ProcessField::Cmdline, ProcessField::Cgroup, ProcessField::User, ProcessField::Path];

/// A backend, and the state between two readings.
pub struct ViewReader<B: Backend + ?Sized> {
    reader: SampleReader<B>,
    /// Whether it reads live processes, of which details can be read.
    is_live: bool,
    /// Notes on the selection of the backend.
    startup_notes: Vec<Note>,
    query: ViewQuery,
    groups: Option<(GroupBy, Groups)>,
    last: Arc<Update>,
    has_previous: bool,
    health: Option<(Ns, Arc<[CapabilityReport]>)>,
    own_cost: ProcessCost,
}

impl ViewReader<dyn Backend> {
    /// A reader of an opened backend.
    pub fn live((backend, startup_notes): Opened, query: &ViewQuery) -> Self {
        Self::new(backend, startup_notes, (true, query))
    }
}

impl ViewReader<Replay> {
    /// A reader of a recording.
    pub fn replay(replay: Replay, query: &ViewQuery) -> Self {
        Self::new(Box::new(replay), Vec::new(), (false, query))
    }

    /// The recording, to seek in it. The next sample has no rates.
    pub fn seek(&mut self) -> &mut Recording {
        self.has_previous = false;
        self.reader.backend.recording_mut()
    }
}

impl<B: Backend + ?Sized> ViewReader<B> {
    fn new(
        backend: Box<B>,
        startup_notes: Vec<Note>,
        (is_live, query): (bool, &ViewQuery),
    ) -> Self {
        let mut it = Self {
            reader: SampleReader::new(backend, ReadSpec::default(), true),
            is_live,
            startup_notes,
            groups: None,
            last: Arc::default(),
            has_previous: false,
            health: None,
            own_cost: ProcessCost::default(),
            query: query.clone(),
        };
        it.set_query(query);
        it
    }

    /// Sets the query. Attaches the capabilities that it needs, and detaches others.
    pub fn set_query(&mut self, query: &ViewQuery) {
        let mut request = query.request();
        // All processes are read in one pass, and the screen selects rows from that.
        request.top = None;
        request.threads = query.threads();
        if request.threads {
            request.group_by = None;
        }
        let Ok(plan) = Plan::from_request(&request) else { return };
        self.reader.spec = plan.read_spec;
        self.reader.backend.attach(&plan.capabilities);
        self.health = None;
        if self.groups.as_ref().map(|(by, _)| *by) != query.group_by {
            self.groups = query.group_by.map(|by| (by, Groups::new(by, GroupLimits::default())));
        }
        self.query = query.clone();
    }

    /// Reads a sample, and makes an update.
    ///
    /// # Errors
    ///
    /// When the backend cannot read.
    pub fn read(&mut self) -> Result<Arc<Update>, Error> {
        let sample = self.sample()?;
        let groups = self.groups.as_mut().map(|(_, it)| it.learn(&sample, &Default::default()));
        let focus = self.focus(&sample);
        let rates = match self.has_previous {
            true => rates::rates(&self.last.rates.sample, sample),
            false => rates::first(sample),
        };
        let focus = focus.and_then(|text| {
            let (id, _) = self.query.focus?;
            let at = rates.sample.processes.binary_search_by_key(&id, |it| it.id).ok()?;
            Some(Process { text, ..rates.sample.processes[at].clone() })
        });
        let update = Update {
            focus,
            matched: None,
            details: match self.is_live {
                true => ProcessDetails::read(self.query.focus),
                false => ProcessDetails::recorded(),
            },
            cost: vec![self.own_cost.measure()],
            probes: self.health(clock::boot()),
            playback: None,
            is_elsewhere: false,
            rates: rates::Rates { groups, ..rates },
        };
        self.has_previous = true;
        self.last = Arc::new(update);
        Ok(Arc::clone(&self.last))
    }

    /// A sample with texts and jobs.
    fn sample(&mut self) -> Result<Sample, Error> {
        let mut sample = self.reader.read()?;
        sample.notes.splice(..0, self.startup_notes.iter().cloned());
        // procfs does not report exits: a process that is missing has ended.
        if self.has_previous && sample.backend == BackendKind::Procfs {
            add_gone(&self.last.rates.sample.processes, &mut sample.processes);
        }
        let notes = approximate_notes(&sample, &[], |_| true);
        sample.notes.extend(notes);
        Ok(sample)
    }

    /// The texts of the process whose details are shown.
    fn focus(&mut self, sample: &Sample) -> Option<ProcessTexts> {
        let (id, _) = self.query.focus?;
        let at = sample.processes.binary_search_by_key(&id, |it| it.id).ok()?;
        let mut one = [sample.processes[at].clone()];
        let costly =
            FOCUS_FIELDS.into_iter().chain(self.reader.spec.costly.iter().copied()).collect();
        self.reader.backend.describe(&mut one, &ReadSpec { costly, ..ReadSpec::default() });
        let [one] = one;
        let job = sample.processes[at].text.job.clone();
        Some(ProcessTexts { job, ..one.text })
    }

    fn health(&mut self, at: Ns) -> Arc<[CapabilityReport]> {
        match &self.health {
            Some((then, probes)) if at.since(*then) < HEALTH_MAX_AGE => Arc::clone(probes),
            _ => {
                let probes: Arc<[CapabilityReport]> =
                    self.reader.backend.probes().iter().map(capability_report).collect();
                self.health = Some((at, Arc::clone(&probes)));
                probes
            }
        }
    }

    /// A descriptor that is readable when records are waiting.
    ///
    /// # Errors
    ///
    /// When it cannot be duplicated.
    pub fn wake(&self) -> std::io::Result<Option<OwnedFd>> {
        self.reader.wake()
    }

    /// Reads the waiting records.
    pub fn drain(&mut self) {
        self.reader.backend.drain();
    }
}

/// Adds the processes that are missing since the last sample, with their last values and without
/// rates. Both lists are sorted by identity.
fn add_gone(before: &[Process], now: &mut Vec<Process>) {
    let mut gone = Vec::new();
    let mut living = now.iter().peekable();
    for old in before.iter().filter(|old| !old.ended()) {
        while living.next_if(|it| it.id < old.id).is_some() {}
        if living.peek().is_none_or(|it| it.id != old.id) {
            gone.push(ended(old));
        }
    }
    if !gone.is_empty() {
        now.extend(gone);
        now.sort_unstable_by_key(|it| it.id);
    }
}

fn ended(old: &Process) -> Process {
    let mut it = old.clone();
    it.threads.clear();
    it.row.set(ProcessField::Ended, 1);
    it.row.set(ProcessField::State, u64::from(b'X'));
    for field in ProcessField::all().filter(|it| matches!(it.field().role, Role::RateOf(_))) {
        it.row.clear(field);
    }
    it
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Identity, Pid};

    fn process(pid: u32) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(1) };
        Process { id, ..Process::default() }
    }

    #[test]
    fn a_missing_process_is_shown_once_as_ended() {
        let before = [process(1), process(2), ended(&process(3))];
        let mut now = vec![process(1), process(4)];
        add_gone(&before, &mut now);
        let seen: Vec<_> = now.iter().map(|it| (it.id.pid.0, it.ended())).collect();
        assert_eq!(seen, [(1, false), (2, true), (4, false)]);
        let mut next = vec![process(1), process(4)];
        add_gone(&now, &mut next);
        assert_eq!(next.len(), 2);
    }
}

//! One reading of a backend for the screen: rates, groups, jobs, who went, what it cost.
//!
//! In: what is wanted, and readings. Out: news. Knows no time but that of the samples; when to
//! read is decided by `local`.

use super::demand::Demand;
use super::feed::{Inside, News};
use super::own::Own;
use monitor_backend::{Backend, Error};
use monitor_backends::select::Opened;
use monitor_model::field::{Category, ProcessField, Role};
use monitor_model::group::By;
use monitor_model::id::Ns;
use monitor_model::rates;
use monitor_model::sample::{Note, Process, Sample, Source, Text};
use monitor_model::want::Want;
use monitor_recording::{Recording, Replay};
use monitor_sampling::examination::Entry;
use monitor_sampling::group::{Groups, Limits};
use monitor_sampling::job::Jobs;
use monitor_sampling::plan::Plan;
use monitor_sys::clock;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How old the health of the probes may be: it is read from files of each program.
const HEALTH_WITHIN: Ns = Ns(10_000_000_000);
/// What is looked up for the details of one process.
const OF_FOCUS: [ProcessField; 4] =
    [ProcessField::Cmdline, ProcessField::Cgroup, ProcessField::User, ProcessField::Path];

/// A backend, and what must be remembered between two readings.
pub struct Reader<B: Backend + ?Sized> {
    backend: Box<B>,
    /// Whether what it reads happens now: then more can be looked up.
    is_live: bool,
    /// Why it is not a better one.
    opening: Vec<Note>,
    demand: Demand,
    want: Want,
    jobs: Jobs,
    groups: Option<(By, Groups)>,
    last: Arc<News>,
    begun: bool,
    health: Option<(Ns, Arc<[Entry]>)>,
    own: Own,
}

impl Reader<dyn Backend> {
    /// Of a backend that was opened for this.
    pub fn live((backend, opening): Opened, demand: &Demand) -> Self {
        Self::new(backend, opening, (true, demand))
    }
}

impl Reader<Replay> {
    /// Of a recording.
    pub fn played(replay: Replay, demand: &Demand) -> Self {
        Self::new(Box::new(replay), Vec::new(), (false, demand))
    }

    /// The recording, to seek in it: what comes next has nothing before it.
    pub fn seek(&mut self) -> &mut Recording {
        self.begun = false;
        self.backend.recording_mut()
    }
}

impl<B: Backend + ?Sized> Reader<B> {
    fn new(backend: Box<B>, opening: Vec<Note>, (is_live, demand): (bool, &Demand)) -> Self {
        let mut it = Self {
            backend,
            is_live,
            opening,
            want: Want::default(),
            jobs: Jobs::default(),
            groups: None,
            last: Arc::default(),
            begun: false,
            health: None,
            own: Own::default(),
            demand: demand.clone(),
        };
        it.demand(demand);
        it
    }

    /// What is wanted from now on. Attaches what that needs, and lets go of what it does not.
    pub fn demand(&mut self, demand: &Demand) {
        let mut request = demand.request();
        // Here everybody is read in one pass, and what is shown is chosen from that.
        request.top = None;
        request.threads = demand.threads();
        if request.threads {
            request.group_by = None;
        }
        let Ok(plan) = Plan::of(&request) else { return };
        self.want = plan.want;
        self.backend.attach(&plan.capabilities);
        self.health = None;
        if self.groups.as_ref().map(|(by, _)| *by) != demand.by {
            self.groups = demand.by.map(|by| (by, Groups::new(by, Limits::default())));
        }
        self.demand = demand.clone();
    }

    /// Reads once.
    pub fn read(&mut self) -> Result<Arc<News>, Error> {
        let sample = self.sample()?;
        let groups = self.groups.as_mut().map(|(_, it)| it.learn(&sample, &Default::default()));
        let focus = self.focus(&sample);
        let rates = match self.begun {
            true => rates::rates(&self.last.rates.sample, sample),
            false => rates::first(sample),
        };
        let focus = focus.and_then(|text| {
            let (id, _) = self.demand.focus?;
            let at = rates.sample.processes.binary_search_by_key(&id, |it| it.id).ok()?;
            Some(Process { text, ..rates.sample.processes[at].clone() })
        });
        let news = News {
            focus,
            matched: None,
            inside: self.inside(),
            cost: vec![self.own.look()],
            probes: self.health(clock::boot()),
            place: None,
            rates: rates::Rates { groups, ..rates },
        };
        self.begun = true;
        self.last = Arc::new(news);
        Ok(Arc::clone(&self.last))
    }

    /// All that is wanted of one moment, with its texts.
    fn sample(&mut self) -> Result<Sample, Error> {
        let mut sample = self.backend.read(&self.want)?;
        sample.notes.splice(..0, self.opening.iter().cloned());
        if !self.want.costly.is_empty() {
            self.backend.describe(&mut sample.processes, &self.want);
        }
        if self.want.wants(ProcessField::Job) {
            self.jobs.learn(&mut sample);
        }
        // Only who sees ends can tell of them; else who is not there any more has ended.
        if self.begun && sample.source == Source::Procfs {
            add_gone(&self.last.rates.sample.processes, &mut sample.processes);
        }
        Ok(sample)
    }

    fn inside(&self) -> Inside {
        if self.is_live { Inside::of(self.demand.focus) } else { Inside::recorded() }
    }

    /// The texts of the process whose details are shown.
    fn focus(&mut self, sample: &Sample) -> Option<Text> {
        let (id, _) = self.demand.focus?;
        let at = sample.processes.binary_search_by_key(&id, |it| it.id).ok()?;
        let mut one = [sample.processes[at].clone()];
        let costly = OF_FOCUS.into_iter().chain(self.want.costly.iter().copied()).collect();
        self.backend.describe(&mut one, &Want { costly, ..Want::default() });
        let [one] = one;
        let job = sample.processes[at].text.job.clone();
        Some(Text { job, ..one.text })
    }

    fn health(&mut self, at: Ns) -> Arc<[Entry]> {
        match &self.health {
            Some((then, probes)) if at.since(*then) < HEALTH_WITHIN => Arc::clone(probes),
            _ => {
                let probes: Arc<[Entry]> = self.backend.probes().iter().map(Entry::of).collect();
                self.health = Some((at, Arc::clone(&probes)));
                probes
            }
        }
    }

    /// What becomes readable when records wait.
    pub fn wake(&self) -> std::io::Result<Option<OwnedFd>> {
        self.backend.wake().map(|fd| fd.try_clone_to_owned()).transpose()
    }

    /// Fetches the records that wait.
    pub fn drain(&mut self) {
        self.backend.drain();
    }
}

/// Adds those that were there and are not any more, with their last numbers and no rates. Both
/// lists are in the order of identities.
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
    fn who_is_not_there_any_more_is_shown_once_as_ended() {
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

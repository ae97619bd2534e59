//! What used what over a time: by process, command, job or user.
//!
//! In: samples of all processes with their texts, one after another; the first is where counting
//! begins. Out: for each what it used since, how its use was spread, and its peaks; the processes
//! that no two samples saw; and, if asked for, the course of the largest ones.

mod entry;
mod plot;

pub use entry::{COUNTED, Entry, Spread};
pub use plot::{Course, Plot};

use super::filter::Filter;
use super::group::{Groups, Limits};
use monitor_model::field::node::NodeRow;
use monitor_model::field::{GroupField, NodeField, ProcessField};
use monitor_model::group::{By, Group};
use monitor_model::id::{Identity, Ns};
use monitor_model::name;
use monitor_model::name::Unknown;
use monitor_model::sample::{Instant, Process, Sample};
use std::collections::HashMap;
use std::sync::Arc;

/// Most processes that are told one by one; of further ones only their number is known.
const PROCESSES: usize = 1 << 17;

/// What is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Each process.
    Process,
    /// Processes that have this in common.
    Group(By),
}

impl Of {
    /// Their names.
    pub const NAMES: [&str; 5] = ["process", "command", "job", "user", "cgroup"];
    const ALL: [Self; 5] = [
        Self::Process,
        Self::Group(By::Comm),
        Self::Group(By::Job),
        Self::Group(By::User),
        Self::Group(By::Cgroup),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let place = Self::ALL.iter().position(|it| *it == self);
        place.map_or("", |place| Self::NAMES[place])
    }
}

impl std::str::FromStr for Of {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        Ok(Self::ALL[name::position("kind", Self::NAMES.into_iter(), text)?])
    }
}

/// Which one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A process.
    Process(Identity),
    /// A group by its name.
    Group(Arc<str>),
}

/// Processes that began and ended between two samples, by their command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// How many.
    pub processes: u64,
    /// What they used of a processor.
    pub cpu: Ns,
}

/// What used what.
pub struct Ledger {
    of: Of,
    filter: Filter,
    groups: Groups,
    entries: HashMap<Key, Entry>,
    brief: HashMap<Arc<str>, Brief>,
    total: Entry,
    unlisted: u64,
    /// When counting began, and the sample before.
    began: Option<Instant>,
    before: Instant,
    samples: u64,
    plot: Option<Plot>,
}

impl Ledger {
    /// Of the processes that the filter admits.
    pub fn new(of: Of, filter: Filter) -> Self {
        let by = match of {
            Of::Process => By::User,
            Of::Group(by) => by,
        };
        let limits = Limits { keep: Ns(u64::MAX), ..Limits::default() };
        Self {
            of,
            filter,
            groups: Groups::new(by, limits),
            entries: HashMap::new(),
            brief: HashMap::new(),
            total: Entry::new("all".into(), Instant::default()),
            unlisted: 0,
            began: None,
            before: Instant::default(),
            samples: 0,
            plot: None,
        }
    }

    /// With the course of these.
    pub fn plotting(self, plot: Plot) -> Self {
        Self { plot: Some(plot), ..self }
    }

    /// Takes in a sample.
    pub fn see(&mut self, sample: &Sample) {
        let first = self.began.is_none();
        let began = *self.began.get_or_insert(sample.at);
        let interval = Ns(if first { 0 } else { sample.at.boot.since(self.before.boot).0 });
        if let Some(plot) = &mut self.plot {
            plot.pass(sample.at.unix, interval);
            if let Some(node) = &sample.node_stats {
                plot.memory(sample.at.unix, used_memory(&node.row));
            }
        }
        self.groups(sample, interval);
        if self.of == Of::Process {
            for process in &sample.processes {
                self.process(process, began, (sample.at, interval));
            }
        }
        if !first {
            self.brief(sample);
        }
        (self.before, self.samples) = (sample.at, self.samples + 1);
    }

    fn groups(&mut self, sample: &Sample, interval: Ns) {
        let grouped = self.groups.learn(sample, &self.filter);
        let mut sums = [None; COUNTED.len()];
        let (mut resident, mut living) = (0, 0);
        for group in &grouped.groups {
            let counters = COUNTED.map(|field| group.row.get(field));
            for (sum, own) in sums.iter_mut().zip(counters) {
                *sum = own.map_or(*sum, |own| Some(sum.unwrap_or(0) + own));
            }
            resident += group.row.get(ProcessField::Rss).unwrap_or(0);
            living += group.head.get(GroupField::Processes).unwrap_or(0);
            if self.of != Of::Process {
                self.group(group, (sample.at, interval));
            }
        }
        if self.samples == 0 {
            self.total.begin_at(sums);
            self.total.first = sample.at;
        }
        let grown = self.total.grow(sums);
        self.total.see(sample.at, interval, grown, (living, Some(resident)));
        if let Some(plot) = &mut self.plot {
            plot.total(grown);
        }
    }

    fn group(&mut self, group: &Group, (at, interval): (Instant, Ns)) {
        let counters = COUNTED.map(|field| group.row.get(field));
        let count = |field| group.head.get(field).unwrap_or(0);
        let key = Key::Group(Arc::clone(&group.name));
        let new = || Entry::new(Arc::clone(&group.name), at);
        let entry = self.entries.entry(key.clone()).or_insert_with(new);
        if self.samples == 0 {
            entry.begin_at(counters);
            entry.ended_before = count(GroupField::Ended);
        }
        let grown = entry.grow(counters);
        let here = (count(GroupField::Processes), group.row.get(ProcessField::Rss));
        entry.see(at, interval, grown, here);
        entry.ended = count(GroupField::Ended) - entry.ended_before;
        if let Some(plot) = &mut self.plot {
            plot.grow(&key, grown);
        }
    }

    fn process(&mut self, process: &Process, began: Instant, (at, interval): (Instant, Ns)) {
        if !self.filter.admits(process) {
            return;
        }
        let counters = COUNTED.map(|field| process.row.get(field));
        let key = Key::Process(process.id);
        if self.entries.len() >= PROCESSES && !self.entries.contains_key(&key) {
            self.unlisted += 1;
            return;
        }
        let mut known = true;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            let mut entry = Entry::new(process.comm().into(), at);
            // What one of them used that was there before counting began is not of this time.
            known = process.id.start >= began.boot;
            if !known {
                entry.begin_at(counters);
            }
            entry
        });
        let grown = entry.grow(counters);
        let interval = if known { interval } else { Ns(0) };
        entry.see(at, interval, grown, (1, process.row.get(ProcessField::Rss)));
        entry.name = process.comm().into();
        entry.id = Some(process.id);
        entry.ended = process.ended().into();
        entry.user = process.text.user.clone().or(entry.user.take());
        entry.job = process.text.job.clone().or(entry.job.take());
        entry.cmdline = process.text.cmdline.clone().or(entry.cmdline.take());
        if let Some(plot) = &mut self.plot {
            plot.grow(&key, grown);
        }
    }

    /// Those whose whole life is between two samples.
    fn brief(&mut self, sample: &Sample) {
        for process in &sample.processes {
            let lived = process.ended() && process.id.start >= self.before.boot;
            if lived && self.filter.admits(process) {
                let brief = self.brief.entry(process.comm().into()).or_default();
                brief.processes += 1;
                brief.cpu.0 += process.row.get(ProcessField::CpuTime).unwrap_or(0);
            }
        }
    }

    /// All that used anything or were there, the largest user of processors first.
    pub fn entries(&self) -> Vec<(&Key, &Entry)> {
        let mut all: Vec<_> = self.entries.iter().collect();
        all.sort_by_key(|(_, entry)| {
            let cpu = std::cmp::Reverse(entry.used(ProcessField::CpuTime));
            (cpu, Arc::clone(&entry.name), entry.id)
        });
        all
    }

    /// All of them together, each thing once.
    pub const fn total(&self) -> &Entry {
        &self.total
    }

    /// Processes beyond those that are told one by one.
    pub const fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Processes that no two samples saw, by command, the most first.
    pub fn briefly(&self) -> Vec<(&Arc<str>, &Brief)> {
        let mut all: Vec<_> = self.brief.iter().collect();
        all.sort_by_key(|(name, it)| (std::cmp::Reverse(it.cpu), Arc::clone(name)));
        all
    }

    /// From when to when, and how many samples.
    pub fn span(&self) -> Option<(Instant, Instant, u64)> {
        self.began.map(|began| (began, self.before, self.samples))
    }

    /// The course, if it was asked for.
    pub const fn plot(&self) -> Option<&Plot> {
        self.plot.as_ref()
    }
}

fn used_memory(node: &NodeRow) -> Option<u64> {
    let total = node.get(NodeField::MemTotal)?;
    Some(total.saturating_sub(node.get(NodeField::MemAvailable)?))
}

#[cfg(test)]
mod tests;

//! A usage report: CPU, memory and I/O by process, command, job, user or cgroup.
//!
//! In: samples of all processes with their texts, in order; counting begins at the first. Out: for
//! each entry its usage since then, quantiles and peaks; the processes that began and ended between
//! two samples; and, if requested, a plot of the largest entries.

mod entry;
mod plot;

pub use entry::{USAGE_COUNTERS, UsageEntry, UsageQuantiles};
pub use plot::{BucketMeans, UsagePlot};

use super::filter::Filter;
use super::group::{GroupLimits, Groups};
use monitor_model::{
    Group, GroupBy, GroupField, Identity, Instant, NodeField, NodeRow, Ns, Process, ProcessField,
    Sample, UnknownName, name,
};
use std::{collections::HashMap, sync::Arc};

/// Maximum number of processes with an entry; further ones are only counted.
const PROCESSES: usize = 1 << 17;

/// What an entry stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportBy {
    /// Each process.
    #[default]
    Process,
    /// Processes with the same value of this.
    Group(GroupBy),
}

impl ReportBy {
    /// Their names.
    pub const NAMES: [&str; 5] = ["process", "command", "job", "user", "cgroup"];
    const ALL: [Self; 5] = [
        Self::Process,
        Self::Group(GroupBy::Comm),
        Self::Group(GroupBy::Job),
        Self::Group(GroupBy::User),
        Self::Group(GroupBy::Cgroup),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let place = Self::ALL.iter().position(|it| *it == self);
        place.map_or("", |place| Self::NAMES[place])
    }
}

impl std::str::FromStr for ReportBy {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Ok(Self::ALL[name::position("kind", Self::NAMES.into_iter(), text)?])
    }
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReportKey {
    /// A process.
    Process(Identity),
    /// A group by its name.
    Group(Arc<str>),
}

/// Processes that began and ended between two samples, by their command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortLived {
    /// Number of processes.
    pub processes: u64,
    /// Their CPU time.
    pub cpu: Ns,
}

/// Accumulates usage over samples.
#[derive(Default)]
pub struct UsageReport {
    by: ReportBy,
    filter: Filter,
    groups: Groups,
    entries: HashMap<ReportKey, UsageEntry>,
    short_lived: HashMap<Arc<str>, ShortLived>,
    total: UsageEntry,
    unlisted: u64,
    /// When counting began.
    began: Option<Instant>,
    /// Time of the previous sample.
    before: Instant,
    samples: u64,
    plot: Option<UsagePlot>,
}

impl UsageReport {
    /// A report on the processes that the filter admits.
    pub fn new(by: ReportBy, filter: Filter) -> Self {
        let group_by = match by {
            ReportBy::Process => GroupBy::User,
            ReportBy::Group(by) => by,
        };
        let limits = GroupLimits { keep: Ns(u64::MAX), ..GroupLimits::default() };
        Self {
            by,
            filter,
            groups: Groups::new(group_by, limits),
            total: UsageEntry::new("all".into(), Instant::default()),
            ..Self::default()
        }
    }

    /// The report with a plot.
    pub fn plotting(self, plot: UsagePlot) -> Self {
        Self { plot: Some(plot), ..self }
    }

    /// Adds a sample.
    pub fn add_sample(&mut self, sample: &Sample) {
        let first = self.began.is_none();
        let began = *self.began.get_or_insert(sample.at);
        let interval = Ns(if first { 0 } else { sample.at.boot.since(self.before.boot).0 });
        if let Some(plot) = &mut self.plot {
            plot.advance(sample.at.unix, interval);
            if let Some(node) = &sample.node_stats {
                plot.add_memory(sample.at.unix, used_memory(&node.row));
            }
        }
        self.add_groups(sample, interval);
        if self.by == ReportBy::Process {
            for process in &sample.processes {
                self.add_process(process, began, (sample.at, interval));
            }
        }
        if !first {
            self.add_short_lived(sample);
        }
        (self.before, self.samples) = (sample.at, self.samples + 1);
    }

    fn add_groups(&mut self, sample: &Sample, interval: Ns) {
        let grouped = self.groups.learn(sample, &self.filter);
        let mut sums = [None; USAGE_COUNTERS.len()];
        let (mut resident, mut living) = (0, 0);
        for group in &grouped.groups {
            let counters = USAGE_COUNTERS.map(|field| group.row.get(field));
            for (sum, own) in sums.iter_mut().zip(counters) {
                *sum = own.map_or(*sum, |own| Some(sum.unwrap_or(0) + own));
            }
            resident += group.row.get(ProcessField::Rss).unwrap_or(0);
            living += group.head.get(GroupField::Processes).unwrap_or(0);
            if self.by != ReportBy::Process {
                self.add_group(group, (sample.at, interval));
            }
        }
        if self.samples == 0 {
            self.total.begin_at(sums);
            self.total.first = sample.at;
        }
        let grown = self.total.grow(sums);
        self.total.add_sample(sample.at, interval, grown, (living, Some(resident)));
        if let Some(plot) = &mut self.plot {
            plot.add_total(grown);
        }
    }

    fn add_group(&mut self, group: &Group, (at, interval): (Instant, Ns)) {
        let counters = USAGE_COUNTERS.map(|field| group.row.get(field));
        let count = |field| group.head.get(field).unwrap_or(0);
        let key = ReportKey::Group(Arc::clone(&group.name));
        let new = || UsageEntry::new(Arc::clone(&group.name), at);
        let entry = self.entries.entry(key.clone()).or_insert_with(new);
        if self.samples == 0 {
            entry.begin_at(counters);
            entry.ended_before = count(GroupField::Ended);
        }
        let grown = entry.grow(counters);
        let here = (count(GroupField::Processes), group.row.get(ProcessField::Rss));
        entry.add_sample(at, interval, grown, here);
        entry.ended = count(GroupField::Ended) - entry.ended_before;
        if let Some(plot) = &mut self.plot {
            plot.add_entry(&key, grown);
        }
    }

    fn add_process(&mut self, process: &Process, began: Instant, (at, interval): (Instant, Ns)) {
        if !self.filter.admits(process) {
            return;
        }
        let counters = USAGE_COUNTERS.map(|field| process.row.get(field));
        let key = ReportKey::Process(process.id);
        if self.entries.len() >= PROCESSES && !self.entries.contains_key(&key) {
            self.unlisted += 1;
            return;
        }
        let mut known = true;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            let mut entry = UsageEntry::new(process.comm().into(), at);
            // Usage of a process before counting began does not belong to the report.
            known = process.id.start >= began.boot;
            if !known {
                entry.begin_at(counters);
            }
            entry
        });
        let grown = entry.grow(counters);
        let interval = if known { interval } else { Ns(0) };
        entry.add_sample(at, interval, grown, (1, process.row.get(ProcessField::Rss)));
        entry.name = process.comm().into();
        entry.id = Some(process.id);
        entry.ended = process.ended().into();
        entry.user = process.text.user.clone().or(entry.user.take());
        entry.job = process.text.job.clone().or(entry.job.take());
        entry.cmdline = process.text.cmdline.clone().or(entry.cmdline.take());
        if let Some(plot) = &mut self.plot {
            plot.add_entry(&key, grown);
        }
    }

    /// Adds the processes that began and ended between two samples.
    fn add_short_lived(&mut self, sample: &Sample) {
        for process in &sample.processes {
            let is_short = process.ended() && process.id.start >= self.before.boot;
            if is_short && self.filter.admits(process) {
                let command = self.short_lived.entry(process.comm().into()).or_default();
                command.processes += 1;
                command.cpu.0 += process.row.get(ProcessField::CpuTime).unwrap_or(0);
            }
        }
    }

    /// All entries, by descending CPU time.
    pub fn entries(&self) -> Vec<(&ReportKey, &UsageEntry)> {
        let mut all: Vec<_> = self.entries.iter().collect();
        all.sort_by_key(|(_, entry)| {
            let cpu = std::cmp::Reverse(entry.used(ProcessField::CpuTime));
            (cpu, Arc::clone(&entry.name), entry.id)
        });
        all
    }

    /// The total of all processes.
    pub const fn total(&self) -> &UsageEntry {
        &self.total
    }

    /// Number of processes without an entry.
    pub const fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Processes that began and ended between two samples, by command and descending CPU time.
    pub fn short_lived(&self) -> Vec<(&Arc<str>, &ShortLived)> {
        let mut all: Vec<_> = self.short_lived.iter().collect();
        all.sort_by_key(|(name, it)| (std::cmp::Reverse(it.cpu), Arc::clone(name)));
        all
    }

    /// First time, last time, and number of samples; `None` without samples.
    pub fn span(&self) -> Option<(Instant, Instant, u64)> {
        self.began.map(|began| (began, self.before, self.samples))
    }

    /// The plot, if requested.
    pub const fn plot(&self) -> Option<&UsagePlot> {
        self.plot.as_ref()
    }
}

fn used_memory(node: &NodeRow) -> Option<u64> {
    let total = node.get(NodeField::MemTotal)?;
    Some(total.saturating_sub(node.get(NodeField::MemAvailable)?))
}

#[cfg(test)]
mod tests;

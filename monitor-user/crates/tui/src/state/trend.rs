//! Histories of the last minutes: of the node, its devices and the visible processes.
//!
//! In: updates. Out: series for plots. The history of a process starts when it is first visible,
//! and is dropped some time after it was last visible.

use crate::feed_source::Update;
use monitor_model::{
    CpuField, DiskField, Identity, NetField, Node, NodeField, Process, ProcessField, Rates,
};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Values that are kept in a series.
pub const KEPT: usize = 240;
/// Most processes with a history.
const MAX_PROCESSES: usize = 512;
/// Readings after which the history of an invisible process is dropped.
const FORGET_AFTER: u64 = 60;

/// A series of values, the latest last.
#[derive(Clone, Debug, Default)]
pub struct Series(VecDeque<f64>);

impl Series {
    fn push(&mut self, value: f64) {
        if self.0.len() == KEPT {
            let _ = self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The last values, at most `max`.
    pub fn last(&self, max: usize) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.0.iter().skip(self.0.len().saturating_sub(max)).copied()
    }

    /// The largest of the last values.
    pub fn max(&self, of: usize) -> f64 {
        self.last(of).fold(0.0, f64::max)
    }
}

/// The fields of a process that have a history.
pub const PLOTTED: [ProcessField; 2] = [ProcessField::CpuPercent, ProcessField::Rss];

/// The history of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessTrend {
    /// A series for each of [`PLOTTED`].
    pub series: [Series; PLOTTED.len()],
    seen: u64,
}

/// The histories.
#[derive(Clone, Debug, Default)]
pub struct Trends {
    /// CPU use in percent of all processors.
    pub cpu: Series,
    /// Bytes per second of each disk and interface.
    devices: HashMap<Arc<str>, Series>,
    processes: HashMap<Identity, ProcessTrend>,
    readings: u64,
}

impl Trends {
    /// Records an update, with the visible processes.
    pub fn record<'p>(&mut self, update: &'p Update, seen: impl Iterator<Item = &'p Process>) {
        self.readings += 1;
        if let Some(node) = &update.rates.sample.node_stats {
            if let Some(busy) = busy(node) {
                self.cpu.push(busy);
            }
            self.devices(node);
        }
        for process in update.focus.iter().chain(seen) {
            self.track(process);
        }
        let readings = self.readings;
        self.processes.retain(|_, track| track.seen + FORGET_AFTER > readings);
    }

    fn devices(&mut self, node: &Node) {
        let disk = [DiskField::ReadRate, DiskField::WrittenRate];
        let net = [NetField::ReceivedRate, NetField::SentRate];
        let disks = node.disks.iter().map(|it| (&it.name, disk.map(|field| it.row.get(field))));
        let nets = node.nets.iter().map(|it| (&it.name, net.map(|field| it.row.get(field))));
        let named = |(name, rates): (&Arc<str>, _)| (Arc::clone(name), total(rates));
        let all: Vec<_> = disks.chain(nets).map(named).collect();
        self.devices.retain(|name, _| all.iter().any(|(it, _)| it == name));
        for (name, rate) in all {
            if let Some(rate) = rate {
                self.devices.entry(name).or_default().push(rate);
            }
        }
    }

    fn track(&mut self, process: &Process) {
        let room = self.processes.len() < MAX_PROCESSES;
        let track = match self.processes.get_mut(&process.id) {
            Some(track) if track.seen == self.readings => return,
            Some(track) => track,
            None if room => self.processes.entry(process.id).or_default(),
            None => return,
        };
        track.seen = self.readings;
        for (series, field) in track.series.iter_mut().zip(PLOTTED) {
            let value = process.row.value(field).and_then(|value| value.as_f64());
            if let Some(value) = value {
                series.push(value);
            }
        }
    }

    /// The history of a disk or an interface.
    pub fn device(&self, name: &str) -> Option<&Series> {
        self.devices.get(name)
    }

    /// The history of a process.
    pub fn process(&self, id: Identity) -> Option<&ProcessTrend> {
        self.processes.get(&id)
    }
}

/// The sum of two rates; `None` if both are absent.
fn total(rates: [Option<u64>; 2]) -> Option<f64> {
    let known: Vec<f64> = rates.into_iter().flatten().map(f64::from_bits).collect();
    (!known.is_empty()).then(|| known.iter().sum())
}

/// The mean CPU use of the processors, from 0 to 100.
pub fn busy(node: &Node) -> Option<f64> {
    let [busy, cpus] = [NodeField::BusyPercent, NodeField::OnlineCpus].map(|it| node.row.get(it));
    if let (Some(busy), Some(cpus @ 1..)) = (busy, cpus) {
        return Some((f64::from_bits(busy) / cpus as f64).min(100.0));
    }
    let idle = |(_, row): &(u32, monitor_model::field::node::CpuRow)| {
        row.get(CpuField::IdlePercent).map(f64::from_bits)
    };
    let idle: Vec<f64> = node.cpus.iter().filter_map(idle).collect();
    (!idle.is_empty()).then(|| (100.0 - idle.iter().sum::<f64>() / idle.len() as f64).max(0.0))
}

/// Used and total memory, in bytes.
pub fn memory(rates: &Rates) -> Option<(f64, f64)> {
    let row = &rates.sample.node_stats.as_ref()?.row;
    let total = row.get(NodeField::MemTotal)? as f64;
    Some(((total - row.get(NodeField::MemAvailable)? as f64).max(0.0), total))
}

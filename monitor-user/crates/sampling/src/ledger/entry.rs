//! One line of a ledger: what a process or a group used, and how that was spread over time.

use hdrhistogram::Histogram;
use monitor_model::field::ProcessField;
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::Instant;
use std::sync::Arc;

/// The counters that are told.
pub const COUNTED: [ProcessField; 9] = [
    ProcessField::CpuTime,
    ProcessField::RunDelay,
    ProcessField::ReadBytes,
    ProcessField::WrittenBytes,
    ProcessField::BlockReadBytes,
    ProcessField::BlockWrittenBytes,
    ProcessField::TcpReceived,
    ProcessField::TcpSent,
    ProcessField::MajorFaults,
];

/// Values of these, as far as they are there.
pub type Counters = [Option<u64>; COUNTED.len()];

/// How values were spread: percentiles to a hundredth part, the largest exactly.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// One value needs no histogram, and most processes have one.
    only: u64,
    count: u64,
    largest: u64,
    all: Option<Box<Histogram<u32>>>,
}

impl Spread {
    /// Takes in a value.
    pub fn note(&mut self, value: u64) {
        self.count += 1;
        self.largest = self.largest.max(value);
        if self.count == 1 {
            self.only = value;
            return;
        }
        let only = self.only;
        let all = self.all.get_or_insert_with(|| Box::new(first(only)));
        // It grows with its values, so every one has room.
        let _there_is_room = all.record(value);
    }

    /// A percentile; nothing, without a value.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let of = |all: &Histogram<u32>| all.value_at_percentile(percent).min(self.largest);
        (self.count > 0).then(|| self.all.as_deref().map_or(self.only, of))
    }

    /// The largest value.
    pub fn largest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.largest)
    }
}

/// A histogram that has one value.
fn first(value: u64) -> Histogram<u32> {
    let mut it = Histogram::new(2).expect("two digits are in its range");
    let _there_is_room = it.record(value);
    it
}

/// What a process or a group used.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: Arc<str>,
    /// Which process, if it is one.
    pub id: Option<Identity>,
    /// Its user, job and command line, if it is one process and they are known.
    pub user: Option<Arc<str>>,
    /// Its job.
    pub job: Option<Arc<str>>,
    /// Its command line.
    pub cmdline: Option<Arc<str>>,
    /// When it was first and last seen.
    pub first: Instant,
    /// When it was last seen.
    pub last: Instant,
    /// In how many samples.
    pub samples: u64,
    /// Most processes at once.
    pub processes: u64,
    /// How many ended.
    pub ended: u64,
    /// How many had ended when counting began.
    pub(super) ended_before: u64,
    /// Hundredths of a percent of one processor.
    pub cpu: Spread,
    /// KiB of resident memory.
    pub resident: Spread,
    used: Counters,
    /// The most that each counter was.
    most: [u64; COUNTED.len()],
}

impl Entry {
    /// Nothing yet.
    pub fn new(name: Arc<str>, first: Instant) -> Self {
        Self {
            name,
            id: None,
            user: None,
            job: None,
            cmdline: None,
            first,
            last: first,
            samples: 0,
            processes: 0,
            ended: 0,
            ended_before: 0,
            cpu: Spread::default(),
            resident: Spread::default(),
            used: [None; COUNTED.len()],
            most: [0; COUNTED.len()],
        }
    }

    /// What it used of this; nothing, if that is not known.
    pub fn used(&self, field: ProcessField) -> Option<u64> {
        COUNTED.iter().position(|it| *it == field).and_then(|at| self.used[at])
    }

    /// From these values on it is counted.
    pub(super) fn begin_at(&mut self, counters: Counters) {
        self.most = counters.map(Option::unwrap_or_default);
    }

    /// By how much its counters grew. One that goes backwards grows when it has passed where it
    /// was.
    pub(super) fn grow(&mut self, counters: Counters) -> Counters {
        let mut grown = [None; COUNTED.len()];
        for (at, now) in counters.into_iter().enumerate() {
            let Some(now) = now else { continue };
            let more = now.saturating_sub(self.most[at]);
            self.most[at] = self.most[at].max(now);
            self.used[at] = Some(self.used[at].unwrap_or(0) + more);
            grown[at] = Some(more);
        }
        grown
    }

    /// It is in a sample, with so many processes and so much memory.
    pub(super) fn see(
        &mut self,
        at: Instant,
        interval: Ns,
        grown: Counters,
        (processes, resident): (u64, Option<u64>),
    ) {
        let cpu = grown[0].unwrap_or(0);
        if processes == 0 && cpu == 0 {
            return;
        }
        self.last = at;
        self.samples += 1;
        self.processes = self.processes.max(processes);
        if interval > Ns(0) && grown[0].is_some() {
            self.cpu.note((cpu as f64 / interval.0 as f64 * 1e4).round() as u64);
        }
        if let Some(resident) = resident {
            self.resident.note(resident >> 10);
        }
    }
}

//! How long each process waited for a CPU: the histograms of `bin/run_queue.rs`.
//!
//! In: a pass over the living, a table of the ended. Out: percentiles and the histogram of every
//! process that was given a CPU. The rows of ended processes are removed as they are reported.

use super::health;
use super::kernel::Kernel;
use super::object::{Object, Settings};
use super::owner::{self, Owners};
use super::part::{Asked, Part};
use super::pass::{Buffer, IterProgram};
use aya::maps::Map;
use monitor_backend::Error;
use monitor_ebpf::abi::run_queue::{self, RunQueueOffsets, Waits};
use monitor_ebpf::abi::{Owner, histogram};
use monitor_model::field::ProcessField as F;
use monitor_model::histogram::{Histogram, Percentiles};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::sample::{Process, Sample};
use monitor_model::want::Capability;
use monitor_sys::bpf;
use rustix::process::{PidfdFlags, pidfd_open};
use std::os::fd::AsFd;
use zerocopy::{FromBytes, IntoBytes};

/// The scheduler hook and what it has counted.
pub struct RunQueue {
    object: Object,
    since: Ns,
    owners: Owners,
    percentiles: Percentiles,
    buffer: Buffer,
    /// Waits of all, as of the last reading.
    n_waits: u64,
    /// Those of ended processes, whose rows are gone.
    n_told: u64,
}

const PREPARE: IterProgram = IterProgram { name: "prepare", walks: "task", map: None };
const LIVING: IterProgram = IterProgram { name: "waits", walks: "task", map: None };

impl RunQueue {
    /// Loads and attaches the hooks.
    pub fn load(kernel: &Kernel, asked: &Asked<'_>) -> Result<Self, Error> {
        if let Some(member) = kernel.lacks::<RunQueueOffsets>() {
            return Err(Error::Unsupported {
                what: "the wait for a CPU".into(),
                why: format!("this kernel has no {member}"),
                fix: "one with CONFIG_SCHED_INFO and CONFIG_FAIR_GROUP_SCHED has it".into(),
            });
        }
        let sizes = [(run_queue::ENDED, kernel.machine.rows())];
        let settings = Settings { constants: &[], sizes: &sizes };
        let mut object = Object::load("run_queue", kernel, &settings)?;
        // New processes are prepared before the old ones, and both before the first switch.
        for (program, hook) in [
            ("fork", "sched_process_fork"),
            ("exec", "sched_process_exec"),
            ("free", "sched_process_free"),
        ] {
            object.attach(program, hook, &kernel.btf)?;
        }
        for iterator in [&PREPARE, &LIVING] {
            iterator.load(&mut object, &kernel.btf)?;
        }
        object.hooked(LIVING.hook());
        let mut buffer = Buffer::new();
        let _nothing = buffer.pass(&mut object, &PREPARE)?;
        prepare_first(&object);
        object.attach("switch", "sched_switch", &kernel.btf)?;
        let (owners, percentiles) = (Owners::default(), Percentiles::default());
        let since = asked.since;
        Ok(Self { object, since, owners, percentiles, buffer, n_waits: 0, n_told: 0 })
    }

    /// Adds waits to a process that may have some already.
    fn add(&mut self, process: &mut Process, waits: &histogram::Histogram) {
        let sum = process.latencies.run_queue.get_or_insert_default();
        let waits = Histogram::from(waits);
        self.n_waits += waits.count();
        sum.merge(&waits);
        if let Some([half, most]) = self.percentiles.of(sum, [50.0, 99.0]) {
            process.row.set(F::RunQueueP50, half.0);
            process.row.set(F::RunQueueP99, most.0);
        }
    }

    /// The living. A pass that fails leaves them without, which is what absent values say.
    fn add_living(&mut self, processes: &mut [Process]) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut stream = buffer.pass(&mut self.object, &LIVING).unwrap_or_default();
        while let Ok((record, rest)) = Waits::ref_from_prefix(stream) {
            if let Some(index) = owner::find(processes, record.owner) {
                self.add(&mut processes[index], &record.waits);
            }
            stream = rest;
        }
        self.buffer = buffer;
    }
}

/// Gives storage to process 1, which some hosts show to no iterator: else each of its waits would
/// count as lost. Where it has some already, or may not be opened, all stays as it is, and what is
/// lost is still counted.
fn prepare_first(object: &Object) {
    let first = pidfd_open(rustix::process::Pid::INIT, PidfdFlags::empty());
    if let (Some(Map::Unsupported(map)), Ok(first)) = (object.ebpf.map(run_queue::WAITS), first)
        && let Err(error) =
            bpf::give(map.fd().as_fd(), first.as_fd(), histogram::Histogram::EMPTY.as_bytes())
    {
        tracing::debug!(%error, "process 1 was given no storage");
    }
}

impl Part for RunQueue {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn object_mut(&mut self) -> Option<&mut Object> {
        Some(&mut self.object)
    }

    /// The programs do not count: the histograms are the count.
    fn probe(&self, capability: Capability) -> Probe {
        let probe = health::probe(capability, &self.object, self.dropped());
        Probe { events: self.n_waits, ..probe }
    }

    fn join(&mut self, sample: &mut Sample) {
        let processes = &mut sample.processes;
        // The ended first: one that ends between the two is in neither, and comes next time.
        let ended = self.object.rows::<Owner, histogram::Histogram>(run_queue::ENDED);
        let owners = ended.iter().map(|(owner, _)| *owner);
        self.owners.settle(owners, processes, sample.at.boot);
        for process in processes.iter_mut() {
            process.count_from(self.since);
        }
        self.n_waits = self.n_told;
        for (owner, waits) in &ended {
            if let Some(index) = owner::find(processes, *owner) {
                self.add(&mut processes[index], waits);
            }
        }
        self.add_living(processes);
        // A row of one that lives is of a leader that another thread replaced; it stays.
        let told = ended.iter().filter(|(owner, _)| owner::ended(processes, *owner));
        let told: Vec<_> = told.collect();
        self.n_told += told.iter().map(|(_, waits)| waits.counts.iter().sum::<u64>()).sum::<u64>();
        let told = told.into_iter().map(|(owner, _)| *owner);
        self.object.remove_rows::<Owner, histogram::Histogram>(run_queue::ENDED, told);
    }
}

//! Run-queue waits by process: the histograms of `bin/run_queue.rs`.
//!
//! In: an iteration over live processes, and a table of ended ones. Out: percentiles and the
//! histogram of every process that waited. The rows of ended processes are removed as they are
//! reported.

use crate::iter_reader::{IterBuffer, IterProgram};
use crate::owner::{self, MissingOwners};
use crate::probe_reader::{ProbeConfig, ProbeReader};
use crate::{health, kernel::Kernel, object::Object};
use aya::maps::Map;
use monitor_backend::Error;
use monitor_ebpf::abi::run_queue::{self, RunQueueOffsets, Waits};
use monitor_ebpf::abi::{Owner, histogram};
use monitor_model::{
    Capability, Histogram, Ns, Percentiles, Probe, Process, Sample, field::ProcessField as F,
};
use monitor_sys::bpf;
use rustix::process::{PidfdFlags, pidfd_open};
use std::os::fd::AsFd;
use zerocopy::{FromBytes, IntoBytes};

/// The scheduler hook and what it has counted.
pub struct RunQueue {
    object: Object,
    since: Ns,
    owners: MissingOwners,
    percentiles: Percentiles,
    buffer: IterBuffer,
    /// Number of waits of all processes at the last reading.
    n_waits: u64,
    /// Those of ended processes whose rows were removed.
    n_reported: u64,
}

const PREPARE: IterProgram = IterProgram { name: "prepare", walks: "task", map: None };
const LIVE: IterProgram = IterProgram { name: "waits", walks: "task", map: None };

impl RunQueue {
    /// Loads and attaches the hooks.
    pub fn load(kernel: &Kernel, asked: &ProbeConfig<'_>) -> Result<Self, Error> {
        if let Some(member) = kernel.lacks::<RunQueueOffsets>() {
            return Err(Error::unsupported(
                "run-queue latency",
                format!("this kernel has no {member}"),
                "boot one with CONFIG_SCHED_INFO and CONFIG_FAIR_GROUP_SCHED",
            ));
        }
        let sizes = [(run_queue::ENDED, kernel.machine.rows())];
        let mut object = Object::load("run_queue", kernel, &[], &sizes)?;
        // New processes get storage before existing ones, and both before the first switch.
        for (program, hook) in [
            ("fork", "sched_process_fork"),
            ("exec", "sched_process_exec"),
            ("free", "sched_process_free"),
        ] {
            object.attach(program, hook, &kernel.btf)?;
        }
        for iterator in [&PREPARE, &LIVE] {
            iterator.load(&mut object, &kernel.btf)?;
        }
        object.hooks.push(LIVE.hook());
        let mut buffer = IterBuffer::new();
        let _nothing = buffer.read(&mut object, &PREPARE)?;
        prepare_first(&object);
        object.attach("switch", "sched_switch", &kernel.btf)?;
        let (owners, percentiles) = (MissingOwners::default(), Percentiles::default());
        let since = asked.since;
        Ok(Self { object, since, owners, percentiles, buffer, n_waits: 0, n_reported: 0 })
    }

    /// Adds waits to a process, which may have some already.
    fn add(&mut self, process: &mut Process, waits: &histogram::Histogram) {
        let sum = process.latencies.run_queue.get_or_insert_default();
        let waits = Histogram::from(&waits.counts);
        self.n_waits += waits.count();
        sum.merge(&waits);
        if let Some([p50, p99]) = self.percentiles.compute(sum, [50.0, 99.0]) {
            process.row.set(F::RunQueueP50, p50.0);
            process.row.set(F::RunQueueP99, p99.0);
        }
    }

    /// Adds the waits of live processes. If the iteration fails, they stay absent.
    fn add_live(&mut self, processes: &mut [Process]) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut stream = buffer.read(&mut self.object, &LIVE).unwrap_or_default();
        while let Ok((record, rest)) = Waits::ref_from_prefix(stream) {
            if let Some(index) = owner::find(processes, record.owner) {
                self.add(&mut processes[index], &record.waits);
            }
            stream = rest;
        }
        self.buffer = buffer;
    }
}

/// Allocates storage for process 1, which some hosts hide from iterators: otherwise each of its
/// waits would count as lost. No effect if it has storage already or cannot be opened.
fn prepare_first(object: &Object) {
    let first = pidfd_open(rustix::process::Pid::INIT, PidfdFlags::empty());
    if let (Some(Map::Unsupported(map)), Ok(first)) = (object.ebpf.map(run_queue::WAITS), first)
        && let Err(error) = bpf::create_task_storage(
            map.fd().as_fd(),
            first.as_fd(),
            histogram::Histogram::EMPTY.as_bytes(),
        )
    {
        tracing::debug!(%error, "no storage for process 1");
    }
}

impl ProbeReader for RunQueue {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    /// The programs do not count events: the histograms do.
    fn probe(&self, capability: Capability) -> Probe {
        let probe = health::probe(capability, &self.object, self.dropped());
        Probe { events: Some(self.n_waits), ..probe }
    }

    fn merge_into(&mut self, sample: &mut Sample) {
        let processes = &mut sample.processes;
        // Ended processes first: one that ends between the two reads is in neither, and is reported
        // next time.
        let ended = self.object.rows::<Owner, histogram::Histogram>(run_queue::ENDED);
        let owners = ended.iter().map(|(owner, _)| *owner);
        self.owners.add_missing(owners, processes, sample.at.boot);
        for process in processes.iter_mut() {
            process.count_from(self.since);
        }
        self.n_waits = self.n_reported;
        for (owner, waits) in &ended {
            if let Some(index) = owner::find(processes, *owner) {
                self.add(&mut processes[index], waits);
            }
        }
        self.add_live(processes);
        // The row of a live process is that of a leader replaced by another thread; it is kept.
        let reported = ended.iter().filter(|(owner, _)| owner::ended(processes, *owner));
        let reported: Vec<_> = reported.collect();
        self.n_reported +=
            reported.iter().map(|(_, waits)| waits.counts.iter().sum::<u64>()).sum::<u64>();
        let reported = reported.into_iter().map(|(owner, _)| *owner);
        self.object.remove_rows::<Owner, histogram::Histogram>(run_queue::ENDED, reported);
    }
}

//! CPU time counted at each switch: the tables of `bin/exact_cpu.rs`, plus the running slices.
//!
//! In: nanoseconds by owner and CPU, and the running task of each CPU. Out: `exact_cpu_ns` and its
//! parts by CPU. Time before the first switch of a CPU after attaching is not included.

use crate::kernel::Kernel;
use crate::object::{Object, Record};
use crate::owner::{self, MissingOwners};
use crate::probe_reader::{ProbeConfig, ProbeReader};
use aya::maps::{MapData, PerCpuArray, PerCpuHashMap};
use monitor_backend::Error;
use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::exact_cpu::{self, RunningTask};
use monitor_model::{Ns, Process, Sample, field::ProcessField as F};
use monitor_sys::clock;
use std::collections::HashMap;

/// Attempts to read a CPU without a concurrent switch: if all fail, its slices are shorter than a
/// read, and the running one is omitted.
const ATTEMPTS: usize = 8;

/// Nanoseconds by CPU.
type Parts = Vec<u64>;

/// The scheduler hook and what it has counted.
pub struct ExactCpu {
    object: Object,
    since: Ns,
    owners: MissingOwners,
}

impl ExactCpu {
    /// Loads and attaches the hook.
    pub fn load(kernel: &Kernel, asked: &ProbeConfig<'_>) -> Result<Self, Error> {
        let sizes = [(exact_cpu::ON_CPU, kernel.machine.rows())];
        let mut object = Object::load("exact_cpu", kernel, &[], &sizes)?;
        object.attach("switch", "sched_switch", &kernel.btf)?;
        Ok(Self { object, since: asked.since, owners: MissingOwners::default() })
    }

    fn counts(&self) -> Option<Counts<'_>> {
        let slots = PerCpuArray::try_from(self.object.ebpf.map(exact_cpu::RUNNING)?).ok()?;
        let table = PerCpuHashMap::try_from(self.object.ebpf.map(exact_cpu::ON_CPU)?).ok()?;
        Some(Counts { slots, table })
    }

    fn remove(&mut self, owners: impl Iterator<Item = Owner>) {
        let Some(map) = self.object.ebpf.map_mut(exact_cpu::ON_CPU) else { return };
        let Ok(mut table) = PerCpuHashMap::<_, Record<Owner>, u64>::try_from(map) else { return };
        for owner in owners {
            // A process that just ran for the first time has no row yet.
            let _ = table.remove(&Record(owner));
        }
    }
}

impl ProbeReader for ExactCpu {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn merge_into(&mut self, sample: &mut Sample) {
        let processes = &mut sample.processes;
        let all = self.counts().map(|counts| counts.all()).unwrap_or_default();
        self.owners.add_missing(all.keys().copied(), processes, sample.at.boot);
        for process in processes.iter_mut() {
            process.row.set(F::ExactCpu, 0);
            process.count_from(self.since);
        }
        for (owner, parts) in &all {
            if let Some(index) = owner::find(processes, *owner) {
                set_fields(&mut processes[index], parts);
            }
        }
        self.remove(all.into_keys().filter(|owner| owner::ended(processes, *owner)));
    }
}

fn set_fields(process: &mut Process, parts: &[u64]) {
    process.row.set(F::ExactCpu, parts.iter().sum());
    let seen = (0..).zip(parts).filter(|(_, ns)| **ns > 0);
    process.on_cpus = seen.map(|(cpu, ns)| (cpu, Ns(*ns))).collect();
}

/// The tables.
struct Counts<'a> {
    slots: PerCpuArray<&'a MapData, Record<RunningTask>>,
    table: PerCpuHashMap<&'a MapData, Record<Owner>, u64>,
}

impl Counts<'_> {
    /// Everything counted so far. Of two reads of a part the greater is the newer one.
    ///
    /// The running slices first: one that ends during the reading is then in a row that is read
    /// later. In the other order it would be neither in its row yet nor running any more.
    fn all(&self) -> HashMap<Owner, Parts> {
        let cpus = self.slots.get(&0, 0).map_or(0, |slots| slots.len());
        let running: Vec<_> = (0..cpus).filter_map(|cpu| self.running(cpu)).collect();
        let rows = self.table.iter().flatten();
        let mut all: HashMap<Owner, Parts> =
            rows.map(|(Record(owner), parts)| (owner, parts.to_vec())).collect();
        for (owner, parts) in running {
            let known = all.entry(owner).or_insert_with(|| vec![0; cpus]);
            for (known, part) in known.iter_mut().zip(parts) {
                *known = part.max(*known);
            }
        }
        all
    }

    /// The process that runs on a CPU, with the running slice; `None` for the idle task.
    fn running(&self, cpu: usize) -> Option<(Owner, Parts)> {
        for _ in 0..ATTEMPTS {
            let before = self.slot(cpu)?;
            if before.owner.tgid == 0 {
                return None;
            }
            let row = self.table.get(&Record(before.owner), 0);
            let now = clock::monotonic();
            // The same slice before and after, so it is not in the row.
            if before.task != 0 && self.slot(cpu)? == before {
                let mut parts = row.map_or_else(|_| vec![0; cpu + 1], |parts| parts.to_vec());
                parts[cpu] += now.since(Ns(before.since_ns)).0;
                return Some((before.owner, parts));
            }
        }
        None
    }

    fn slot(&self, cpu: usize) -> Option<RunningTask> {
        self.slots.get(&0, 0).ok()?.get(cpu).map(|Record(slot)| *slot)
    }
}

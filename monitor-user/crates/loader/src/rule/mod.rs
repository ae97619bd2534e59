//! Rules in the kernel: the object of `bin/rule`, its programs, and their aggregates.
//!
//! In: programs. Out: probes and tracepoints that run them, and the values that they count. A hook
//! is detached with its last program, or when this is dropped. Nothing here knows of requests.

mod encode;
mod hardware_breakpoints;
mod hooks;
mod id_pool;
mod map;
pub mod measured_prices;
mod mmapped_arrays;
mod per_cpu;
mod probe_closer;
pub mod probed_batches;
pub mod probed_thread;
mod probes;
mod process_sets;
mod record_shares;
mod ring;
pub mod uprobe_selftest;

pub use hooks::CallHook;

use super::{kernel::Kernel, object::Object};
use aya::Btf;
use encode::ProgramOptions;
use hooks::{Hooks, Link};
use id_pool::IdPool;
use mmapped_arrays::MmappedArrays;
use monitor_backend::Error;
use monitor_backend::rule::aggregates::{GaugeIntegral, TraceRecords, ValueHistogram};
use monitor_backend::rule::call_prices::CallPrices;
use monitor_backend::rule::insn::{
    Cell, CellKind, GaugeChange, GaugeId, Insn, LatencyHistogramId, ProcessSetId, TimerId,
    TimerScope, TraceId, UserEventId, ValueHistogramId,
};
use monitor_backend::rule::rule_record::{self, RunCounts};
use monitor_backend::rule::{Children, ProgramId, RecordReader, RuleProgram, RuleResource, Rules};
use monitor_ebpf::abi::histogram;
use monitor_ebpf::abi::rule::record_share::OF_PROCESS;
use monitor_ebpf::abi::rule::{
    self as abi, MAX_CELLS, MAX_GAUGES, MAX_LATENCY_HISTOGRAMS, MAX_PROGRAMS, MAX_SETS, MAX_TIMERS,
    MAX_TRACES, MAX_VALUE_HISTOGRAMS, hook, value_histogram,
};
use monitor_model::{ErrnoPlace, Histogram, Pid};
use monitor_sys::membarrier;
use record_shares::RecordShares;
use ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;

/// Size of the ring relative to other objects: a rule may record each call of a function.
const RING_FACTOR: u32 = 4;

/// The loaded object and the resources in use.
pub struct KernelRules {
    object: Object,
    mapped: MmappedArrays,
    shares: RecordShares,
    hooks: Hooks,
    programs: BTreeMap<ProgramId, InstalledProgram>,
    /// Ids of removed programs that may still have probes.
    removed: Vec<ProgramId>,
    ids: IdPools,
    reader: Option<Ring>,
    n_timers: u32,
    /// Bit mask of the sets that children join.
    inherited: u64,
}

/// An installed program.
struct InstalledProgram {
    link: Link,
    options: ProgramOptions,
    version: u32,
    /// Whether the other version was ever active, and may still be running.
    was_replaced: bool,
}

/// The user of a process, unless it has ended.
fn owner(process: Pid) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{}", process.0)).ok()?.uid())
}

/// Allocators of ids.
struct IdPools {
    programs: IdPool,
    cells: IdPool,
    latency_histograms: IdPool,
    gauges: IdPool,
    value_histograms: IdPool,
    traces: IdPool,
    timers: IdPool,
    sets: IdPool,
    events: IdPool,
}

impl KernelRules {
    /// Loads the object; nothing is attached yet.
    pub fn open() -> Result<Self, Error> {
        Self::open_verified(|_, _, _| {})
    }

    /// The same, and verifies the programs of the births and ends of processes.
    pub fn open_for_events() -> Result<Self, Error> {
        Self::open_verified(|_, object, types| Hooks::verify_for_events(object, types))
    }

    /// The same, and verifies what the taps of calls need: it is attached in less time then.
    pub fn open_for_calls(probes: &[CallHook]) -> Result<Self, Error> {
        Self::open_verified(|hooks, object, types| {
            if !probes.is_empty() {
                hooks.verify_for_calls(object, probes, types);
            }
        })
    }

    fn open_verified(verify: impl FnOnce(&mut Hooks, &mut Object, &Btf)) -> Result<Self, Error> {
        monitor_sys::memory::raise_memlock_limit();
        let kernel = Kernel::read(0)?;
        let ring_bytes = kernel.machine.ring_bytes() * RING_FACTOR;
        let sizes = [(abi::RING, ring_bytes), (abi::MEMBERS, kernel.machine.rows())];
        let mut object = Object::load("rule", &kernel, &[], &sizes)?;
        let mut hooks = Hooks::default();
        verify(&mut hooks, &mut object, &kernel.btf);
        drop(kernel);
        monitor_sys::memory::trim_heap();
        let shares = RecordShares::from_object(&object)?;
        let wakes = map::mmapped(&object, abi::WAKES, 1)?;
        let reader =
            Some(Ring { records: object.ring(abi::RING)?, shares: shares.counts(), wakes });
        let timers = u32::try_from(MAX_TIMERS).unwrap_or(0);
        let ids = IdPools {
            programs: IdPool::new("programs", MAX_PROGRAMS),
            cells: IdPool::new("cells", MAX_CELLS),
            latency_histograms: IdPool::new("latency histograms", MAX_LATENCY_HISTOGRAMS),
            gauges: IdPool::new("gauges", MAX_GAUGES),
            value_histograms: IdPool::new("value histograms", MAX_VALUE_HISTOGRAMS),
            traces: IdPool::new("traces", MAX_TRACES),
            timers: IdPool::new("timers", timers),
            sets: IdPool::new("sets", MAX_SETS),
            events: IdPool::new("user events", hook::MAX_USER_EVENTS),
        };
        Ok(Self {
            mapped: MmappedArrays::from_object(&object)?,
            shares,
            object,
            hooks,
            programs: BTreeMap::new(),
            removed: Vec::new(),
            ids,
            reader,
            n_timers: 0,
            inherited: 0,
        })
    }

    fn write(
        &mut self,
        id: ProgramId,
        version: u32,
        program: &abi::EncodedProgram,
    ) -> Result<(), Error> {
        map::set(&mut self.object, abi::PROGRAMS, 2 * id.0 + version, program)?;
        map::set(&mut self.object, abi::VERSIONS, id.0, &version)
    }

    /// Writes a program under an id, disabled and with zero run counts.
    fn prepare(&mut self, id: ProgramId, program: &abi::EncodedProgram) -> Result<(), Error> {
        map::set(&mut self.object, abi::ENABLED, id.0, &0u32)?;
        map::set(&mut self.object, abi::RATE_WINDOWS, id.0, &abi::RateWindow::default())?;
        map::set_all(&mut self.object, abi::RUN_COUNTS, id.0, abi::RunCounts::default())?;
        self.write(id, 0, program)
    }

    /// The id of a new program. Those of removed ones are free when their probes are gone.
    fn take_program(&mut self) -> Result<ProgramId, Error> {
        for id in self.removed.extract_if(.., |id| !self.hooks.probes.has_probes(*id)) {
            self.ids.programs.give_back(id.0);
        }
        self.ids.programs.take().map(ProgramId)
    }

    fn install(&mut self, id: ProgramId, link: Link, options: ProgramOptions) -> ProgramId {
        let installed = InstalledProgram { link, options, version: 0, was_replaced: false };
        let _ = self.programs.insert(id, installed);
        id
    }

    /// The share of a user in the ring.
    fn share(&mut self, uid: u32) -> u8 {
        let used: BTreeSet<u8> = self.programs.values().map(|it| it.options.share).collect();
        self.shares.share(&mut self.object, uid, &used)
    }

    fn free_set(&mut self, set: ProcessSetId) {
        process_sets::clear(&mut self.object, set);
        self.inherited &= !process_sets::bit(set);
        let _ = map::set(&mut self.object, abi::INHERITED_SETS, 0, &self.inherited);
        self.ids.sets.give_back(set.0 - 1);
        self.hooks.n_sets -= 1;
        // Only detaches hooks here, which cannot fail.
        let _ = self.hooks.attach_needed(&mut self.object);
    }

    fn switch(&mut self, id: ProgramId, enabled: u32) {
        if self.programs.contains_key(&id)
            && let Err(error) = map::set(&mut self.object, abi::ENABLED, id.0, &enabled)
        {
            tracing::warn!(program = id.0, %error, "cannot enable or disable a rule");
        }
    }
}

impl Rules for KernelRules {
    fn make_cell(&mut self, kind: CellKind) -> Result<Cell, Error> {
        let index = self.ids.cells.take()?;
        per_cpu::reset_cell(&mut self.object, Cell { index, kind })
            .inspect_err(|_| self.ids.cells.give_back(index))?;
        Ok(Cell { index, kind })
    }

    fn make_latency_histogram(&mut self) -> Result<LatencyHistogramId, Error> {
        let id = LatencyHistogramId(self.ids.latency_histograms.take()?);
        map::set_all(&mut self.object, abi::LATENCY_HISTS, id.0, histogram::Histogram::EMPTY)
            .inspect_err(|_| self.ids.latency_histograms.give_back(id.0))?;
        Ok(id)
    }

    fn make_gauge(&mut self, first: i64) -> Result<GaugeId, Error> {
        let id = GaugeId(self.ids.gauges.take()?);
        self.mapped
            .reset_gauge(&mut self.object, id, first)
            .inspect_err(|_| self.ids.gauges.give_back(id.0))?;
        Ok(id)
    }

    fn make_value_histogram(&mut self) -> Result<ValueHistogramId, Error> {
        let cells = self.ids.cells.take_range(value_histogram::CELLS)?;
        let index = self.ids.value_histograms.take();
        let index =
            index.inspect_err(|_| self.ids.cells.give_back_range(cells, value_histogram::CELLS))?;
        let id = ValueHistogramId { index, cells };
        let reset = self.mapped.reset_value_histogram(&mut self.object, id);
        if let Err(error) = reset {
            self.free(RuleResource::ValueHistogram(id));
            return Err(error);
        }
        Ok(id)
    }

    fn make_trace(&mut self) -> Result<TraceId, Error> {
        let id = TraceId(self.ids.traces.take()?);
        self.mapped.reset_trace(id);
        Ok(id)
    }

    fn make_timer(&mut self, scope: TimerScope) -> Result<TimerId, Error> {
        let index = self.ids.timers.take()?;
        self.n_timers += 1;
        Ok(TimerId { index, generation: self.n_timers, scope })
    }

    fn make_set(&mut self, children: Children) -> Result<ProcessSetId, Error> {
        let set = ProcessSetId(self.ids.sets.take()? + 1);
        if children == Children::Included {
            self.inherited |= process_sets::bit(set);
        }
        self.hooks.n_sets += 1;
        let written = map::set(&mut self.object, abi::INHERITED_SETS, 0, &self.inherited);
        let attached = written.and_then(|()| self.hooks.attach_needed(&mut self.object));
        attached.inspect_err(|_| self.free_set(set))?;
        Ok(set)
    }

    fn make_event(&mut self) -> Result<UserEventId, Error> {
        self.ids.events.take().map(UserEventId)
    }

    fn free(&mut self, resource: RuleResource) {
        match resource {
            RuleResource::Cell(cell) => self.ids.cells.give_back(cell.index),
            RuleResource::Gauge(id) => self.ids.gauges.give_back(id.0),
            RuleResource::ValueHistogram(ValueHistogramId { index, cells }) => {
                self.ids.value_histograms.give_back(index);
                self.ids.cells.give_back_range(cells, value_histogram::CELLS);
            }
            RuleResource::Trace(id) => self.ids.traces.give_back(id.0),
            RuleResource::LatencyHistogram(id) => self.ids.latency_histograms.give_back(id.0),
            RuleResource::Timer(timer) => self.ids.timers.give_back(timer.index),
            RuleResource::Set(set) => self.free_set(set),
            RuleResource::Event(event) => self.ids.events.give_back(event.0),
        }
    }

    fn include(&mut self, set: ProcessSetId, process: Pid) -> Result<(), Error> {
        if let Some(uid) = owner(process) {
            _ = self.share(uid);
        }
        process_sets::include(&mut self.object, set, process)?;
        self.set_probes(process).map(drop)
    }

    fn set_probes(&mut self, process: Pid) -> Result<usize, Error> {
        self.hooks.probes.attach_in(&mut self.object, process)
    }

    fn set_errno_place(&mut self, process: Pid, place: Option<ErrnoPlace>) {
        process_sets::set_errno_place(&mut self.object, process, place);
    }

    fn has_leaving_probes(&self) -> bool {
        self.hooks.probes.has_leaving()
    }

    fn measure_call_prices(&mut self) -> Option<CallPrices> {
        CallPrices::or_measure(|| {
            let measured = measured_prices::measure(self);
            let warn = |error: &Error| tracing::warn!(%error, "cannot measure the cost of probes");
            measured.inspect_err(warn).ok()
        })
    }

    fn exclude(&mut self, set: ProcessSetId, process: Pid) {
        process_sets::exclude(&mut self.object, set, process);
        self.hooks.probes.detach_from(process, set);
    }

    fn make_switch(&mut self) -> Result<ProgramId, Error> {
        let id = self.take_program()?;
        let options = ProgramOptions { switch: id.0, ..ProgramOptions::default() };
        let nothing = encode::encode(&[], options)?;
        self.prepare(id, &nothing).inspect_err(|_| self.ids.programs.give_back(id.0))?;
        Ok(self.install(id, Link::None, options))
    }

    fn add(&mut self, program: &RuleProgram) -> Result<ProgramId, Error> {
        let (set, limit) = (program.set.map_or(0, |set| set.0), program.limit.unwrap_or(0));
        let id = self.take_program()?;
        let options = ProgramOptions {
            set,
            limit,
            switch: program.switch.unwrap_or(id).0,
            share: program.user.map_or(OF_PROCESS, |uid| self.share(uid)),
            credentials: program.credentials,
        };
        let encoded = encode::encode(&program.insns, options);
        let encoded = encoded.inspect_err(|_| self.ids.programs.give_back(id.0))?;
        let prepared = self.prepare(id, &encoded);
        let link = prepared.and_then(|()| self.hooks.link(&mut self.object, program, id));
        let link = link.inspect_err(|_| self.ids.programs.give_back(id.0))?;
        Ok(self.install(id, link, options))
    }

    fn replace(&mut self, id: ProgramId, insns: &[Insn]) -> Result<(), Error> {
        let Some(&InstalledProgram { options, version, was_replaced, .. }) = self.programs.get(&id)
        else {
            return Err(encode::unsupported("the program does not exist".into(), "add it"));
        };
        let encoded = encode::encode(insns, options)?;
        if was_replaced {
            // A run that started before the last replacement may still read this version.
            membarrier::global()
                .map_err(|source| Error::kernel("membarrier", "runs of a rule", source))?;
        }
        self.write(id, 1 - version, &encoded)?;
        if let Some(installed) = self.programs.get_mut(&id) {
            (installed.version, installed.was_replaced) = (1 - version, true);
        }
        Ok(())
    }

    fn enable(&mut self, id: ProgramId) {
        self.switch(id, 1);
    }

    fn disable(&mut self, id: ProgramId) {
        self.switch(id, 0);
    }

    fn is_enabled(&self, id: ProgramId) -> bool {
        self.programs.contains_key(&id) && map::get(&self.object, abi::ENABLED, id.0) == Some(1u32)
    }

    fn remove(&mut self, id: ProgramId) {
        self.switch(id, 0);
        let Some(installed) = self.programs.remove(&id) else { return };
        self.hooks.unlink(&mut self.object, installed.link, id);
        // If running programs cannot be waited for, the id stays allocated.
        if membarrier::global().is_ok() {
            self.removed.push(id);
        }
    }

    fn cell(&self, cell: Cell) -> Option<i64> {
        per_cpu::cell(&self.object, cell)
    }

    fn latency_histogram(&self, id: LatencyHistogramId) -> Histogram {
        per_cpu::latency_histogram(&self.object, id)
    }

    fn change_gauge(&mut self, id: GaugeId, change: GaugeChange) -> i64 {
        self.mapped.change_gauge(id, change)
    }

    fn gauge_integral(&self, id: GaugeId) -> GaugeIntegral {
        self.mapped.gauge_integral(&self.object, id)
    }

    fn value_histogram(&self, id: ValueHistogramId) -> ValueHistogram {
        self.mapped.value_histogram(&self.object, id)
    }

    fn trace_records(&self, id: TraceId, after: u64) -> TraceRecords {
        self.mapped.trace_records(id, after)
    }

    fn run_counts(&self, id: ProgramId) -> RunCounts {
        rule_record::sum_counts(map::get_all(&self.object, abi::RUN_COUNTS, id.0))
    }

    fn lost_records(&self) -> BTreeMap<Option<u32>, u64> {
        self.shares.lost()
    }

    fn take_reader(&mut self) -> Option<Box<dyn RecordReader>> {
        Some(Box::new(self.reader.take()?))
    }
}

#[cfg(test)]
mod tests;

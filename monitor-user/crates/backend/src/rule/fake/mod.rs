//! Rules without a kernel, for tests: the test reports what happens at hooks.
//!
//! In: programs, and [`HookHit`]s. Out: what the kernel's interpreter would count and record, with
//! the same arithmetic; the test sets the time and the memory. The only limit is that of a program.

mod run;
#[cfg(test)]
mod tests;

use super::aggregates::{GaugeIntegral, TraceRecord, TraceRecords, ValueHistogram};
use super::insn::{
    Cell, CellKind, GaugeChange, GaugeId, Insn, LatencyHistogramId, MAX_REGS, ProcessSetId,
    SignalTarget, TimerId, TimerScope, TraceId, UserEventId, ValueHistogramId, check_length,
};
use super::rule_record::{RuleRecord, RunCounts};
use super::{Children, HookPoint, ProgramId, RecordReader, RuleProgram, RuleResource, Rules};
use crate::Error;
use monitor_model::id::{Ns, Pid};
use monitor_model::{credentials::Credentials, errno_place::ErrnoPlace, histogram::Histogram};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// An event at a hook.
#[derive(Clone, Debug)]
pub struct HookHit {
    /// The hook.
    pub hook: HookPoint,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Pid,
    /// Credentials that may read the process, besides root.
    pub credentials: Option<Credentials>,
    /// Arguments of the hook.
    pub arguments: [u64; 6],
}

/// Programs and what they counted.
#[derive(Default)]
pub struct FakeRules {
    /// Current time.
    pub now: Ns,
    /// Contents of memory by address, the same for all processes.
    pub memory: HashMap<u64, u64>,
    /// Texts in memory.
    pub texts: HashMap<u64, Vec<u8>>,
    /// Signals sent by programs: process, number, target.
    pub signals: Vec<(Pid, u32, SignalTarget)>,
    programs: BTreeMap<ProgramId, AddedProgram>,
    switches: HashMap<ProgramId, bool>,
    cells: HashMap<u32, i64>,
    gauges: HashMap<u32, GaugeIntegral>,
    value_histograms: HashMap<u32, ValueHistogram>,
    traces: HashMap<u32, Vec<TraceRecord>>,
    histograms: HashMap<u32, Histogram>,
    calls: HashMap<(u32, Pid), Vec<TimerStart>>,
    sets: HashMap<u32, BTreeSet<Pid>>,
    inherited: BTreeSet<u32>,
    records: Arc<Mutex<VecDeque<RuleRecord>>>,
    last_id: u32,
}

/// A started timer: its start time, and the saved registers.
type TimerStart = (Ns, [u64; 3]);

struct AddedProgram {
    program: RuleProgram,
    counts: RunCounts,
}

impl FakeRules {
    /// A new id.
    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    fn change_cell(&mut self, cell: Cell, how: impl FnOnce(Option<i64>) -> i64) {
        let after = how(self.cells.get(&cell.index).copied());
        let _before = self.cells.insert(cell.index, after);
    }

    /// Changes a gauge as a program does; returns its new value.
    fn change_gauge_by_program(&mut self, id: GaugeId, change: GaugeChange) -> i64 {
        let now = self.now;
        let before = self.change_gauge(id, change);
        let integral = self.gauges.entry(id.0).or_default();
        let delta = integral.value - before;
        integral.count += 1;
        integral.changed += delta;
        integral.moments += i128::from(delta) * i128::from(now.0);
        integral.value
    }

    fn count_value(&mut self, id: ValueHistogramId, value: i64) {
        let histogram = self.value_histograms.entry(id.index).or_default();
        let Ok(number) = u64::try_from(value) else {
            histogram.n_negative += 1;
            return;
        };
        histogram.sum += value;
        histogram.min = Some(histogram.min.map_or(value, |least| least.min(value)));
        histogram.max = histogram.max.max(Some(value));
        match histogram.buckets.iter_mut().find(|(size, _)| *size == number) {
            Some((_, count)) => *count += 1,
            None => histogram.buckets.push((number, 1)),
        }
        histogram.buckets.sort_unstable();
    }
}

impl Rules for FakeRules {
    fn make_cell(&mut self, kind: CellKind) -> Result<Cell, Error> {
        Ok(Cell { index: self.next_id(), kind })
    }

    fn make_latency_histogram(&mut self) -> Result<LatencyHistogramId, Error> {
        Ok(LatencyHistogramId(self.next_id()))
    }

    fn make_gauge(&mut self, first: i64) -> Result<GaugeId, Error> {
        let id = GaugeId(self.next_id());
        let _none =
            self.gauges.insert(id.0, GaugeIntegral { value: first, ..GaugeIntegral::default() });
        Ok(id)
    }

    fn make_value_histogram(&mut self) -> Result<ValueHistogramId, Error> {
        Ok(ValueHistogramId { index: self.next_id(), cells: 0 })
    }

    fn make_trace(&mut self) -> Result<TraceId, Error> {
        Ok(TraceId(self.next_id()))
    }

    fn make_timer(&mut self, scope: TimerScope) -> Result<TimerId, Error> {
        Ok(TimerId { index: self.next_id(), generation: 1, scope })
    }

    fn make_set(&mut self, children: Children) -> Result<ProcessSetId, Error> {
        let set = ProcessSetId(self.next_id());
        if children == Children::Included {
            let _ = self.inherited.insert(set.0);
        }
        Ok(set)
    }

    fn make_event(&mut self) -> Result<UserEventId, Error> {
        Ok(UserEventId(self.next_id()))
    }

    fn free(&mut self, resource: RuleResource) {
        match resource {
            RuleResource::Cell(cell) => drop(self.cells.remove(&cell.index)),
            RuleResource::LatencyHistogram(id) => drop(self.histograms.remove(&id.0)),
            RuleResource::Gauge(id) => drop(self.gauges.remove(&id.0)),
            RuleResource::ValueHistogram(id) => drop(self.value_histograms.remove(&id.index)),
            RuleResource::Trace(id) => drop(self.traces.remove(&id.0)),
            RuleResource::Timer(timer) => self.calls.retain(|(index, _), _| *index != timer.index),
            RuleResource::Set(set) => drop(self.sets.remove(&set.0)),
            RuleResource::Event(_) => {}
        }
    }

    fn include(&mut self, set: ProcessSetId, process: Pid) -> Result<(), Error> {
        let _ = self.sets.entry(set.0).or_default().insert(process);
        Ok(())
    }

    fn set_probes(&mut self, _: Pid) -> Result<usize, Error> {
        Ok(0)
    }

    fn set_errno_place(&mut self, _: Pid, _: Option<ErrnoPlace>) {}

    fn exclude(&mut self, set: ProcessSetId, process: Pid) {
        let _ = self.sets.entry(set.0).or_default().remove(&process);
    }

    fn make_switch(&mut self) -> Result<ProgramId, Error> {
        let id = ProgramId(self.next_id());
        let _ = self.switches.insert(id, false);
        Ok(id)
    }

    fn add(&mut self, program: &RuleProgram) -> Result<ProgramId, Error> {
        check_length(&program.insns)?;
        let id = self.make_switch()?;
        let added = AddedProgram { program: program.clone(), counts: RunCounts::default() };
        let _ = self.programs.insert(id, added);
        Ok(id)
    }

    fn replace(&mut self, id: ProgramId, insns: &[Insn]) -> Result<(), Error> {
        check_length(insns)?;
        if let Some(added) = self.programs.get_mut(&id) {
            added.program.insns = insns.to_vec();
        }
        Ok(())
    }

    fn enable(&mut self, id: ProgramId) {
        let _ = self.switches.get_mut(&id).map(|it| *it = true);
    }

    fn disable(&mut self, id: ProgramId) {
        let _ = self.switches.get_mut(&id).map(|it| *it = false);
    }

    fn is_enabled(&self, id: ProgramId) -> bool {
        self.switches.get(&id).is_some_and(|it| *it)
    }

    fn remove(&mut self, id: ProgramId) {
        let _ = self.programs.remove(&id);
        let _ = self.switches.remove(&id);
    }

    fn cell(&self, cell: Cell) -> Option<i64> {
        let held = self.cells.get(&cell.index).copied();
        match cell.kind {
            CellKind::Sum => Some(held.unwrap_or(0)),
            CellKind::Min | CellKind::Max => held,
        }
    }

    fn latency_histogram(&self, id: LatencyHistogramId) -> Histogram {
        self.histograms.get(&id.0).cloned().unwrap_or_default()
    }

    fn change_gauge(&mut self, id: GaugeId, change: GaugeChange) -> i64 {
        let integral = self.gauges.entry(id.0).or_default();
        let before = integral.value;
        integral.value = change.apply(before);
        before
    }

    fn gauge_integral(&self, id: GaugeId) -> GaugeIntegral {
        self.gauges.get(&id.0).copied().unwrap_or_default()
    }

    fn value_histogram(&self, id: ValueHistogramId) -> ValueHistogram {
        self.value_histograms.get(&id.index).cloned().unwrap_or_default()
    }

    fn trace_records(&self, id: TraceId, after: u64) -> TraceRecords {
        let all = self.traces.get(&id.0).map_or(&[][..], Vec::as_slice);
        let new = usize::try_from(after).map_or(&[][..], |after| &all[after.min(all.len())..]);
        TraceRecords { n_made: after + new.len() as u64, n_lost: 0, records: new.to_vec() }
    }

    fn run_counts(&self, id: ProgramId) -> RunCounts {
        self.programs.get(&id).map(|added| added.counts).unwrap_or_default()
    }

    fn lost_records(&self) -> BTreeMap<Option<u32>, u64> {
        BTreeMap::new()
    }

    fn take_reader(&mut self) -> Option<Box<dyn RecordReader>> {
        Some(Box::new(FakeReader(Arc::clone(&self.records))))
    }
}

/// Reads the records of [`FakeRules`].
struct FakeReader(Arc<Mutex<VecDeque<RuleRecord>>>);

impl RecordReader for FakeReader {
    fn wake_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn read(&mut self, max: usize, take: &mut dyn FnMut(RuleRecord)) -> usize {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n_read = max.min(records.len());
        records.drain(..n_read).for_each(take);
        n_read
    }
}

/// Registers at the start of a run.
const ZERO_REGS: [u64; MAX_REGS] = [0; MAX_REGS];

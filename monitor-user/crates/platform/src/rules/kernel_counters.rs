//! The counters of rules: what the kernel counts for each instrument.
//!
//! In: counters, as steps name them. Out: their resources in the kernel, and their values since the
//! last reset. A counter stays when no program names it any longer, until its instrument is
//! removed.

use super::lower::unsupported;
use crate::poller::backend_refusal;
use monitor_backend::rule::insn::{CellKind, GaugeChange, GaugeId, TimerScope, TraceId};
use monitor_backend::rule::{RuleResource, Rules};
use monitor_backend::{Error, rule::aggregates::GaugeIntegral};
use monitor_event::action::{KernelCounter, KernelCounterKind, KernelCounterValue};
use monitor_event::{outcome::Refusal, trace::Trace};
use monitor_model::{Histogram, Ns};
use monitor_omis::Value;
use std::collections::BTreeMap;

/// The counters of all instruments.
#[derive(Default)]
pub struct KernelCounters {
    resources: BTreeMap<KernelCounter, RuleResource>,
    /// What levels had come to when they were forgotten: how often, and the area until then.
    reset_values: BTreeMap<u64, (u64, i128)>,
    /// What was taken out of traces before they were overwritten.
    traces: BTreeMap<u64, TraceReader>,
    /// Numbers whose counters programs may still name.
    removed: Vec<u64>,
}

/// What is known of a trace.
#[derive(Default)]
struct TraceReader {
    n_made: u64,
    kept: Trace,
}

impl KernelCounters {
    /// The resource of a counter; made, if it is new.
    pub fn make(
        &mut self,
        counter: KernelCounter,
        rules: &mut dyn Rules,
    ) -> Result<RuleResource, Refusal> {
        if let Some(resource) = self.resources.get(&counter) {
            return Ok(*resource);
        }
        let resource = match counter.kind {
            KernelCounterKind::Gauge => {
                return Err(unsupported("the first value of its gauge is not known"));
            }
            kind => make_resource(kind, rules).map_err(backend_refusal)?,
        };
        let _none = self.resources.insert(counter, resource);
        Ok(resource)
    }

    /// The level of a number; one that is new begins there.
    pub fn make_gauge(
        &mut self,
        number: u64,
        first: i64,
        rules: &mut dyn Rules,
    ) -> Result<GaugeId, Refusal> {
        if let Some(id) = self.gauge(number) {
            return Ok(id);
        }
        let id = rules.make_gauge(first).map_err(backend_refusal)?;
        let counter = KernelCounter { number, kind: KernelCounterKind::Gauge };
        let _none = self.resources.insert(counter, RuleResource::Gauge(id));
        Ok(id)
    }

    /// The value of a counter.
    pub fn read(&self, counter: KernelCounter, rules: &dyn Rules) -> KernelCounterValue {
        match self.resources.get(&counter) {
            Some(RuleResource::Cell(cell)) => {
                rules.cell(*cell).map_or(KernelCounterValue::Nothing, KernelCounterValue::Value)
            }
            Some(RuleResource::LatencyHistogram(id)) => {
                KernelCounterValue::LatencyHistogram(sizes(&rules.latency_histogram(*id)))
            }
            Some(RuleResource::ValueHistogram(id)) => {
                KernelCounterValue::ValueHistogram(rules.value_histogram(*id))
            }
            Some(RuleResource::Gauge(id)) => {
                let (count, area) =
                    self.reset_values.get(&counter.number).copied().unwrap_or_default();
                let it = rules.gauge_integral(*id);
                let (count, moments) = (it.count - count, it.moments + area);
                KernelCounterValue::Gauge(GaugeIntegral { count, moments, ..it })
            }
            _ => KernelCounterValue::Nothing,
        }
    }

    /// Changes a level; what it was before.
    pub fn change_gauge(
        &self,
        number: u64,
        how: GaugeChange,
        rules: &mut dyn Rules,
    ) -> Option<i64> {
        self.gauge(number).map(|id| rules.change_gauge(id, how))
    }

    /// Reads the new records of all traces.
    pub fn read_traces(&mut self, rules: &dyn Rules) {
        for (counter, resource) in &self.resources {
            if let RuleResource::Trace(id) = resource {
                self.traces.entry(counter.number).or_default().read(*id, rules);
            }
        }
    }

    /// The new records of a trace.
    pub fn take_trace(&mut self, number: u64, rules: &dyn Rules) -> Trace {
        let counter = KernelCounter { number, kind: KernelCounterKind::Trace };
        let Some(RuleResource::Trace(id)) = self.resources.get(&counter) else {
            return Trace::default();
        };
        let reader = self.traces.entry(number).or_default();
        reader.read(*id, rules);
        std::mem::take(&mut reader.kept)
    }

    /// Resets the counters of a number; returns the resources that programs no longer use.
    pub fn reset(&mut self, (number, now): (u64, Ns), rules: &dyn Rules) -> Vec<RuleResource> {
        if let Some(id) = self.gauge(number) {
            let area = rules.gauge_integral(id);
            let _before = self.reset_values.insert(number, (area.count, area.integral_at(now)));
        }
        self.remove(|counter| counter.number == number && counter.kind != KernelCounterKind::Gauge)
    }

    /// The instrument of a number has gone.
    pub fn instrument_removed(&mut self, number: u64) {
        self.removed.push(number);
    }

    /// Frees the counters of all removed instruments: no program names them any longer.
    pub fn free_removed(&mut self, rules: &mut dyn Rules) {
        let removed = std::mem::take(&mut self.removed);
        if removed.is_empty() {
            return;
        }
        self.reset_values.retain(|number, _| !removed.contains(number));
        let parts = self.remove(|counter| removed.contains(&counter.number));
        parts.into_iter().for_each(|part| rules.free(part));
    }

    fn remove(&mut self, is_meant: impl Fn(&KernelCounter) -> bool) -> Vec<RuleResource> {
        let removed = self.resources.extract_if(.., |counter, _| is_meant(counter));
        let forget = |(counter, resource): (KernelCounter, RuleResource)| {
            let _kept = self.traces.remove(&counter.number);
            resource
        };
        removed.map(forget).collect()
    }

    fn gauge(&self, number: u64) -> Option<GaugeId> {
        match self.resources.get(&KernelCounter { number, kind: KernelCounterKind::Gauge }) {
            Some(RuleResource::Gauge(id)) => Some(*id),
            _ => None,
        }
    }
}

impl TraceReader {
    fn read(&mut self, id: TraceId, rules: &dyn Rules) {
        let new = rules.trace_records(id, self.n_made);
        self.n_made = new.n_made;
        self.kept.lose(new.n_lost);
        for (at, values) in new.records {
            self.kept.record(at, values.into_iter().map(Value::from).collect());
        }
    }
}

fn make_resource(kind: KernelCounterKind, rules: &mut dyn Rules) -> Result<RuleResource, Error> {
    let mut cell = |kind| rules.make_cell(kind).map(RuleResource::Cell);
    match kind {
        KernelCounterKind::Count | KernelCounterKind::Sum => cell(CellKind::Sum),
        KernelCounterKind::Min => cell(CellKind::Min),
        KernelCounterKind::Max => cell(CellKind::Max),
        KernelCounterKind::LatencyHistogram => {
            rules.make_latency_histogram().map(RuleResource::LatencyHistogram)
        }
        KernelCounterKind::ValueHistogram => {
            rules.make_value_histogram().map(RuleResource::ValueHistogram)
        }
        KernelCounterKind::Gauge => rules.make_gauge(0).map(RuleResource::Gauge),
        KernelCounterKind::Trace => rules.make_trace().map(RuleResource::Trace),
        KernelCounterKind::ThreadTimer => {
            rules.make_timer(TimerScope::Thread).map(RuleResource::Timer)
        }
        KernelCounterKind::ProcessTimer => {
            rules.make_timer(TimerScope::Process).map(RuleResource::Timer)
        }
        KernelCounterKind::NodeTimer => rules.make_timer(TimerScope::Node).map(RuleResource::Timer),
    }
}

/// The largest of each size, and how many have it.
fn sizes(histogram: &Histogram) -> Vec<(u64, u64)> {
    let largest = |low: Ns, high: Ns| if high.0 == u64::MAX { low.0 } else { high.0 };
    histogram.buckets().map(|(low, high, count)| (largest(low, high), count)).collect()
}

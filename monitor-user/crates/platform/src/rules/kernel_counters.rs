//! The meters of programs: what the kernel counts in for each instrument.
//!
//! In: meters, as steps name them. Out: their places in the kernel, and what they hold since they
//! were forgotten last. A meter stays when no program names it any more, until its instrument goes.

use super::lower::{CounterResource, unsupported};
use crate::poller;
use monitor_backend::Error;
use monitor_backend::rule::aggregates::GaugeIntegral;
use monitor_backend::rule::insn::{CellKind, GaugeChange, GaugeId, TimerScope, TraceId};
use monitor_backend::rule::{RuleResource, Rules};
use monitor_event::action::{KernelCounter, KernelCounterKind, KernelCounterValue};
use monitor_event::outcome::Refusal;
use monitor_event::trace::Trace;
use monitor_model::histogram::Histogram;
use monitor_model::id::Ns;
use monitor_omis::Value;
use std::collections::BTreeMap;

/// All that there are.
#[derive(Default)]
pub struct KernelCounters {
    resources: BTreeMap<KernelCounter, CounterResource>,
    /// What levels had come to when they were forgotten: how often, and the area until then.
    reset_values: BTreeMap<u64, (u64, i128)>,
    /// What was taken out of traces before they were overwritten.
    traces: BTreeMap<u64, TraceReader>,
    /// Numbers of which lists may still name meters.
    removed: Vec<u64>,
}

/// What is known of a trace.
#[derive(Default)]
struct TraceReader {
    n_made: u64,
    kept: Trace,
}

impl KernelCounters {
    /// The place of a meter; it is made, if it is new.
    pub fn make(&mut self, meter: KernelCounter, rules: &mut dyn Rules) -> Result<CounterResource, Refusal> {
        if let Some(place) = self.resources.get(&meter) {
            return Ok(*place);
        }
        let place = match meter.kind {
            KernelCounterKind::Gauge => {
                return Err(unsupported("nobody has said at what its level begins"));
            }
            kind => make_resource(kind, rules).map_err(poller::backend_refusal)?,
        };
        let _none = self.resources.insert(meter, place);
        Ok(place)
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
        let id = rules.make_gauge(first).map_err(poller::backend_refusal)?;
        let meter = KernelCounter { number, kind: KernelCounterKind::Gauge };
        let _none = self.resources.insert(meter, CounterResource::Level(id));
        Ok(id)
    }

    /// What a meter holds.
    pub fn read(&self, meter: KernelCounter, rules: &dyn Rules) -> KernelCounterValue {
        match self.resources.get(&meter) {
            Some(CounterResource::Cell(cell)) => {
                rules.cell(*cell).map_or(KernelCounterValue::Nothing, KernelCounterValue::Value)
            }
            Some(CounterResource::Sizes(id)) => {
                KernelCounterValue::LatencyHistogram(sizes(&rules.latency_histogram(*id)))
            }
            Some(CounterResource::Spread(id)) => {
                KernelCounterValue::ValueHistogram(rules.value_histogram(*id))
            }
            Some(CounterResource::Level(id)) => {
                let (count, area) = self.reset_values.get(&meter.number).copied().unwrap_or_default();
                let it = rules.gauge_integral(*id);
                let (count, moments) = (it.count - count, it.moments + area);
                KernelCounterValue::Gauge(GaugeIntegral { count, moments, ..it })
            }
            Some(CounterResource::Timer(_) | CounterResource::Trace(_)) | None => KernelCounterValue::Nothing,
        }
    }

    /// Changes a level; what it was before.
    pub fn change_gauge(&self, number: u64, how: GaugeChange, rules: &mut dyn Rules) -> Option<i64> {
        self.gauge(number).map(|id| rules.change_gauge(id, how))
    }

    /// Takes what is new out of all traces.
    pub fn read_traces(&mut self, rules: &dyn Rules) {
        for (meter, place) in &self.resources {
            if let CounterResource::Trace(id) = place {
                self.traces.entry(meter.number).or_default().read(*id, rules);
            }
        }
    }

    /// What was recorded in a trace since this was asked last.
    pub fn take_trace(&mut self, number: u64, rules: &dyn Rules) -> Trace {
        let meter = KernelCounter { number, kind: KernelCounterKind::Trace };
        let Some(CounterResource::Trace(id)) = self.resources.get(&meter) else { return Trace::default() };
        let taken = self.traces.entry(number).or_default();
        taken.read(*id, rules);
        std::mem::take(&mut taken.kept)
    }

    /// Forgets what the meters of a number hold. Those that lists are given others for.
    pub fn reset(&mut self, (number, now): (u64, Ns), rules: &dyn Rules) -> Vec<RuleResource> {
        if let Some(id) = self.gauge(number) {
            let area = rules.gauge_integral(id);
            let _before = self.reset_values.insert(number, (area.count, area.integral_at(now)));
        }
        self.remove(|meter| meter.number == number && meter.kind != KernelCounterKind::Gauge)
    }

    /// The instrument of a number has gone.
    pub fn instrument_removed(&mut self, number: u64) {
        self.removed.push(number);
    }

    /// Lets go of the meters of all that have gone: no list names them any more.
    pub fn free_removed(&mut self, rules: &mut dyn Rules) {
        let left = std::mem::take(&mut self.removed);
        if left.is_empty() {
            return;
        }
        self.reset_values.retain(|number, _| !left.contains(number));
        let parts = self.remove(|meter| left.contains(&meter.number));
        parts.into_iter().for_each(|part| rules.free(part));
    }

    fn remove(&mut self, is_meant: impl Fn(&KernelCounter) -> bool) -> Vec<RuleResource> {
        let mut parts = Vec::new();
        self.resources.retain(|meter, place| {
            if is_meant(meter) {
                parts.push(place.part());
                let _kept = self.traces.remove(&meter.number);
            }
            !is_meant(meter)
        });
        parts
    }

    fn gauge(&self, number: u64) -> Option<GaugeId> {
        match self.resources.get(&KernelCounter { number, kind: KernelCounterKind::Gauge }) {
            Some(CounterResource::Level(id)) => Some(*id),
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

impl CounterResource {
    const fn part(self) -> RuleResource {
        match self {
            Self::Cell(cell) => RuleResource::Cell(cell),
            Self::Sizes(id) => RuleResource::LatencyHistogram(id),
            Self::Spread(id) => RuleResource::ValueHistogram(id),
            Self::Level(id) => RuleResource::Gauge(id),
            Self::Trace(id) => RuleResource::Trace(id),
            Self::Timer(timer) => RuleResource::Timer(timer),
        }
    }
}

fn make_resource(kind: KernelCounterKind, rules: &mut dyn Rules) -> Result<CounterResource, Error> {
    let mut cell = |kind| rules.make_cell(kind).map(CounterResource::Cell);
    match kind {
        KernelCounterKind::Count | KernelCounterKind::Sum => cell(CellKind::Sum),
        KernelCounterKind::Min => cell(CellKind::Min),
        KernelCounterKind::Max => cell(CellKind::Max),
        KernelCounterKind::LatencyHistogram => rules.make_latency_histogram().map(CounterResource::Sizes),
        KernelCounterKind::ValueHistogram => rules.make_value_histogram().map(CounterResource::Spread),
        KernelCounterKind::Gauge => rules.make_gauge(0).map(CounterResource::Level),
        KernelCounterKind::Trace => rules.make_trace().map(CounterResource::Trace),
        KernelCounterKind::ThreadTimer => rules.make_timer(TimerScope::Thread).map(CounterResource::Timer),
        KernelCounterKind::ProcessTimer => rules.make_timer(TimerScope::Process).map(CounterResource::Timer),
        KernelCounterKind::NodeTimer => rules.make_timer(TimerScope::Node).map(CounterResource::Timer),
    }
}

/// The largest of each size, and how many have it.
fn sizes(histogram: &Histogram) -> Vec<(u64, u64)> {
    let largest = |low: Ns, high: Ns| if high.0 == u64::MAX { low.0 } else { high.0 };
    histogram.buckets().map(|(low, high, count)| (largest(low, high), count)).collect()
}

//! The meters of programs: what the kernel counts in for each instrument.
//!
//! In: meters, as steps name them. Out: their places in the kernel, and what they hold since they
//! were forgotten last. A meter stays when no program names it any more, until its instrument goes.

use super::lower::{Place, unfit};
use crate::reading;
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
pub struct Meters {
    places: BTreeMap<KernelCounter, Place>,
    /// What levels had come to when they were forgotten: how often, and the area until then.
    forgotten: BTreeMap<u64, (u64, i128)>,
    /// What was taken out of traces before they were overwritten.
    taken: BTreeMap<u64, Taken>,
    /// Numbers of which lists may still name meters.
    left: Vec<u64>,
}

/// What is known of a trace.
#[derive(Default)]
struct Taken {
    n_made: u64,
    kept: Trace,
}

impl Meters {
    /// The place of a meter; it is made, if it is new.
    pub fn make(&mut self, meter: KernelCounter, rules: &mut dyn Rules) -> Result<Place, Refusal> {
        if let Some(place) = self.places.get(&meter) {
            return Ok(*place);
        }
        let place = match meter.kind {
            KernelCounterKind::Gauge => {
                return Err(unfit("nobody has said at what its level begins"));
            }
            kind => made(kind, rules).map_err(reading::failed)?,
        };
        let _none = self.places.insert(meter, place);
        Ok(place)
    }

    /// The level of a number; one that is new begins there.
    pub fn make_level(
        &mut self,
        number: u64,
        first: i64,
        rules: &mut dyn Rules,
    ) -> Result<GaugeId, Refusal> {
        if let Some(id) = self.level(number) {
            return Ok(id);
        }
        let id = rules.make_gauge(first).map_err(reading::failed)?;
        let meter = KernelCounter { number, kind: KernelCounterKind::Gauge };
        let _none = self.places.insert(meter, Place::Level(id));
        Ok(id)
    }

    /// What a meter holds.
    pub fn read(&self, meter: KernelCounter, rules: &dyn Rules) -> KernelCounterValue {
        match self.places.get(&meter) {
            Some(Place::Cell(cell)) => {
                rules.cell(*cell).map_or(KernelCounterValue::Nothing, KernelCounterValue::Value)
            }
            Some(Place::Sizes(id)) => {
                KernelCounterValue::LatencyHistogram(sizes(&rules.latency_histogram(*id)))
            }
            Some(Place::Spread(id)) => {
                KernelCounterValue::ValueHistogram(rules.value_histogram(*id))
            }
            Some(Place::Level(id)) => {
                let (count, area) = self.forgotten.get(&meter.number).copied().unwrap_or_default();
                let it = rules.gauge_integral(*id);
                let (count, moments) = (it.count - count, it.moments + area);
                KernelCounterValue::Gauge(GaugeIntegral { count, moments, ..it })
            }
            Some(Place::Timer(_) | Place::Trace(_)) | None => KernelCounterValue::Nothing,
        }
    }

    /// Changes a level; what it was before.
    pub fn move_level(&self, number: u64, how: GaugeChange, rules: &mut dyn Rules) -> Option<i64> {
        self.level(number).map(|id| rules.change_gauge(id, how))
    }

    /// Takes what is new out of all traces.
    pub fn look(&mut self, rules: &dyn Rules) {
        for (meter, place) in &self.places {
            if let Place::Trace(id) = place {
                self.taken.entry(meter.number).or_default().look(*id, rules);
            }
        }
    }

    /// What was recorded in a trace since this was asked last.
    pub fn take_records(&mut self, number: u64, rules: &dyn Rules) -> Trace {
        let meter = KernelCounter { number, kind: KernelCounterKind::Trace };
        let Some(Place::Trace(id)) = self.places.get(&meter) else { return Trace::default() };
        let taken = self.taken.entry(number).or_default();
        taken.look(*id, rules);
        std::mem::take(&mut taken.kept)
    }

    /// Forgets what the meters of a number hold. Those that lists are given others for.
    pub fn forget(&mut self, (number, now): (u64, Ns), rules: &dyn Rules) -> Vec<RuleResource> {
        if let Some(id) = self.level(number) {
            let area = rules.gauge_integral(id);
            let _before = self.forgotten.insert(number, (area.count, area.integral_at(now)));
        }
        self.remove(|meter| meter.number == number && meter.kind != KernelCounterKind::Gauge)
    }

    /// The instrument of a number has gone.
    pub fn leave(&mut self, number: u64) {
        self.left.push(number);
    }

    /// Lets go of the meters of all that have gone: no list names them any more.
    pub fn free_left(&mut self, rules: &mut dyn Rules) {
        let left = std::mem::take(&mut self.left);
        if left.is_empty() {
            return;
        }
        self.forgotten.retain(|number, _| !left.contains(number));
        let parts = self.remove(|meter| left.contains(&meter.number));
        parts.into_iter().for_each(|part| rules.free(part));
    }

    fn remove(&mut self, is_meant: impl Fn(&KernelCounter) -> bool) -> Vec<RuleResource> {
        let mut parts = Vec::new();
        self.places.retain(|meter, place| {
            if is_meant(meter) {
                parts.push(place.part());
                let _kept = self.taken.remove(&meter.number);
            }
            !is_meant(meter)
        });
        parts
    }

    fn level(&self, number: u64) -> Option<GaugeId> {
        match self.places.get(&KernelCounter { number, kind: KernelCounterKind::Gauge }) {
            Some(Place::Level(id)) => Some(*id),
            _ => None,
        }
    }
}

impl Taken {
    fn look(&mut self, id: TraceId, rules: &dyn Rules) {
        let new = rules.trace_records(id, self.n_made);
        self.n_made = new.n_made;
        self.kept.lose(new.n_lost);
        for (at, values) in new.records {
            self.kept.record(at, values.into_iter().map(Value::from).collect());
        }
    }
}

impl Place {
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

fn made(kind: KernelCounterKind, rules: &mut dyn Rules) -> Result<Place, Error> {
    let mut cell = |kind| rules.make_cell(kind).map(Place::Cell);
    match kind {
        KernelCounterKind::Count | KernelCounterKind::Sum => cell(CellKind::Sum),
        KernelCounterKind::Min => cell(CellKind::Min),
        KernelCounterKind::Max => cell(CellKind::Max),
        KernelCounterKind::LatencyHistogram => rules.make_latency_histogram().map(Place::Sizes),
        KernelCounterKind::ValueHistogram => rules.make_value_histogram().map(Place::Spread),
        KernelCounterKind::Gauge => rules.make_gauge(0).map(Place::Level),
        KernelCounterKind::Trace => rules.make_trace().map(Place::Trace),
        KernelCounterKind::ThreadTimer => rules.make_timer(TimerScope::Thread).map(Place::Timer),
        KernelCounterKind::ProcessTimer => rules.make_timer(TimerScope::Process).map(Place::Timer),
        KernelCounterKind::NodeTimer => rules.make_timer(TimerScope::Node).map(Place::Timer),
    }
}

/// The largest of each size, and how many have it.
fn sizes(histogram: &Histogram) -> Vec<(u64, u64)> {
    let largest = |low: Ns, high: Ns| if high.0 == u64::MAX { low.0 } else { high.0 };
    histogram.buckets().map(|(low, high, count)| (largest(low, high), count)).collect()
}

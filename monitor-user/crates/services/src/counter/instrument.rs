//! Instruments: counters, integrators, histograms, timers and traces.
//!
//! In: updates with their time. Out: nothing, or a refusal if the kind does not support the update.

use super::{gauge_integral::GaugeIntegral, stopwatch::Stopwatch, summary::Summary};
use monitor_backend::rule::insn::{GaugeChange, TimerScope};
use monitor_event::{Refusal, Trace};
use monitor_model::Ns;
use monitor_omis::{Status, Text, Value};

/// The kind of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentKind {
    /// Sums numbers.
    Counter,
    /// Keeps a gauge and its integral over time.
    Integrator,
    /// Counts numbers by their value.
    Histogram,
    /// Measures times from start to stop.
    Timer(TimerScope),
    /// Keeps the last records.
    Trace,
}

/// All kinds with their names.
pub const KINDS: &[(&str, InstrumentKind)] = &[
    ("counter", InstrumentKind::Counter),
    ("integrator", InstrumentKind::Integrator),
    ("histogram", InstrumentKind::Histogram),
    ("timer", InstrumentKind::Timer(TimerScope::Node)),
    ("process_timer", InstrumentKind::Timer(TimerScope::Process)),
    ("thread_timer", InstrumentKind::Timer(TimerScope::Thread)),
    ("trace", InstrumentKind::Trace),
];

impl InstrumentKind {
    /// The kind of this name.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        let found = KINDS.iter().find(|(own, _)| *own == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|(own, _)| *own).collect();
            let text = format!("kind \"{name}\": expected one of {}", names.join(", "));
            Refusal::new(Status::RANGE, text)
        })
    }

    /// The refusal of a service that needs another kind.
    pub fn refusal(self, wanted: &str) -> Refusal {
        Refusal::new(
            Status::TYPE,
            format!("the instrument is a {}, expected {wanted}", self.name()),
        )
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// An instrument.
#[derive(Debug)]
pub struct Instrument {
    /// Its number, unique on this node.
    pub number: u64,
    /// The unit of its numbers.
    pub unit: Text,
    /// Its state in user space.
    pub state: InstrumentState,
}

/// The state of an instrument in user space; the kernel may have a share of its own.
#[derive(Debug)]
pub enum InstrumentState {
    /// A counter.
    Counter(Summary),
    /// An integrator.
    Integrator(GaugeIntegral),
    /// A histogram.
    Histogram(Summary),
    /// A timer.
    Timer(Stopwatch),
    /// A trace.
    Trace(Trace),
}

impl Instrument {
    /// A new instrument.
    pub fn new(number: u64, kind: InstrumentKind, unit: Text, now: Ns) -> Self {
        let state = match kind {
            InstrumentKind::Counter => InstrumentState::Counter(Summary::default()),
            InstrumentKind::Integrator => InstrumentState::Integrator(GaugeIntegral::new(0, now)),
            InstrumentKind::Histogram => InstrumentState::Histogram(Summary::with_percentiles()),
            InstrumentKind::Timer(whose) => InstrumentState::Timer(Stopwatch::new(whose)),
            InstrumentKind::Trace => InstrumentState::Trace(Trace::default()),
        };
        Self { number, unit, state }
    }

    /// The kind.
    pub const fn kind(&self) -> InstrumentKind {
        match &self.state {
            InstrumentState::Counter(_) => InstrumentKind::Counter,
            InstrumentState::Integrator(_) => InstrumentKind::Integrator,
            InstrumentState::Histogram(_) => InstrumentKind::Histogram,
            InstrumentState::Timer(watch) => InstrumentKind::Timer(watch.key),
            InstrumentState::Trace(_) => InstrumentKind::Trace,
        }
    }

    /// Adds to a counter or sets its sum; or changes the gauge of an integrator, where `before` is
    /// the common value if the kernel changes it too.
    pub fn change(
        &mut self,
        how: GaugeChange,
        before: Option<i64>,
        now: Ns,
    ) -> Result<(), Refusal> {
        match (&mut self.state, how) {
            (InstrumentState::Counter(sum), GaugeChange::By(number)) => sum.add_number(number),
            (InstrumentState::Counter(sum), GaugeChange::To(number)) => sum.sum = number,
            (InstrumentState::Integrator(area), how) => area.apply(how, before, now),
            _ => return Err(self.kind().refusal("a counter or an integrator")),
        }
        Ok(())
    }

    /// Adds numbers to a histogram, or a record to a trace.
    pub fn record(&mut self, values: &[Value], now: Ns) -> Result<(), Refusal> {
        match &mut self.state {
            InstrumentState::Histogram(summary) => {
                let number = |value: &Value| value.integer().filter(|number| *number >= 0);
                let numbers: Option<Vec<i64>> = values.iter().map(number).collect();
                let wanted = "a histogram takes integers of 0 or more";
                let numbers = numbers.ok_or_else(|| Refusal::new(Status::RANGE, wanted))?;
                numbers.into_iter().for_each(|number| summary.add_number(number));
            }
            InstrumentState::Trace(trace) => trace.record(now, values.to_vec()),
            _ => return Err(self.kind().refusal("a histogram or a trace")),
        }
        Ok(())
    }

    /// Its timer.
    ///
    /// # Errors
    /// `TYPE` if it is not a timer.
    pub fn timer(&mut self) -> Result<&mut Stopwatch, Refusal> {
        let kind = self.kind();
        match &mut self.state {
            InstrumentState::Timer(watch) => Ok(watch),
            _ => Err(kind.refusal("a timer")),
        }
    }

    /// Resets it. An integrator keeps its gauge (`level` is the common value if the kernel changes
    /// it too), and running timers keep running.
    pub fn reset(&mut self, level: Option<i64>, now: Ns) {
        match &mut self.state {
            InstrumentState::Counter(sum) | InstrumentState::Histogram(sum) => *sum = sum.empty(),
            InstrumentState::Integrator(area) => *area = area.restarted(level, now),
            InstrumentState::Timer(watch) => {
                watch.times = watch.times.empty();
                watch.lost = 0;
            }
            InstrumentState::Trace(trace) => *trace = Trace::default(),
        }
    }
}

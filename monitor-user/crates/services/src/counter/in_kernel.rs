//! Instruments in the kernel: lowering of their updates, and their whole value.
//!
//! In: calls of stored requests. Out: steps; and the value of an instrument: the sum of its share
//! in the kernel and its share in user space. Both change one common gauge; the records of a trace
//! are moved out of the kernel when the trace is read.

use super::instrument::{Instrument, InstrumentKind, InstrumentState};
use super::{gauge_integral::GaugeIntegral, stopwatch::Stopwatch, summary::Summary};
use crate::{CallContext, lower::StoredCall};
use monitor_backend::rule::aggregates;
use monitor_backend::rule::insn::{GaugeChange, TimerScope};
use monitor_event::Trace;
use monitor_event::action::{
    EXTREMES, KernelCounter, KernelCounterKind, KernelCounterValue, Operand, Step,
};
use monitor_model::Ns;
use monitor_omis::{Expr, Value, Var};
use monitor_platform::Platform;

/// The kernel counters of a counter.
const COUNTER: &[KernelCounterKind] = &[
    KernelCounterKind::Count,
    KernelCounterKind::Sum,
    KernelCounterKind::Min,
    KernelCounterKind::Max,
];
/// The kernel counters of a timer.
const TIMER: &[KernelCounterKind] = &[
    KernelCounterKind::Count,
    KernelCounterKind::Sum,
    KernelCounterKind::Min,
    KernelCounterKind::Max,
    KernelCounterKind::LatencyHistogram,
];

/// Lowers `cnt_add`.
pub fn add(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    let (counter, operand) = (named(it)?, it.operand(1)?);
    match counter.kind() {
        InstrumentKind::Counter => {
            Some(vec![Step::Observe(operand, counters(counter.number, COUNTER))])
        }
        _ => change_gauge(counter, GaugeChange::By(operand)),
    }
}

/// Lowers `cnt_set` of an integrator. Counters are per-CPU in the kernel, so they cannot be set.
pub fn set(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    change_gauge(named(it)?, GaugeChange::To(it.operand(1)?))
}

/// Lowers `cnt_record`.
pub fn record(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    let named = named(it)?;
    let operands = it.operands(1).or_else(|| it.operand(1).map(|it| vec![it]))?;
    let meter = |kind| KernelCounter { number: named.number, kind };
    match named.kind() {
        InstrumentKind::Histogram => {
            let observe =
                |operand| Step::Observe(operand, vec![meter(KernelCounterKind::ValueHistogram)]);
            Some(operands.into_iter().map(observe).collect())
        }
        InstrumentKind::Trace => {
            Some(vec![Step::Record(operands, meter(KernelCounterKind::Trace))])
        }
        _ => None,
    }
}

/// Lowers `cnt_start`.
pub fn start(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    Some(vec![Step::StartTimer(timer(it)?)])
}

/// Lowers `cnt_stop`.
pub fn stop(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    let timer = timer(it)?;
    Some(vec![Step::StopTimer(timer, counters(timer.number, TIMER))])
}

/// The whole value of an instrument.
pub enum InstrumentValue<'i> {
    /// A counter.
    Counter(Summary),
    /// A histogram.
    Histogram(Summary),
    /// A timer and the summary of its times.
    Timer(&'i Stopwatch, Summary),
    /// An integrator.
    Integrator(GaugeIntegral),
    /// A trace.
    Trace(&'i Trace),
}

/// The whole value of an instrument: the shares of user space and of the kernel.
pub fn value<'i>(it: &'i Instrument, platform: &mut dyn Platform, now: Ns) -> InstrumentValue<'i> {
    let mut all = |own: &Summary, kinds| {
        let mut all = own.clone();
        counters(it.number, kinds)
            .into_iter()
            .for_each(|it| add_kernel_share(&mut all, it, platform));
        all
    };
    match &it.state {
        InstrumentState::Counter(sum) => InstrumentValue::Counter(all(sum, COUNTER)),
        InstrumentState::Histogram(sum) => {
            InstrumentValue::Histogram(all(sum, &[KernelCounterKind::ValueHistogram]))
        }
        InstrumentState::Timer(watch) => InstrumentValue::Timer(watch, all(&watch.times, TIMER)),
        InstrumentState::Integrator(area) => {
            InstrumentValue::Integrator(gauge_value(area, it.number, platform, now))
        }
        InstrumentState::Trace(trace) => InstrumentValue::Trace(trace),
    }
}

/// The gauge of an integrator in the kernel, if the kernel has it.
pub fn kernel_gauge(number: u64, platform: &mut dyn Platform) -> Option<aggregates::GaugeIntegral> {
    match platform.read_counter(KernelCounter { number, kind: KernelCounterKind::Gauge }) {
        KernelCounterValue::Gauge(area) => Some(area),
        _ => None,
    }
}

/// Moves the kernel's records into the trace of this name, if it is a trace.
pub fn take_records(ctx: &mut CallContext<'_>, name: &Value) {
    let Ok(it) = super::named(ctx, name) else { return };
    let (number, InstrumentKind::Trace) = (it.number, it.kind()) else { return };
    let newer = ctx.platform.take_trace(number);
    if let Ok(Instrument { state: InstrumentState::Trace(trace), .. }) = super::named(ctx, name) {
        trace.append(newer);
    }
}

fn add_kernel_share(all: &mut Summary, meter: KernelCounter, platform: &mut dyn Platform) {
    match (meter.kind, platform.read_counter(meter)) {
        (KernelCounterKind::Count, KernelCounterValue::Value(count)) => {
            all.count += count.cast_unsigned()
        }
        (KernelCounterKind::Sum, KernelCounterValue::Value(sum)) => {
            all.sum = all.sum.saturating_add(sum)
        }
        (_, KernelCounterValue::Value(extreme)) => all.extend(Some(extreme)),
        (_, KernelCounterValue::LatencyHistogram(sizes)) => all.add_buckets(&sizes),
        (_, KernelCounterValue::ValueHistogram(histogram)) => all.add_histogram(&histogram),
        (_, KernelCounterValue::Gauge(_) | KernelCounterValue::Nothing) => {}
    }
}

fn gauge_value(
    own: &GaugeIntegral,
    number: u64,
    platform: &mut dyn Platform,
    now: Ns,
) -> GaugeIntegral {
    let Some(kernel) = kernel_gauge(number, platform) else { return own.clone() };
    let mut whole = own.with_kernel(&kernel, now);
    for extreme in counters(number, &EXTREMES) {
        if let KernelCounterValue::Value(level) = platform.read_counter(extreme) {
            whole.extend(level);
        }
    }
    whole
}

/// The step that changes a gauge; it starts in the kernel with the value of user space.
fn change_gauge(it: &Instrument, how: GaugeChange<Operand>) -> Option<Vec<Step>> {
    match &it.state {
        InstrumentState::Integrator(area) => {
            Some(vec![Step::ChangeGauge(how, it.number, area.value)])
        }
        _ => None,
    }
}

fn named<'b>(it: &StoredCall<'b>) -> Option<&'b Instrument> {
    it.instruments.find(it.session.tool.session, it.value(0)?).ok()
}

fn counters(number: u64, kinds: &[KernelCounterKind]) -> Vec<KernelCounter> {
    kinds.iter().map(|kind| KernelCounter { number, kind: *kind }).collect()
}

/// The named timer, if it times the thread or process that hits the event, from the event on.
fn timer(it: &StoredCall<'_>) -> Option<KernelCounter> {
    let timer = named(it)?;
    let InstrumentKind::Timer(whose) = timer.kind() else { return None };
    let (subject, kind) = match whose {
        TimerScope::Thread => (Some("thread"), KernelCounterKind::ThreadTimer),
        TimerScope::Process => (Some("proc"), KernelCounterKind::ProcessTimer),
        TimerScope::Node => (None, KernelCounterKind::NodeTimer),
    };
    let is_of_event = match (&variables(it.args.get(1)?)?[..], subject) {
        ([], None) => true,
        ([named] | [named, "time"], Some(subject)) => *named == subject,
        _ => false,
    };
    is_of_event.then_some(KernelCounter { number: timer.number, kind })
}

/// The variable names of a list, if it has nothing else.
fn variables(list: &Expr) -> Option<Vec<&str>> {
    match list {
        Expr::List(list) => list.iter().map(variable).collect(),
        Expr::Value(value) if value.list().is_some_and(<[_]>::is_empty) => Some(Vec::new()),
        other => variable(other).map(|it| vec![it]),
    }
}

fn variable(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Var(Var::Named(name)) => Some(name.as_str()),
        _ => None,
    }
}

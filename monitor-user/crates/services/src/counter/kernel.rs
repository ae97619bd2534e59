//! What the kernel does of instruments, at the event itself.
//!
//! In: calls as they stand in stored requests. Out: steps, and what an instrument shows: what was
//! told here and in the kernel together. A level is one, for both; a trace is taken out of the
//! kernel when somebody looks at it.

use super::area::Area;
use super::instrument::{Instrument, Kind, Shows};
use super::stopwatch::Stopwatch;
use super::summary::Summary;
use crate::ctx::Ctx;
use crate::kernel::Bound;
use monitor_backend::rule::act::{Move, Whose};
use monitor_backend::rule::held;
use monitor_event::action::{EXTREMES, Meter, MeterKind, Metered, Operand, Step};
use monitor_event::trace::Trace;
use monitor_model::id::Ns;
use monitor_omis::{Expr, Value, Var};
use monitor_platform::Ground;

/// What a counter shows.
const SUMMED: &[MeterKind] = &[MeterKind::Count, MeterKind::Sum, MeterKind::Least, MeterKind::Most];
/// What a timer shows.
const TIMED: &[MeterKind] =
    &[MeterKind::Count, MeterKind::Sum, MeterKind::Least, MeterKind::Most, MeterKind::Sizes];

/// `cnt_add`.
pub fn add(it: &Bound<'_>) -> Option<Vec<Step>> {
    let (counter, operand) = (named(it)?, it.operand(1)?);
    match counter.kind() {
        Kind::Counter => Some(vec![Step::Tell(operand, meters(counter.number, SUMMED))]),
        _ => moved(counter, Move::By(operand)),
    }
}

/// `cnt_set`: a counter may be added to on any processor at once, and so is not set there.
pub fn set(it: &Bound<'_>) -> Option<Vec<Step>> {
    moved(named(it)?, Move::To(it.operand(1)?))
}

/// `cnt_record`.
pub fn record(it: &Bound<'_>) -> Option<Vec<Step>> {
    let named = named(it)?;
    let operands = it.operands(1).or_else(|| it.operand(1).map(|it| vec![it]))?;
    let meter = |kind| Meter { number: named.number, kind };
    match named.kind() {
        Kind::Histogram => {
            let tell = |operand| Step::Tell(operand, vec![meter(MeterKind::Spread)]);
            Some(operands.into_iter().map(tell).collect())
        }
        Kind::Trace => Some(vec![Step::Record(operands, meter(MeterKind::Trace))]),
        _ => None,
    }
}

/// `cnt_start`.
pub fn start(it: &Bound<'_>) -> Option<Vec<Step>> {
    Some(vec![Step::Begin(timer(it)?)])
}

/// `cnt_stop`.
pub fn stop(it: &Bound<'_>) -> Option<Vec<Step>> {
    let timer = timer(it)?;
    Some(vec![Step::End(timer, meters(timer.number, TIMED))])
}

/// What an instrument shows.
pub enum Shown<'i> {
    /// A counter.
    Counter(Summary),
    /// A histogram.
    Histogram(Summary),
    /// A timer, with all times.
    Timer(&'i Stopwatch, Summary),
    /// An integrator.
    Integrator(Area),
    /// A trace.
    Trace(&'i Trace),
}

/// What an instrument has been told, here and in the kernel.
pub fn shown<'i>(it: &'i Instrument, ground: &mut dyn Ground, now: Ns) -> Shown<'i> {
    let mut all = |own: &Summary, kinds| {
        let mut all = own.clone();
        meters(it.number, kinds).into_iter().for_each(|it| take_in(&mut all, it, ground));
        all
    };
    match &it.shows {
        Shows::Counter(sum) => Shown::Counter(all(sum, SUMMED)),
        Shows::Histogram(sum) => Shown::Histogram(all(sum, &[MeterKind::Spread])),
        Shows::Timer(watch) => Shown::Timer(watch, all(&watch.times, TIMED)),
        Shows::Integrator(area) => Shown::Integrator(whole(area, it.number, ground, now)),
        Shows::Trace(trace) => Shown::Trace(trace),
    }
}

/// What has become of a level in the kernel, if it has it.
pub fn level(number: u64, ground: &mut dyn Ground) -> Option<held::Area> {
    match ground.metered(Meter { number, kind: MeterKind::Level }) {
        Metered::Level(area) => Some(area),
        _ => None,
    }
}

/// Takes what the kernel has recorded into the trace of this name, if it is one.
pub fn take_records(ctx: &mut Ctx<'_>, name: &Value) {
    let Ok(it) = super::named(ctx, name) else { return };
    let (number, Kind::Trace) = (it.number, it.kind()) else { return };
    let newer = ctx.ground.take_records(number);
    if let Ok(Instrument { shows: Shows::Trace(trace), .. }) = super::named(ctx, name) {
        trace.append(newer);
    }
}

fn take_in(all: &mut Summary, meter: Meter, ground: &mut dyn Ground) {
    match (meter.kind, ground.metered(meter)) {
        (MeterKind::Count, Metered::Value(count)) => all.count += count.cast_unsigned(),
        (MeterKind::Sum, Metered::Value(sum)) => all.sum = all.sum.saturating_add(sum),
        (_, Metered::Value(extreme)) => all.reach(Some(extreme)),
        (_, Metered::Sizes(sizes)) => all.add_sizes(&sizes),
        (_, Metered::Spread(spread)) => all.add(&spread),
        (_, Metered::Level(_) | Metered::Nothing) => {}
    }
}

fn whole(own: &Area, number: u64, ground: &mut dyn Ground, now: Ns) -> Area {
    let Some(kernel) = level(number, ground) else { return own.clone() };
    let mut whole = own.with(&kernel, now);
    for extreme in meters(number, &EXTREMES) {
        if let Metered::Value(level) = ground.metered(extreme) {
            whole.reach(level);
        }
    }
    whole
}

/// The level of an integrator as it is here is where it begins in the kernel.
fn moved(it: &Instrument, how: Move<Operand>) -> Option<Vec<Step>> {
    match &it.shows {
        Shows::Integrator(area) => Some(vec![Step::Move(how, it.number, area.level)]),
        _ => None,
    }
}

fn named<'b>(it: &Bound<'b>) -> Option<&'b Instrument> {
    it.shelf.find(it.session.tool.session, it.value(0)?).ok()
}

fn meters(number: u64, kinds: &[MeterKind]) -> Vec<Meter> {
    kinds.iter().map(|kind| Meter { number, kind: *kind }).collect()
}

/// The timer that is named, if it is that of whoever meets the event, from when he meets it.
fn timer(it: &Bound<'_>) -> Option<Meter> {
    let timer = named(it)?;
    let Kind::Timer(whose) = timer.kind() else { return None };
    let (who, kind) = match whose {
        Whose::Thread => (Some("thread"), MeterKind::ThreadTimer),
        Whose::Process => (Some("proc"), MeterKind::ProcessTimer),
        Whose::Node => (None, MeterKind::NodeTimer),
    };
    let is_event_s = match (&variables(it.args.get(1)?)?[..], who) {
        ([], None) => true,
        ([named] | [named, "time"], Some(who)) => *named == who,
        _ => false,
    };
    is_event_s.then_some(Meter { number: timer.number, kind })
}

/// The variables of a list of nothing else.
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

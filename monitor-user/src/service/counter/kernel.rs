//! What the kernel does of instruments: it adds to counters and measures times, at the event.
//!
//! In: calls as they stand in stored requests. Out: steps, and what the kernel has counted, with
//! what was counted here. Its histograms begin at a microsecond, so only times are sorted there;
//! the extremes of a level nobody keeps there, so integrators stay here.

use super::instrument::{Instrument, Kind, Shows};
use super::summary::Summary;
use crate::backend::rule::act::Whose;
use crate::omis::{Expr, Var};
use crate::service::ground::Ground;
use crate::service::kernel::{Bound, Meter, MeterKind, Step};

/// What a counter shows.
const SUMMED: &[MeterKind] = &[MeterKind::Count, MeterKind::Sum, MeterKind::Least, MeterKind::Most];
/// What a timer shows.
const TIMED: &[MeterKind] =
    &[MeterKind::Count, MeterKind::Sum, MeterKind::Least, MeterKind::Most, MeterKind::Sizes];

/// `cnt_add`.
pub fn add(it: &Bound<'_>) -> Option<Vec<Step>> {
    let counter = named(it)?;
    let is_counter = counter.kind() == Kind::Counter;
    let operand = it.operand(1).filter(|_| is_counter)?;
    Some(vec![Step::Tell(operand, meters(counter.number, SUMMED))])
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

/// What an instrument has counted, here and in the kernel; nothing, if it is of another kind.
pub fn summed(it: &Instrument, ground: &mut dyn Ground) -> Option<Summary> {
    let (own, kinds) = match &it.shows {
        Shows::Counter(sum) => (sum, SUMMED),
        Shows::Timer(watch) => (&watch.times, TIMED),
        Shows::Integrator(_) | Shows::Histogram(_) | Shows::Trace(_) => return None,
    };
    let mut all = own.clone();
    for meter in meters(it.number, kinds) {
        let metered = ground.metered(meter);
        let value = metered.value;
        match meter.kind {
            MeterKind::Count => all.count += value.map_or(0, i64::cast_unsigned),
            MeterKind::Sum => all.sum = all.sum.saturating_add(value.unwrap_or(0)),
            MeterKind::Least => all.least = [all.least, value].into_iter().flatten().min(),
            MeterKind::Most => all.most = all.most.max(value),
            _ => all.add_sizes(&metered.sizes),
        }
    }
    Some(all)
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

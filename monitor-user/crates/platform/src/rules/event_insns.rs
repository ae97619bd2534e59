//! What a rule program can read at its event, and what its records mean.
//!
//! In: the event of a rule, its predicate and its steps. Out: instructions that fetch and compare
//! values, and events from records. Pure: nothing is attached here.

use super::lower::{self, LoweredStep, SCRATCH};
use super::tracepoints::Tracepoint;
use crate::tap::plan::{CallPlan, ValueSlot};
use crate::{CompiledRule, PlatformEvent, RuleKey};
use monitor_backend::rule::insn::{
    Builtin, Compare, Insn, RecordOptions, Reg as Slot, StopSets, Width,
};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_event::action::{Operand, Step};
use monitor_event::node_event::{EventKind, NodeEvent, Predicate, is_shared};
use monitor_event::{outcome::EventParam, right::SessionId, tap::Edge};
use monitor_omis::Value;
use monitor_symbols::{signatures::call::ValueType, signatures::traced_values::ValueSource};

/// Where the parameters of a raised event are: how many, then each.
const PARAMETERS: [u8; 4] = [0, 1, 2, 3];

/// An event of a session, or of all.
pub type EventKey = (Option<SessionId>, i64);

/// The key of the event with this number, as a session names it.
pub fn event_key(session: SessionId, number: i64) -> EventKey {
    ((!is_shared(number)).then_some(session), number)
}

/// The events that a rule is for, or raises.
pub fn events((key, program): (RuleKey, &CompiledRule)) -> Vec<EventKey> {
    let raised = program.steps.iter().filter_map(|step| match step {
        Step::Raise(number, _) => Some(*number),
        _ => None,
    });
    let own = match program.event {
        EventKind::User(number) => Some(number),
        _ => None,
    };
    raised.chain(own).map(|number| event_key(key.0, number)).collect()
}

/// What must be equal so that a program runs on; one for each possible value.
pub fn alternatives(check: Option<&Predicate>) -> Vec<Option<(Operand, i64)>> {
    match check {
        Some(Predicate::OneOf(place, values)) => {
            let operand = Operand::Param(u32::try_from(*place).map_or(u32::MAX, |it| it + 1));
            values.iter().filter_map(|it| it.integer().map(|it| Some((operand, it)))).collect()
        }
        // The compiler asks for none of the others.
        Some(_) | None => vec![None],
    }
}

/// Reads the parameters of a raised event.
pub fn param_insns() -> Vec<Insn> {
    PARAMETERS.iter().map(|n| Insn::Argument(Slot(*n), *n, Width::U64)).collect()
}

/// What fetches a number at a tracepoint or a raised event; nothing, if it is not known there.
pub fn fetch_insn(topic: &EventKind, operand: Operand, to: Slot) -> Option<Insn> {
    let is_raised = matches!(topic, EventKind::User(_));
    Some(match (operand, topic) {
        (Operand::Known(number), _) => Insn::Constant(to, number),
        (Operand::Time, _) => Insn::Builtin(to, Builtin::Time),
        // Raised events belong to no process.
        (Operand::Thread, _) if is_raised => Insn::Constant(to, -1),
        (Operand::Thread, _) => Insn::Builtin(to, Builtin::Tid),
        (Operand::Pc, _) => Insn::Constant(to, -1),
        (Operand::Param(2), EventKind::Signalled) => Insn::Argument(to, 1, Width::U64),
        (Operand::Param(3), EventKind::Scheduled) => Insn::Builtin(to, Builtin::Cpu),
        (Operand::Param(place), EventKind::User(_)) => {
            let place = u8::try_from(place).ok().filter(|it| PARAMETERS[1..].contains(it))?;
            Insn::Argument(to, place, Width::U64)
        }
        (Operand::Param(_), _) => return None,
    })
}

/// The instructions of a program at a call, beside those of the plan of the call.
pub fn call_insns(
    plan: &CallPlan,
    edge: Edge,
    (steps, check, reports): (&[LoweredStep], Option<&Predicate>, bool),
    holds: Option<StopSets>,
) -> Result<Vec<Insn>, String> {
    let own = if edge == Edge::Start { &plan.entry } else { &plan.exit };
    let fetch = |operand, to| call_fetch_insn(plan, own, operand, to);
    let mut head = Vec::new();
    match alternatives(check)[..] {
        [None] => {}
        [Some((operand, value))] => {
            head.push(fetch(operand, Slot(SCRATCH)).ok_or("it checks something unknown")?);
            head.push(Insn::Filter(Slot(SCRATCH), Compare::Equal, value));
        }
        _ => return Err("it checks for several values".to_owned()),
    }
    let tail = own.iter().filter(|_| reports).map(|insn| match insn {
        Insn::Record(it) => Insn::Record(RecordOptions { stop: holds, ..*it }),
        other => *other,
    });
    let tail = tail.collect();
    lower::program_insns(head, steps, tail, &fetch).map_err(|why| why.text)
}

/// What fetches a number at a call: an argument in a register, or the result.
fn call_fetch_insn(plan: &CallPlan, insns: &[Insn], operand: Operand, to: Slot) -> Option<Insn> {
    let place = match operand {
        Operand::Known(number) => return Some(Insn::Constant(to, number)),
        Operand::Time => return Some(Insn::Builtin(to, Builtin::Time)),
        Operand::Thread => return Some(Insn::Builtin(to, Builtin::Tid)),
        Operand::Pc => return Some(Insn::Builtin(to, Builtin::Ip)),
        // The first is the process, which is not in the plan.
        Operand::Param(place) => usize::try_from(place).ok()?.checked_sub(2)?,
    };
    let traced = plan.values.get(place)?;
    let is_number = matches!(traced.kind, ValueType::Number(_) | ValueType::Named(..));
    let is_direct = matches!(traced.source, ValueSource::Argument(_) | ValueSource::Result);
    let Some(ValueSlot::Value(slot)) = plan.slots.get(place).filter(|_| is_number && is_direct)
    else {
        return None;
    };
    insns.iter().find_map(|insn| match insn {
        Insn::Argument(Slot(it), n, width) if it == slot => Some(Insn::Argument(to, *n, *width)),
        _ => None,
    })
}

/// The event of a record, except for calls.
pub fn event_of_record(topic: &EventKind, record: &Record) -> Option<NodeEvent> {
    if let EventKind::User(_) = topic {
        let [count, values @ ..] = &record.regs;
        let count = usize::try_from(*count).ok()?.min(PARAMETERS.len() - 1);
        let values = values[..count].iter();
        let params = values.map(|it| EventParam::Value(Value::from(it.cast_signed())));
        return Some(NodeEvent::new(topic.clone(), record.at, params.collect()));
    }
    let [tracepoint] = Tracepoint::for_event(topic, false) else { return None };
    tracepoint.events(record).into_iter().find_map(|it| match it {
        PlatformEvent::Event(it) => Some(it),
        _ => None,
    })
}

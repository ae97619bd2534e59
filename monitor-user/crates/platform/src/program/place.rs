//! Where a program runs: its lists at a tracepoint or an event, or on the taps of a function; and
//! what their records mean.

use super::look::Look;
use super::lower::{self, SCRATCH, Stepped, named};
use super::set::processes;
use super::{EventKey, Kernel, Named, Placement, event_key};
use crate::events::Happening;
use crate::list::{Program, RuleKey};
use crate::reading;
use crate::tap::plan::{Plan, Slot as Told};
use crate::tap::rider::Rider;
use monitor_backend::rule::insn::{
    Builtin, Compare, Insn, RecordOptions, Reg as Slot, StopSets, UserEventId, Width,
};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{HookPoint, RuleProgram};
use monitor_event::action::{Operand, Step};
use monitor_event::node_event::{EventKind, NodeEvent, Predicate};
use monitor_event::outcome;
use monitor_event::outcome::Refusal;
use monitor_event::right::Tool;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_model::id::Pid;
use monitor_omis::Value;
use monitor_symbols::signatures::call::ValueType;
use monitor_symbols::signatures::traced_values::ValueSource;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where the parameters of a raised event are: how many, then each.
const PARAMETERS: [u8; 4] = [0, 1, 2, 3];
/// A record that wakes its reader.
const RECORD: RecordOptions = RecordOptions { texts: 0, stack: false, urgent: true, stop: None };

/// What a list does, and how it holds who meets its event.
struct Steps {
    steps: Vec<Stepped>,
    holds: Option<StopSets>,
}

impl Placement {
    /// Has the lists of a program do what it says, where it says.
    pub(super) fn settle(&mut self, key: RuleKey, kernel: &mut dyn Kernel) -> Result<(), Refusal> {
        let Some(placed) = self.placed.get(&key) else { return Ok(()) };
        let program = placed.program.clone();
        let mut names = Named {
            session: key.0,
            placed: &self.placed,
            events: &mut self.events,
            meters: &mut self.meters,
            rules: kernel.rules(),
        };
        let steps = named(&program, &mut names)?;
        let of = |tool: Tool| self.holds.of(tool.uid, kernel.rules());
        let steps = Steps { steps, holds: program.holds.map(of).transpose()? };
        match &program.topic {
            EventKind::Called(tap) => self.settle_rider(key, tap, &program, steps, kernel),
            _ => self.settle_lists(key, &program, steps, kernel),
        }
    }

    fn settle_lists(
        &mut self,
        key: RuleKey,
        program: &Program,
        Steps { steps, holds }: Steps,
        kernel: &mut dyn Kernel,
    ) -> Result<(), Refusal> {
        let set = self.sets.of(&program.whose);
        let (place, head) = match (&program.topic, Look::of(&program.topic, false)) {
            (EventKind::User(number), _) => {
                let event = self.event(key, *number, kernel)?;
                (HookPoint::Raised(event), parameters())
            }
            (_, [look]) => (look.place(), look.acts(set)),
            _ => return Err(lower::unfit("its event is not seen there")),
        };
        let fetch = |operand, to| fetched(&program.topic, operand, to);
        let mut wanted = Vec::new();
        for choice in choices(program.check.as_ref()) {
            let mut head = head.clone();
            if let Some((operand, value)) = choice {
                let (slot, unknown) =
                    (Slot(SCRATCH), || lower::unfit("it checks something unknown"));
                head.push(fetch(operand, slot).ok_or_else(unknown)?);
                head.push(Insn::Filter(slot, Compare::Equal, value));
            }
            let record = Insn::Record(RecordOptions { stop: holds, ..RECORD });
            let tail = program.tells.then_some(record).into_iter().collect();
            wanted.push(lower::acts(head, &steps, tail, &fetch)?);
        }
        let Some(placed) = self.placed.get_mut(&key) else { return Ok(()) };
        for (at, acts) in wanted.into_iter().enumerate() {
            if let Some(list) = placed.lists.get(at) {
                kernel.rules().replace(*list, &acts).map_err(reading::failed)?;
                continue;
            }
            let list = RuleProgram::new(place.clone(), set, acts);
            let (limit, switch) = (Some(program.most), Some(placed.switch));
            let list = RuleProgram { limit, switch, credentials: program.eyes, ..list };
            let id = kernel.rules().add(&list).map_err(reading::failed)?;
            placed.lists.push(id);
            let _none = self.owners.insert(id, key);
        }
        placed.steps = steps;
        Ok(())
    }

    fn settle_rider(
        &mut self,
        key: RuleKey,
        tap: &Tap,
        program: &Program,
        Steps { steps, holds }: Steps,
        kernel: &mut dyn Kernel,
    ) -> Result<(), Refusal> {
        let Some(set) = self.sets.of(&program.whose) else { return Ok(()) };
        let Some(placed) = self.placed.get_mut(&key) else { return Ok(()) };
        let pids = processes(&program.whose).into_iter().flatten();
        let pids: BTreeSet<Pid> = pids.map(|id| id.pid).collect();
        let is_known = placed.is_set && placed.steps == steps && placed.pids == pids;
        if is_known {
            return Ok(());
        }
        placed.is_set = true;
        placed.pids.clone_from(&pids);
        placed.steps.clone_from(&steps);
        let (check, tells) = (program.check.clone(), program.tells);
        let edge = tap.edge;
        let make = move |plan: &Plan| ridden(plan, edge, (&steps, check.as_ref(), tells), holds);
        let (tap, switch) = (tap.clone(), placed.switch);
        let (most, eyes) = (program.most, program.eyes);
        let _none = self.riders.insert(program.serial, key);
        kernel.ride(
            program.serial,
            Rider { tap, set, switch, most, eyes, pids, tells, make: Arc::new(make) },
        )
    }

    fn event(
        &mut self,
        key: RuleKey,
        number: i64,
        kernel: &mut dyn Kernel,
    ) -> Result<UserEventId, Refusal> {
        use super::lower::Names as _;
        let (events, meters) = (&mut self.events, &mut self.meters);
        let (placed, rules) = (&self.placed, kernel.rules());
        Named { session: key.0, placed, events, meters, rules }.event(number)
    }
}

/// The events that a program is for, or raises.
pub(super) fn events((key, program): (RuleKey, &Program)) -> Vec<EventKey> {
    let raised = program.steps.iter().filter_map(|step| match step {
        Step::Raise(number, _) => Some(*number),
        _ => None,
    });
    let own = match program.topic {
        EventKind::User(number) => Some(number),
        _ => None,
    };
    raised.chain(own).map(|number| event_key(key.0, number)).collect()
}

/// What must be told so that a list runs; one for each value that may be.
fn choices(check: Option<&Predicate>) -> Vec<Option<(Operand, i64)>> {
    match check {
        Some(Predicate::OneOf(place, values)) => {
            let operand = Operand::Param(u32::try_from(*place).map_or(u32::MAX, |it| it + 1));
            values.iter().filter_map(|it| it.integer().map(|it| Some((operand, it)))).collect()
        }
        // The compiler asks for none of the others.
        Some(Predicate::Not(..) | Predicate::AtLeast(..) | Predicate::All(_)) | None => vec![None],
    }
}

fn parameters() -> Vec<Insn> {
    PARAMETERS.iter().map(|n| Insn::Argument(Slot(*n), *n, Width::U64)).collect()
}

/// What fetches a number at a tracepoint or a raised event; nothing, if it is not known there.
fn fetched(topic: &EventKind, operand: Operand, to: Slot) -> Option<Insn> {
    let is_raised = matches!(topic, EventKind::User(_));
    Some(match (operand, topic) {
        (Operand::Known(number), _) => Insn::Constant(to, number),
        (Operand::Time, _) => Insn::Builtin(to, Builtin::Time),
        // Events that are raised are nobody's in particular.
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

/// The acts of a list at a call, beside those that the plan of the call has for telling.
fn ridden(
    plan: &Plan,
    edge: Edge,
    (steps, check, tells): (&[Stepped], Option<&Predicate>, bool),
    holds: Option<StopSets>,
) -> Result<Vec<Insn>, String> {
    let own = if edge == Edge::Start { &plan.entry } else { &plan.exit };
    let fetch = |operand, to| called(plan, own, operand, to);
    let mut head = Vec::new();
    match choices(check)[..] {
        [None] => {}
        [Some((operand, value))] => {
            head.push(fetch(operand, Slot(SCRATCH)).ok_or("it checks something unknown")?);
            head.push(Insn::Filter(Slot(SCRATCH), Compare::Equal, value));
        }
        _ => return Err("it checks for several values".to_owned()),
    }
    let tail = own.iter().filter(|_| tells).map(|act| match act {
        Insn::Record(it) => Insn::Record(RecordOptions { stop: holds, ..*it }),
        other => *other,
    });
    let tail = tail.collect();
    lower::acts(head, steps, tail, &fetch).map_err(|why| why.text)
}

/// What fetches a number at a call: an argument in a register, or the result.
fn called(plan: &Plan, acts: &[Insn], operand: Operand, to: Slot) -> Option<Insn> {
    let place = match operand {
        Operand::Known(number) => return Some(Insn::Constant(to, number)),
        Operand::Time => return Some(Insn::Builtin(to, Builtin::Time)),
        Operand::Thread => return Some(Insn::Builtin(to, Builtin::Tid)),
        Operand::Pc => return Some(Insn::Builtin(to, Builtin::Ip)),
        // The first is the process, which the plan does not tell.
        Operand::Param(place) => usize::try_from(place).ok()?.checked_sub(2)?,
    };
    let told = plan.told.get(place)?;
    let is_number = matches!(told.kind, ValueType::Number(_) | ValueType::Named(..));
    let is_direct = matches!(told.source, ValueSource::Argument(_) | ValueSource::Result);
    let Some(Told::Value(slot)) = plan.slots.get(place).filter(|_| is_number && is_direct) else {
        return None;
    };
    acts.iter().find_map(|act| match act {
        Insn::Argument(Slot(it), n, width) if it == slot => Some(Insn::Argument(to, *n, *width)),
        _ => None,
    })
}

/// What a record of a program tells, but for calls.
pub(super) fn occurrence(topic: &EventKind, record: &Record) -> Option<NodeEvent> {
    if let EventKind::User(_) = topic {
        let [count, values @ ..] = &record.regs;
        let count = usize::try_from(*count).ok()?.min(PARAMETERS.len() - 1);
        let told = values[..count]
            .iter()
            .map(|it| outcome::EventParam::Value(Value::from(it.cast_signed())));
        return Some(NodeEvent::new(topic.clone(), record.at, told.collect()));
    }
    let [look] = Look::of(topic, false) else { return None };
    look.happened(record).into_iter().find_map(|it| match it {
        Happening::Occurred(it) => Some(it),
        _ => None,
    })
}

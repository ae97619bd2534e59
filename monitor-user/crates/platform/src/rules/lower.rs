//! Lowers the steps of a rule to instructions of a program.
//!
//! In: steps, and the resources of what they name. Out: instructions, with numbers that are fetched
//! just before they are used into registers of their own. Pure.

use crate::CompiledRule;
use monitor_backend::rule::insn::{
    GaugeChange, GaugeId, Insn, MAX_INSNS, Reg as Slot, SignalTarget, TimerId, UserEventId,
};
use monitor_backend::rule::{ProgramId, RuleResource};
use monitor_event::action::{EXTREMES, KernelCounter, KernelCounterKind, Operand, Step};
use monitor_event::outcome::Refusal;
use monitor_omis::{RequestId, Status};

/// The first of the four values that steps use. Those below are the event's own.
pub const SCRATCH: u8 = 4;

/// Resolves the names in steps to resources of the kernel.
pub trait NameResolver {
    /// A counter; made, if it is new.
    fn counter(&mut self, counter: KernelCounter) -> Result<RuleResource, Refusal>;
    /// The level of a number; one that is new begins there.
    fn gauge(&mut self, number: u64, first: i64) -> Result<GaugeId, Refusal>;
    /// The switch of a request, if it runs in the kernel.
    fn switch(&self, id: RequestId) -> Option<ProgramId>;
    /// An event; made, if it is new.
    fn event(&mut self, number: i64) -> Result<UserEventId, Refusal>;
}

/// A step: the values to fetch, and the instructions that use them.
#[derive(Clone, Debug, PartialEq)]
pub struct LoweredStep {
    fetched: Vec<(Operand, Slot)>,
    acts: Vec<Insn>,
    /// Whether the program may end here.
    may_end: bool,
}

/// Lowers the steps of a rule.
pub fn lower_steps(
    program: &CompiledRule,
    names: &mut dyn NameResolver,
) -> Result<Vec<LoweredStep>, Refusal> {
    program.steps.iter().map(|step| lower_step(step, names)).collect()
}

fn lower_step(step: &Step, names: &mut dyn NameResolver) -> Result<LoweredStep, Refusal> {
    let first = Slot(SCRATCH);
    let mut may_end = false;
    let (fetched, acts) = match step {
        Step::Observe(operand, counters) => {
            (vec![(*operand, first)], counter_insns(counters, first, names)?)
        }
        Step::ChangeGauge(how, number, level) => {
            let id = names.gauge(*number, *level)?;
            let (operand, act) = match how {
                GaugeChange::By(operand) => (operand, Insn::ChangeGauge(id, first)),
                GaugeChange::To(operand) => (operand, Insn::SetGauge(id, first)),
            };
            let mut acts = vec![act];
            // What the level is then.
            acts.extend(counter_insns(
                &EXTREMES.map(|kind| KernelCounter { number: *number, kind }),
                first,
                names,
            )?);
            (vec![(*operand, first)], acts)
        }
        Step::Record(operands, counter) => {
            let (n, operands) = (operands.len() as u8, operands.iter().copied());
            let RuleResource::Trace(id) = names.counter(*counter)? else {
                return Err(unsupported("only a trace has records"));
            };
            (operands.zip((SCRATCH..).map(Slot)).collect(), vec![Insn::Trace(id, first, n)])
        }
        Step::Signal(number) => (vec![], vec![Insn::Signal(*number, SignalTarget::Process)]),
        Step::StartTimer(counter) => {
            (vec![], vec![Insn::StartTimer(timer(*counter, names)?, first)])
        }
        Step::StopTimer(counter, counters) => {
            may_end = true;
            let mut acts = vec![Insn::StopTimer(first, timer(*counter, names)?)];
            acts.extend(counter_insns(counters, first, names)?);
            (vec![], acts)
        }
        Step::Enable(id) => (vec![], vec![Insn::Enable(switch(*id, names)?)]),
        Step::Disable(id) => (vec![], vec![Insn::Disable(switch(*id, names)?)]),
        Step::Raise(number, operands) => {
            // The count goes before them: an event has only the parameters that it was given.
            let count = i64::try_from(operands.len()).unwrap_or(i64::MAX);
            let operands = [Operand::Known(count)].into_iter().chain(operands.iter().copied());
            let event = names.event(*number)?;
            (operands.zip((SCRATCH..).map(Slot)).collect(), vec![Insn::Raise(event, first)])
        }
    };
    Ok(LoweredStep { fetched, acts, may_end })
}

/// The instructions that put a value into counters.
fn counter_insns(
    counters: &[KernelCounter],
    value: Slot,
    names: &mut dyn NameResolver,
) -> Result<Vec<Insn>, Refusal> {
    let act = |counter: &KernelCounter| match (counter.kind, names.counter(*counter)?) {
        (KernelCounterKind::Count, RuleResource::Cell(cell)) => Ok(Insn::Count(cell)),
        (KernelCounterKind::Sum, RuleResource::Cell(cell)) => Ok(Insn::Add(cell, value)),
        (_, RuleResource::Cell(cell)) => Ok(Insn::Extreme(cell, value)),
        (_, RuleResource::LatencyHistogram(id)) => Ok(Insn::LatencyHistogram(id, value)),
        (_, RuleResource::ValueHistogram(id)) => Ok(Insn::ValueHistogram(id, value)),
        _ => Err(unsupported("it is counted in another way")),
    };
    counters.iter().map(act).collect()
}

fn timer(counter: KernelCounter, names: &mut dyn NameResolver) -> Result<TimerId, Refusal> {
    match names.counter(counter)? {
        RuleResource::Timer(timer) => Ok(timer),
        _ => Err(unsupported("only a timer begins and ends")),
    }
}

fn switch(id: RequestId, names: &dyn NameResolver) -> Result<ProgramId, Refusal> {
    names.switch(id).ok_or_else(|| unsupported("the kernel has not got the request that is named"))
}

/// The instructions of a program: first those of its event, then the steps, then the report, and
/// last what may end it.
pub fn program_insns(
    head: Vec<Insn>,
    steps: &[LoweredStep],
    tail: Vec<Insn>,
    fetch: &dyn Fn(Operand, Slot) -> Option<Insn>,
) -> Result<Vec<Insn>, Refusal> {
    let mut acts = head;
    let mut last = Vec::new();
    for step in steps {
        let to = if step.may_end { &mut last } else { &mut acts };
        for (operand, slot) in &step.fetched {
            let act = fetch(*operand, *slot);
            to.push(
                act.ok_or_else(|| unsupported("the kernel does not know a number that it takes"))?,
            );
        }
        to.extend(&step.acts);
    }
    acts.extend(tail);
    acts.extend(last);
    match acts.len() {
        0..=MAX_INSNS => Ok(acts),
        n => Err(unsupported(&format!("it is {n} acts, and the kernel runs {MAX_INSNS}"))),
    }
}

/// The refusal to run a rule in the kernel.
pub fn unsupported(why: &str) -> Refusal {
    Refusal::new(Status::UNSUPPORTED, format!("not run in the kernel: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::rule::insn::{Cell, CellKind, RecordOptions, TimerScope};

    /// Everything is there, and is called by what it is for.
    struct All;

    impl NameResolver for All {
        fn counter(&mut self, counter: KernelCounter) -> Result<RuleResource, Refusal> {
            let timer = TimerId { index: 1, generation: 1, scope: TimerScope::Thread };
            Ok(match counter.kind {
                KernelCounterKind::ThreadTimer => RuleResource::Timer(timer),
                _ => RuleResource::Cell(Cell { index: 2, kind: CellKind::Sum }),
            })
        }

        fn gauge(&mut self, _: u64, _: i64) -> Result<GaugeId, Refusal> {
            Ok(GaugeId(4))
        }

        fn switch(&self, id: RequestId) -> Option<ProgramId> {
            id.0.get::<u32>().filter(|id| *id != 9).map(ProgramId)
        }

        fn event(&mut self, _: i64) -> Result<UserEventId, Refusal> {
            Ok(UserEventId(3))
        }
    }

    fn constant(operand: Operand, to: Slot) -> Option<Insn> {
        match operand {
            Operand::Known(number) => Some(Insn::Constant(to, number)),
            _ => None,
        }
    }

    fn lowered(steps: &[Step], tail: Vec<Insn>) -> Result<Vec<Insn>, String> {
        let steps: Result<Vec<_>, _> =
            steps.iter().map(|step| lower_step(step, &mut All)).collect();
        let acts = steps.and_then(|steps| program_insns(Vec::new(), &steps, tail, &constant));
        acts.map_err(|why| why.text)
    }

    fn meter(kind: KernelCounterKind) -> KernelCounter {
        KernelCounter { number: 1, kind }
    }

    #[test]
    fn what_may_end_the_program_is_behind_its_report() {
        let record = Insn::Record(RecordOptions::default());
        let end = Step::StopTimer(
            meter(KernelCounterKind::ThreadTimer),
            vec![meter(KernelCounterKind::Sum)],
        );
        let acts = lowered(&[end, Step::Enable(RequestId::default())], vec![record]).unwrap();
        assert!(matches!(
            acts[..],
            [Insn::Enable(_), Insn::Record(_), Insn::StopTimer(..), Insn::Add(..)]
        ));
    }

    #[test]
    fn an_event_gets_its_number_of_parameters() {
        let raise = Step::Raise(5, vec![Operand::Known(7), Operand::Known(8)]);
        let [count, first, second, raised] = lowered(&[raise], vec![]).unwrap()[..] else {
            panic!("it takes four acts")
        };
        let constant = |slot, number| Insn::Constant(Slot(slot), number);
        assert_eq!([count, first, second], [constant(4, 2), constant(5, 7), constant(6, 8)]);
        assert_eq!(raised, Insn::Raise(UserEventId(3), Slot(4)));
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused_with_its_reason() {
        let refused = |steps: &[Step]| lowered(steps, vec![]).unwrap_err();
        let unknown = Step::Observe(Operand::Param(2), vec![meter(KernelCounterKind::Sum)]);
        assert!(refused(std::slice::from_ref(&unknown)).contains("does not know a number"));
        let known = Step::Observe(Operand::Known(2), vec![meter(KernelCounterKind::Sum)]);
        assert!(refused(&vec![known; 17]).contains("34 acts, and the kernel runs 32"));
    }
}

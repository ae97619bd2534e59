//! The steps of a program as acts of a list.
//!
//! In: steps, and what the things that they name are to the kernel. Out: acts, with numbers that
//! are fetched just before they are used into values that nothing else has. Pure.

use super::super::rule_runner::CompiledRule;
use monitor_backend::rule::ProgramId;
use monitor_backend::rule::insn::{
    Cell, GaugeChange, GaugeId, Insn, LatencyHistogramId, MAX_INSNS, Reg as Slot, SignalTarget,
    TimerId, TraceId, UserEventId, ValueHistogramId,
};
use monitor_event::action::{EXTREMES, KernelCounter, KernelCounterKind, Operand, Step};
use monitor_event::outcome::Refusal;
use monitor_omis::{RequestId, Status};

/// The first of the four values that steps use. Those below are the event's own.
pub const SCRATCH: u8 = 4;

/// What a meter is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterResource {
    /// A number.
    Cell(Cell),
    /// A histogram.
    Sizes(LatencyHistogramId),
    /// A histogram of numbers.
    Spread(ValueHistogramId),
    /// A level.
    Level(GaugeId),
    /// A trace.
    Trace(TraceId),
    /// A timer.
    Timer(TimerId),
}

/// What the kernel knows the things by that steps name.
pub trait NameResolver {
    /// A meter; it is made, if it is new.
    fn counter(&mut self, meter: KernelCounter) -> Result<CounterResource, Refusal>;
    /// The level of a number; one that is new begins there.
    fn level(&mut self, number: u64, first: i64) -> Result<GaugeId, Refusal>;
    /// What switches a request; nothing, if the kernel has not got it.
    fn switch(&self, id: RequestId) -> Option<ProgramId>;
    /// An event; it is made, if it is new.
    fn event(&mut self, number: i64) -> Result<UserEventId, Refusal>;
}

/// A step: what it has to know, and what it does then.
#[derive(Clone, Debug, PartialEq)]
pub struct LoweredStep {
    fetched: Vec<(Operand, Slot)>,
    acts: Vec<Insn>,
    /// Whether the list may end here.
    may_end: bool,
}

/// Gives names to what a program does.
pub fn lower_steps(program: &CompiledRule, names: &mut dyn NameResolver) -> Result<Vec<LoweredStep>, Refusal> {
    program.steps.iter().map(|step| lower_step(step, names)).collect()
}

fn lower_step(step: &Step, names: &mut dyn NameResolver) -> Result<LoweredStep, Refusal> {
    let first = Slot(SCRATCH);
    let mut may_end = false;
    let (fetched, acts) = match step {
        Step::Observe(operand, meters) => (vec![(*operand, first)], counter_insns(meters, first, names)?),
        Step::ChangeGauge(how, number, level) => {
            let id = names.level(*number, *level)?;
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
        Step::Record(operands, meter) => {
            let (n, operands) = (operands.len() as u8, operands.iter().copied());
            let CounterResource::Trace(id) = names.counter(*meter)? else {
                return Err(unsupported("only a trace has records"));
            };
            (operands.zip((SCRATCH..).map(Slot)).collect(), vec![Insn::Trace(id, first, n)])
        }
        Step::Signal(number) => (vec![], vec![Insn::Signal(*number, SignalTarget::Process)]),
        Step::StartTimer(meter) => (vec![], vec![Insn::StartTimer(timer(*meter, names)?, first)]),
        Step::StopTimer(meter, meters) => {
            may_end = true;
            let mut acts = vec![Insn::StopTimer(first, timer(*meter, names)?)];
            acts.extend(counter_insns(meters, first, names)?);
            (vec![], acts)
        }
        Step::Enable(id) => (vec![], vec![Insn::Enable(switch(*id, names)?)]),
        Step::Disable(id) => (vec![], vec![Insn::Disable(switch(*id, names)?)]),
        Step::Raise(number, operands) => {
            // How many there are goes before them: an event tells no more than it was given.
            let count = i64::try_from(operands.len()).unwrap_or(i64::MAX);
            let operands = [Operand::Known(count)].into_iter().chain(operands.iter().copied());
            let event = names.event(*number)?;
            (operands.zip((SCRATCH..).map(Slot)).collect(), vec![Insn::Raise(event, first)])
        }
    };
    Ok(LoweredStep { fetched, acts, may_end })
}

/// What tells meters a value.
fn counter_insns(
    meters: &[KernelCounter],
    value: Slot,
    names: &mut dyn NameResolver,
) -> Result<Vec<Insn>, Refusal> {
    let act = |meter: &KernelCounter| match (meter.kind, names.counter(*meter)?) {
        (KernelCounterKind::Count, CounterResource::Cell(cell)) => Ok(Insn::Count(cell)),
        (KernelCounterKind::Sum, CounterResource::Cell(cell)) => Ok(Insn::Add(cell, value)),
        (_, CounterResource::Cell(cell)) => Ok(Insn::Extreme(cell, value)),
        (_, CounterResource::Sizes(id)) => Ok(Insn::LatencyHistogram(id, value)),
        (_, CounterResource::Spread(id)) => Ok(Insn::ValueHistogram(id, value)),
        (_, CounterResource::Level(_) | CounterResource::Trace(_) | CounterResource::Timer(_)) => {
            Err(unsupported("it is told in another way"))
        }
    };
    meters.iter().map(act).collect()
}

fn timer(meter: KernelCounter, names: &mut dyn NameResolver) -> Result<TimerId, Refusal> {
    match names.counter(meter)? {
        CounterResource::Timer(timer) => Ok(timer),
        _ => Err(unsupported("only a timer begins and ends")),
    }
}

fn switch(id: RequestId, names: &dyn NameResolver) -> Result<ProgramId, Refusal> {
    names.switch(id).ok_or_else(|| unsupported("the kernel has not got the request that is named"))
}

/// The acts of a list: first what is its event's, then the steps, then what tells of it, and last
/// what may end it.
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
            to.push(act.ok_or_else(|| unsupported("the kernel does not know a number that it takes"))?);
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

/// Why the kernel does not take a program.
pub fn unsupported(why: &str) -> Refusal {
    Refusal::new(Status::UNSUPPORTED, format!("not run in the kernel: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::rule::insn::{CellKind, RecordOptions, TimerScope};

    /// Everything is there, and is called by what it is for.
    struct All;

    impl NameResolver for All {
        fn counter(&mut self, meter: KernelCounter) -> Result<CounterResource, Refusal> {
            let timer = TimerId { index: 1, generation: 1, scope: TimerScope::Thread };
            Ok(match meter.kind {
                KernelCounterKind::ThreadTimer => CounterResource::Timer(timer),
                _ => CounterResource::Cell(Cell { index: 2, kind: CellKind::Sum }),
            })
        }

        fn level(&mut self, _: u64, _: i64) -> Result<GaugeId, Refusal> {
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
        let steps: Result<Vec<_>, _> = steps.iter().map(|step| lower_step(step, &mut All)).collect();
        let acts = steps.and_then(|steps| program_insns(Vec::new(), &steps, tail, &constant));
        acts.map_err(|why| why.text)
    }

    fn meter(kind: KernelCounterKind) -> KernelCounter {
        KernelCounter { number: 1, kind }
    }

    #[test]
    fn what_may_end_the_list_stands_behind_what_tells_of_it() {
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
    fn an_event_is_told_how_many_parameters_it_has() {
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
        let told = Step::Observe(Operand::Param(2), vec![meter(KernelCounterKind::Sum)]);
        assert!(refused(std::slice::from_ref(&told)).contains("does not know a number"));
        let known = Step::Observe(Operand::Known(2), vec![meter(KernelCounterKind::Sum)]);
        assert!(refused(&vec![known; 9]).contains("18 acts, and the kernel runs 16"));
    }
}

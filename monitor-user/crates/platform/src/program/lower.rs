//! The steps of a program as acts of a list.
//!
//! In: steps, and what the things that they name are to the kernel. Out: acts, with numbers that
//! are fetched just before they are used into values that nothing else has. Pure.

use super::super::list::Program;
use monitor_backend::rule::ListId;
use monitor_backend::rule::act::{
    Act, Cell, HistogramId, LevelId, MAX_ACTS, Move, Receiver, SpreadId, Timer, TraceId, UserEvent,
    Value as Slot,
};
use monitor_event::action::{EXTREMES, Meter, MeterKind, Operand, Step};
use monitor_event::outcome::Refusal;
use monitor_omis::{RequestId, Status};

/// The first of the four values that steps use. Those below are the event's own.
pub const SCRATCH: u8 = 4;

/// What a meter is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// A number.
    Cell(Cell),
    /// A histogram.
    Sizes(HistogramId),
    /// A histogram of numbers.
    Spread(SpreadId),
    /// A level.
    Level(LevelId),
    /// A trace.
    Trace(TraceId),
    /// A timer.
    Timer(Timer),
}

/// What the kernel knows the things by that steps name.
pub trait Names {
    /// A meter; it is made, if it is new.
    fn meter(&mut self, meter: Meter) -> Result<Place, Refusal>;
    /// The level of a number; one that is new begins there.
    fn level(&mut self, number: u64, first: i64) -> Result<LevelId, Refusal>;
    /// What switches a request; nothing, if the kernel has not got it.
    fn switch(&self, id: RequestId) -> Option<ListId>;
    /// An event; it is made, if it is new.
    fn event(&mut self, number: i64) -> Result<UserEvent, Refusal>;
}

/// A step: what it has to know, and what it does then.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    fetched: Vec<(Operand, Slot)>,
    acts: Vec<Act>,
    /// Whether the list may end here.
    may_end: bool,
}

/// Gives names to what a program does.
pub fn named(program: &Program, names: &mut dyn Names) -> Result<Vec<Stepped>, Refusal> {
    program.steps.iter().map(|step| stepped(step, names)).collect()
}

fn stepped(step: &Step, names: &mut dyn Names) -> Result<Stepped, Refusal> {
    let first = Slot(SCRATCH);
    let mut may_end = false;
    let (fetched, acts) = match step {
        Step::Tell(operand, meters) => (vec![(*operand, first)], told(meters, first, names)?),
        Step::Move(how, number, level) => {
            let id = names.level(*number, *level)?;
            let (operand, act) = match how {
                Move::By(operand) => (operand, Act::Change(id, first)),
                Move::To(operand) => (operand, Act::Level(id, first)),
            };
            let mut acts = vec![act];
            // What the level is then.
            acts.extend(told(&EXTREMES.map(|kind| Meter { number: *number, kind }), first, names)?);
            (vec![(*operand, first)], acts)
        }
        Step::Record(operands, meter) => {
            let (n, operands) = (operands.len() as u8, operands.iter().copied());
            let Place::Trace(id) = names.meter(*meter)? else {
                return Err(unfit("only a trace has records"));
            };
            (operands.zip((SCRATCH..).map(Slot)).collect(), vec![Act::Trace(id, first, n)])
        }
        Step::Signal(number) => (vec![], vec![Act::Signal(*number, Receiver::Process)]),
        Step::Begin(meter) => (vec![], vec![Act::Begin(timer(*meter, names)?, first)]),
        Step::End(meter, meters) => {
            may_end = true;
            let mut acts = vec![Act::End(first, timer(*meter, names)?)];
            acts.extend(told(meters, first, names)?);
            (vec![], acts)
        }
        Step::Enable(id) => (vec![], vec![Act::Enable(switch(*id, names)?)]),
        Step::Disable(id) => (vec![], vec![Act::Disable(switch(*id, names)?)]),
        Step::Raise(number, operands) => {
            // How many there are goes before them: an event tells no more than it was given.
            let count = i64::try_from(operands.len()).unwrap_or(i64::MAX);
            let operands = [Operand::Known(count)].into_iter().chain(operands.iter().copied());
            let event = names.event(*number)?;
            (operands.zip((SCRATCH..).map(Slot)).collect(), vec![Act::Raise(event, first)])
        }
    };
    Ok(Stepped { fetched, acts, may_end })
}

/// What tells meters a value.
fn told(meters: &[Meter], value: Slot, names: &mut dyn Names) -> Result<Vec<Act>, Refusal> {
    let act = |meter: &Meter| match (meter.kind, names.meter(*meter)?) {
        (MeterKind::Count, Place::Cell(cell)) => Ok(Act::Count(cell)),
        (MeterKind::Sum, Place::Cell(cell)) => Ok(Act::Add(cell, value)),
        (_, Place::Cell(cell)) => Ok(Act::Extreme(cell, value)),
        (_, Place::Sizes(id)) => Ok(Act::Histogram(id, value)),
        (_, Place::Spread(id)) => Ok(Act::Spread(id, value)),
        (_, Place::Level(_) | Place::Trace(_) | Place::Timer(_)) => {
            Err(unfit("it is told in another way"))
        }
    };
    meters.iter().map(act).collect()
}

fn timer(meter: Meter, names: &mut dyn Names) -> Result<Timer, Refusal> {
    match names.meter(meter)? {
        Place::Timer(timer) => Ok(timer),
        _ => Err(unfit("only a timer begins and ends")),
    }
}

fn switch(id: RequestId, names: &dyn Names) -> Result<ListId, Refusal> {
    names.switch(id).ok_or_else(|| unfit("the kernel has not got the request that is named"))
}

/// The acts of a list: first what is its event's, then the steps, then what tells of it, and last
/// what may end it.
pub fn acts(
    head: Vec<Act>,
    steps: &[Stepped],
    tail: Vec<Act>,
    fetch: &dyn Fn(Operand, Slot) -> Option<Act>,
) -> Result<Vec<Act>, Refusal> {
    let mut acts = head;
    let mut last = Vec::new();
    for step in steps {
        let to = if step.may_end { &mut last } else { &mut acts };
        for (operand, slot) in &step.fetched {
            let act = fetch(*operand, *slot);
            to.push(act.ok_or_else(|| unfit("the kernel does not know a number that it takes"))?);
        }
        to.extend(&step.acts);
    }
    acts.extend(tail);
    acts.extend(last);
    match acts.len() {
        0..=MAX_ACTS => Ok(acts),
        n => Err(unfit(&format!("it is {n} acts, and the kernel runs {MAX_ACTS}"))),
    }
}

/// Why the kernel does not take a program.
pub fn unfit(why: &str) -> Refusal {
    Refusal::new(Status::UNSUPPORTED, format!("not run in the kernel: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::rule::act::{CellKind, Recorded, Whose};

    /// Everything is there, and is called by what it is for.
    struct All;

    impl Names for All {
        fn meter(&mut self, meter: Meter) -> Result<Place, Refusal> {
            let timer = Timer { index: 1, generation: 1, whose: Whose::Thread };
            Ok(match meter.kind {
                MeterKind::ThreadTimer => Place::Timer(timer),
                _ => Place::Cell(Cell { index: 2, kind: CellKind::Sum }),
            })
        }

        fn level(&mut self, _: u64, _: i64) -> Result<LevelId, Refusal> {
            Ok(LevelId(4))
        }

        fn switch(&self, id: RequestId) -> Option<ListId> {
            id.0.get::<u32>().filter(|id| *id != 9).map(ListId)
        }

        fn event(&mut self, _: i64) -> Result<UserEvent, Refusal> {
            Ok(UserEvent(3))
        }
    }

    fn constant(operand: Operand, to: Slot) -> Option<Act> {
        match operand {
            Operand::Known(number) => Some(Act::Constant(to, number)),
            _ => None,
        }
    }

    fn lowered(steps: &[Step], tail: Vec<Act>) -> Result<Vec<Act>, String> {
        let steps: Result<Vec<_>, _> = steps.iter().map(|step| stepped(step, &mut All)).collect();
        let acts = steps.and_then(|steps| acts(Vec::new(), &steps, tail, &constant));
        acts.map_err(|why| why.text)
    }

    fn meter(kind: MeterKind) -> Meter {
        Meter { number: 1, kind }
    }

    #[test]
    fn what_may_end_the_list_stands_behind_what_tells_of_it() {
        let record = Act::Record(Recorded::default());
        let end = Step::End(meter(MeterKind::ThreadTimer), vec![meter(MeterKind::Sum)]);
        let acts = lowered(&[end, Step::Enable(RequestId::default())], vec![record]).unwrap();
        assert!(matches!(acts[..], [Act::Enable(_), Act::Record(_), Act::End(..), Act::Add(..)]));
    }

    #[test]
    fn an_event_is_told_how_many_parameters_it_has() {
        let raise = Step::Raise(5, vec![Operand::Known(7), Operand::Known(8)]);
        let [count, first, second, raised] = lowered(&[raise], vec![]).unwrap()[..] else {
            panic!("it takes four acts")
        };
        let constant = |slot, number| Act::Constant(Slot(slot), number);
        assert_eq!([count, first, second], [constant(4, 2), constant(5, 7), constant(6, 8)]);
        assert_eq!(raised, Act::Raise(UserEvent(3), Slot(4)));
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused_with_its_reason() {
        let refused = |steps: &[Step]| lowered(steps, vec![]).unwrap_err();
        let told = Step::Tell(Operand::Told(2), vec![meter(MeterKind::Sum)]);
        assert!(refused(std::slice::from_ref(&told)).contains("does not know a number"));
        let known = Step::Tell(Operand::Known(2), vec![meter(MeterKind::Sum)]);
        assert!(refused(&vec![known; 9]).contains("18 acts, and the kernel runs 16"));
    }
}

//! What the kernel has to fetch so that a call can be told, and where in its record that is.
//!
//! In: a call and an edge of it. Out: acts for its entry and its return, and a slot for each value.
//! Pure: no probe is set, and no number of a list or a timer is taken. A list has sixteen acts on
//! eight values and two texts, and an entry hands three values on to its return; what finds no
//! place is told as no value, and the order stays.

use monitor_backend::rule::insn;
use monitor_backend::rule::insn::{
    Builtin, Insn, MAX_INSNS, MAX_TEXTS, RecordOptions, Reg, TimerId,
};
use monitor_symbols::signatures::call::{ArgLocation, DerefPath, Signature, ValueType, Width};
use monitor_symbols::signatures::traced_values::{TracedValue, ValueSource};

/// Values that an entry keeps for the return.
const KEPT: usize = 3;
/// Where the return finds them: behind the time that the call took.
const FIRST_KEPT: u8 = 1;
/// Where it puts its result.
const RESULT: u8 = 4;
const ERRNO: u8 = 5;
/// Values that nothing else has a place in, at a return.
const SPARE: [u8; 2] = [6, 7];
/// Where the stack pointer is while arguments are fetched: the place that is written last.
const STACK: Reg = Reg(7);

/// What the kernel does, and what its record means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallPlan {
    /// Acts at the entry; none, if there is nothing to do there.
    pub entry: Vec<Insn>,
    /// Acts at the return.
    pub exit: Vec<Insn>,
    /// What is told.
    pub values: Vec<TracedValue>,
    /// Where each of these is.
    pub slots: Vec<ValueSlot>,
    /// The values whose texts are recorded, as bits.
    pub texts: u8,
    /// The result that says that the error number means something.
    pub fails: Option<i64>,
}

/// Where a value is in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSlot {
    /// It found no place.
    Absent,
    /// The value with this number.
    Value(u8),
    /// That value is the address of a text, which is there too.
    Text(u8),
}

/// What a return needs that is not in the description.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReturnInputs {
    /// What keeps values from the entry to the return.
    pub timer: Option<TimerId>,
    /// Where the error number is, from the thread pointer.
    pub errno: Option<i64>,
}

impl CallPlan {
    /// For the beginning of a call.
    pub fn start(call: &Signature) -> Self {
        let mut told = call.inputs();
        told.truncate(insn::MAX_REGS);
        loop {
            let plan = Self::start_with(call, &told);
            if plan.entry.len() <= MAX_INSNS {
                // What does not fit keeps its place in the order.
                let all = call.inputs();
                let mut slots = plan.slots;
                slots.resize(all.len(), ValueSlot::Absent);
                return Self { values: all, slots, ..plan };
            }
            _ = told.pop();
        }
    }

    fn start_with(call: &Signature, told: &[TracedValue]) -> Self {
        let seats = call.arg_locations();
        let mut plan = Self::default();
        let is_on_stack =
            |it: &TracedValue| matches!(arg_location(it, &seats), Some(ArgLocation::Stack(_)));
        if told.iter().any(is_on_stack) {
            plan.entry.push(Insn::Builtin(STACK, Builtin::Sp));
        }
        let mut recorded = RecordOptions { urgent: true, ..RecordOptions::default() };
        for (at, it) in (0..).zip(told) {
            let slot = plan.fetch(it, at, &seats);
            plan.slots.push(texts(it, slot, &mut recorded));
        }
        plan.texts = recorded.texts;
        plan.entry.push(Insn::Record(recorded));
        plan
    }

    /// Fetches an input into a place.
    fn fetch(&mut self, it: &TracedValue, at: u8, seats: &[ArgLocation]) -> ValueSlot {
        let to = Reg(at);
        let (width, reach) = match it.source {
            ValueSource::Pointee(_, reach) => (insn::Width::U64, Some(reach)),
            _ => (width(&it.kind), None),
        };
        match arg_location(it, seats) {
            Some(ArgLocation::Register(n)) => self.entry.push(Insn::Argument(to, n, width)),
            Some(ArgLocation::Stack(above)) => {
                self.entry.push(Insn::Peek(to, STACK, above.into(), width));
            }
            Some(ArgLocation::OutOfReach) | None => return ValueSlot::Absent,
        }
        if let Some(reach) = reach {
            self.entry.extend(peeks(to, to, reach, &it.kind));
        }
        ValueSlot::Value(at)
    }

    /// For its return.
    pub fn end(call: &Signature, means: ReturnInputs) -> Self {
        let values = call.outputs();
        let kept = means.timer.map(|_| kept(&values)).unwrap_or_default();
        let mut plan = Self { fails: call.fails, ..Self::default() };
        if let Some(timer) = means.timer {
            plan.keep(call, &kept);
            plan.entry.push(Insn::StartTimer(timer, Reg(0)));
            plan.exit.push(Insn::StopTimer(Reg(0), timer));
        }
        let mut spare: Vec<u8> = SPARE.to_vec();
        spare.extend(means.errno.is_none().then_some(ERRNO));
        let mut recorded = RecordOptions { urgent: true, ..RecordOptions::default() };
        for (at, it) in values.iter().enumerate() {
            let is_last = |index| !values[at + 1..].iter().any(|it| parameter(it) == Some(index));
            let slot = match it.source {
                ValueSource::Result => plan.result(it),
                ValueSource::Errno => plan.errno(means.errno),
                ValueSource::Argument(index) => {
                    kept_reg(&kept, index).map_or(ValueSlot::Absent, ValueSlot::Value)
                }
                ValueSource::Pointee(index, reach) => {
                    let own = kept_reg(&kept, index);
                    let to = own.filter(|_| is_last(index)).or_else(|| spare.pop());
                    plan.pointee(own, to, reach, &it.kind)
                }
            };
            plan.slots.push(texts(it, slot, &mut recorded));
        }
        plan.exit.push(Insn::Record(recorded));
        Self { values, texts: recorded.texts, ..plan }
    }

    /// Whether the return needs something of the entry.
    pub fn needs_entry(call: &Signature) -> bool {
        call.outputs().iter().any(|it| parameter(it).is_some())
    }

    fn keep(&mut self, call: &Signature, kept: &[usize]) {
        let seats = call.arg_locations();
        let is_on_stack = |it: &usize| matches!(seats[*it], ArgLocation::Stack(_));
        if kept.iter().any(is_on_stack) {
            self.entry.push(Insn::Builtin(STACK, Builtin::Sp));
        }
        for (to, index) in (0..).map(Reg).zip(kept) {
            match seats[*index] {
                ArgLocation::Register(n) => {
                    self.entry.push(Insn::Argument(to, n, insn::Width::U64));
                }
                ArgLocation::Stack(above) => {
                    self.entry.push(Insn::Peek(to, STACK, above.into(), insn::Width::U64));
                }
                ArgLocation::OutOfReach => {}
            }
        }
    }

    fn result(&mut self, it: &TracedValue) -> ValueSlot {
        if matches!(it.kind, ValueType::Float(_)) {
            return ValueSlot::Absent;
        }
        self.exit.push(Insn::Argument(Reg(RESULT), 0, width(&it.kind)));
        ValueSlot::Value(RESULT)
    }

    fn errno(&mut self, offset: Option<i64>) -> ValueSlot {
        let Some(offset) = offset else { return ValueSlot::Absent };
        let to = Reg(ERRNO);
        self.exit.push(Insn::Builtin(to, Builtin::ThreadPointer));
        self.exit.push(Insn::Peek(to, to, offset, insn::Width::I32));
        ValueSlot::Value(ERRNO)
    }

    fn pointee(
        &mut self,
        own: Option<u8>,
        to: Option<u8>,
        reach: DerefPath,
        kind: &ValueType,
    ) -> ValueSlot {
        let (Some(own), Some(to)) = (own, to) else { return ValueSlot::Absent };
        // One act is left for the record.
        if self.exit.len() + reach.steps().count() >= MAX_INSNS {
            return ValueSlot::Absent;
        }
        self.exit.extend(peeks(Reg(to), Reg(own), reach, kind));
        ValueSlot::Value(to)
    }
}

/// Goes the way to a value; on it are whole addresses.
fn peeks(to: Reg, from: Reg, reach: DerefPath, kind: &ValueType) -> Vec<Insn> {
    let last = reach.steps().count() - 1;
    let step = |(at, offset): (usize, u32)| {
        let from = if at == 0 { from } else { to };
        let width = if at == last { width(kind) } else { insn::Width::U64 };
        Insn::Peek(to, from, offset.into(), width)
    };
    reach.steps().enumerate().map(step).collect()
}

/// Where a kept argument is at the return.
fn kept_reg(kept: &[usize], index: usize) -> Option<u8> {
    let at = kept.iter().position(|it| *it == index)?;
    Some(FIRST_KEPT + u8::try_from(at).unwrap_or(0))
}

/// The arguments to keep, by their place. Texts and what they point to come before mere addresses.
fn kept(told: &[TracedValue]) -> Vec<usize> {
    let mut wanted: Vec<(bool, usize)> = Vec::new();
    for it in told {
        let Some(index) = parameter(it) else { continue };
        let is_address =
            matches!(it.source, ValueSource::Argument(_)) && it.kind != ValueType::Text;
        if !wanted.iter().any(|(_, known)| *known == index) {
            wanted.push((is_address, index));
        }
    }
    wanted.sort();
    wanted.truncate(KEPT);
    wanted.into_iter().map(|(_, index)| index).collect()
}

/// The argument that a value comes from.
const fn parameter(it: &TracedValue) -> Option<usize> {
    match it.source {
        ValueSource::Argument(index) | ValueSource::Pointee(index, _) => Some(index),
        ValueSource::Result | ValueSource::Errno => None,
    }
}

fn arg_location(it: &TracedValue, seats: &[ArgLocation]) -> Option<ArgLocation> {
    parameter(it).map(|index| seats[index])
}

/// The slot of a value; of a text, as long as there is room for one more.
fn texts(it: &TracedValue, slot: ValueSlot, recorded: &mut RecordOptions) -> ValueSlot {
    let n_texts = usize::try_from(recorded.texts.count_ones()).unwrap_or(MAX_TEXTS);
    match slot {
        ValueSlot::Value(value) if it.kind == ValueType::Text && n_texts < MAX_TEXTS => {
            recorded.texts |= 1 << value;
            ValueSlot::Text(value)
        }
        other => other,
    }
}

/// How wide a value is, for the kernel.
const fn width(kind: &ValueType) -> insn::Width {
    match kind {
        ValueType::Number(width) | ValueType::Named(_, width) => match *width {
            Width { bytes: 1, is_signed: true } => insn::Width::I8,
            Width { bytes: 1, is_signed: false } => insn::Width::U8,
            Width { bytes: 2, is_signed: true } => insn::Width::I16,
            Width { bytes: 2, is_signed: false } => insn::Width::U16,
            Width { bytes: 4, is_signed: true } => insn::Width::I32,
            Width { bytes: 4, is_signed: false } => insn::Width::U32,
            Width { .. } => insn::Width::U64,
        },
        ValueType::Float(4) => insn::Width::U32,
        _ => insn::Width::U64,
    }
}

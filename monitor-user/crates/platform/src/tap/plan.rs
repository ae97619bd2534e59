//! What the kernel has to fetch of a call, and where in its record the values are.
//!
//! In: a signature and an edge of the call. Out: instructions for its entry and its return, and a
//! slot for each value. Pure: no probe is set, and no program or timer is made. A program has
//! sixteen instructions on eight registers and two texts, and an entry keeps three values for its
//! return; a value that finds no place is absent, and the order stays.

use monitor_backend::rule::insn::{
    self, Builtin, Insn, LatencyHistogramId, MAX_INSNS, MAX_TEXTS, RecordOptions, Reg,
    SignalTarget, TimerId,
};
use monitor_event::tap::Edge;
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
    /// Instructions at the entry; none, if there is nothing to do there.
    pub entry: Vec<Insn>,
    /// Instructions at the return.
    pub exit: Vec<Insn>,
    /// The values of the call.
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
    /// Whether there is a result: at a jump to another function, that function gives it later.
    pub has_result: bool,
    /// What keeps values from the entry to the return.
    pub timer: Option<TimerId>,
}

impl CallPlan {
    /// For the beginning of a call.
    pub fn start(call: &Signature) -> Self {
        let mut values = call.inputs();
        values.truncate(insn::MAX_REGS);
        loop {
            let plan = Self::start_with(call, &values);
            if plan.entry.len() <= MAX_INSNS {
                // What does not fit keeps its place in the order.
                let all = call.inputs();
                let mut slots = plan.slots;
                slots.resize(all.len(), ValueSlot::Absent);
                return Self { values: all, slots, ..plan };
            }
            _ = values.pop();
        }
    }

    fn start_with(call: &Signature, values: &[TracedValue]) -> Self {
        let locations = call.arg_locations();
        let mut plan = Self::default();
        let is_on_stack =
            |it: &TracedValue| matches!(arg_location(it, &locations), Some(ArgLocation::Stack(_)));
        if values.iter().any(is_on_stack) {
            plan.entry.push(Insn::Builtin(STACK, Builtin::Sp));
        }
        let mut recorded = RecordOptions { urgent: true, ..RecordOptions::default() };
        for (at, it) in (0..).zip(values) {
            let slot = plan.fetch(it, at, &locations);
            plan.slots.push(texts(it, slot, &mut recorded));
        }
        plan.texts = recorded.texts;
        plan.entry.push(Insn::Record(recorded));
        plan
    }

    /// Fetches an input into a place.
    fn fetch(&mut self, it: &TracedValue, at: u8, locations: &[ArgLocation]) -> ValueSlot {
        let to = Reg(at);
        let (width, path) = match it.source {
            ValueSource::Pointee(_, path) => (insn::Width::U64, Some(path)),
            _ => (width(&it.kind), None),
        };
        let location = arg_location(it, locations);
        let Some(insn) = location.and_then(|location| read_argument(to, location, width)) else {
            return ValueSlot::Absent;
        };
        self.entry.push(insn);
        if let Some(path) = path {
            self.entry.extend(peeks(to, to, path, &it.kind));
        }
        ValueSlot::Value(at)
    }

    /// For its return.
    pub fn end(call: &Signature, means: ReturnInputs) -> Self {
        let values = call.outputs();
        let kept = means.timer.map(|_| kept(&values)).unwrap_or_default();
        let fails = call.fails.filter(|_| means.has_result);
        let mut plan = Self { fails, ..Self::default() };
        if let Some(timer) = means.timer {
            plan.keep(call, &kept);
            plan.entry.push(Insn::StartTimer(timer, Reg(0)));
            plan.exit.push(Insn::StopTimer(Reg(0), timer));
        }
        let mut spare: Vec<u8> = SPARE.to_vec();
        spare.extend(call.fails.is_none().then_some(ERRNO));
        let mut recorded = RecordOptions { urgent: true, ..RecordOptions::default() };
        for (at, it) in values.iter().enumerate() {
            let is_last = |index| !values[at + 1..].iter().any(|it| parameter(it) == Some(index));
            let slot = match it.source {
                ValueSource::Result | ValueSource::Errno if !means.has_result => ValueSlot::Absent,
                ValueSource::Result => plan.result(it),
                ValueSource::Errno => plan.errno(),
                ValueSource::Argument(index) => {
                    kept_reg(&kept, index).map_or(ValueSlot::Absent, ValueSlot::Value)
                }
                ValueSource::Pointee(index, path) => {
                    let own = kept_reg(&kept, index);
                    let to = own.filter(|_| is_last(index)).or_else(|| spare.pop());
                    plan.pointee(own, to, path, &it.kind)
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
        let locations = call.arg_locations();
        let is_on_stack = |it: &usize| matches!(locations[*it], ArgLocation::Stack(_));
        if kept.iter().any(is_on_stack) {
            self.entry.push(Insn::Builtin(STACK, Builtin::Sp));
        }
        for (to, index) in (0..).map(Reg).zip(kept) {
            self.entry.extend(read_argument(to, locations[*index], insn::Width::U64));
        }
    }

    fn result(&mut self, it: &TracedValue) -> ValueSlot {
        if matches!(it.kind, ValueType::Float(_)) {
            return ValueSlot::Absent;
        }
        self.exit.push(Insn::Argument(Reg(RESULT), 0, width(&it.kind)));
        ValueSlot::Value(RESULT)
    }

    fn errno(&mut self) -> ValueSlot {
        self.exit.push(Insn::Errno(Reg(ERRNO)));
        ValueSlot::Value(ERRNO)
    }

    fn pointee(
        &mut self,
        own: Option<u8>,
        to: Option<u8>,
        path: DerefPath,
        kind: &ValueType,
    ) -> ValueSlot {
        let (Some(own), Some(to)) = (own, to) else { return ValueSlot::Absent };
        // One instruction is left for the record.
        if self.exit.len() + path.steps().count() >= MAX_INSNS {
            return ValueSlot::Absent;
        }
        self.exit.extend(peeks(Reg(to), Reg(own), path, kind));
        ValueSlot::Value(to)
    }
}

/// Goes the way to a value; on it are whole addresses.
fn peeks(to: Reg, from: Reg, path: DerefPath, kind: &ValueType) -> Vec<Insn> {
    let last = path.steps().count() - 1;
    let step = |(at, offset): (usize, u32)| {
        let from = if at == 0 { from } else { to };
        let width = if at == last { width(kind) } else { insn::Width::U64 };
        Insn::Peek(to, from, offset.into(), width)
    };
    path.steps().enumerate().map(step).collect()
}

/// Where a kept argument is at the return.
fn kept_reg(kept: &[usize], index: usize) -> Option<u8> {
    let at = kept.iter().position(|it| *it == index)?;
    Some(FIRST_KEPT + u8::try_from(at).unwrap_or(0))
}

/// The arguments to keep, by their place. Texts and what they point to come before mere addresses.
fn kept(values: &[TracedValue]) -> Vec<usize> {
    let mut wanted: Vec<(bool, usize)> = Vec::new();
    for it in values {
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

fn arg_location(it: &TracedValue, locations: &[ArgLocation]) -> Option<ArgLocation> {
    parameter(it).map(|index| locations[index])
}

/// The instruction that reads an argument at the entry, unless it is out of reach.
fn read_argument(to: Reg, location: ArgLocation, width: insn::Width) -> Option<Insn> {
    match location {
        ArgLocation::Register(n) => Some(Insn::Argument(to, n, width)),
        ArgLocation::Stack(above) => Some(Insn::Peek(to, STACK, above.into(), width)),
        ArgLocation::OutOfReach => None,
    }
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

/// What a tap does besides reporting each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct TapOptions {
    /// Counts how long calls take; for their ends.
    pub histogram: Option<LatencyHistogramId>,
    /// A signal to the process, at once.
    pub signal: Option<u32>,
    /// Calls are counted and not reported.
    pub is_silent: bool,
}

impl CallPlan {
    /// The same plan with the options applied.
    pub(super) fn with(mut self, edge: Edge, options: TapOptions) -> Self {
        let acts = match edge {
            Edge::Start => &mut self.entry,
            Edge::End => &mut self.exit,
        };
        if options.is_silent {
            acts.retain(|act| !matches!(act, Insn::Record(_)));
        }
        if let (Some(histogram), Edge::End) = (options.histogram, edge) {
            // After the instruction that gives the time, as its first value.
            acts.insert(1, Insn::LatencyHistogram(histogram, Reg(0)));
        }
        acts.extend(options.signal.map(|number| Insn::Signal(number, SignalTarget::Process)));
        // A program that neither reports nor counts still runs, and its runs are counted.
        if acts.is_empty() {
            acts.push(Insn::Constant(Reg(0), 0));
        }
        self
    }
}

//! An instrument: what each kind makes of what it is told.
//!
//! In: a call of a service, and when it is. Out: nothing, or why its kind does not do that.

use super::area::Area;
use super::stopwatch::Stopwatch;
use super::summary::Summary;
use monitor_backend::rule::act::{Move, Whose};
use monitor_event::outcome::Refusal;
use monitor_event::trace::Trace;
use monitor_model::id::Ns;
use monitor_omis::{Status, Text, Value};

/// What an instrument does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Adds up.
    Counter,
    /// Keeps a level, and the area below it.
    Integrator,
    /// Counts numbers by their size.
    Histogram,
    /// Measures from beginnings to ends.
    Timer(Whose),
    /// Keeps the last records.
    Trace,
}

/// Every kind with its name.
pub const KINDS: &[(&str, Kind)] = &[
    ("counter", Kind::Counter),
    ("integrator", Kind::Integrator),
    ("histogram", Kind::Histogram),
    ("timer", Kind::Timer(Whose::Node)),
    ("process_timer", Kind::Timer(Whose::Process)),
    ("thread_timer", Kind::Timer(Whose::Thread)),
    ("trace", Kind::Trace),
];

impl Kind {
    /// The kind of that name.
    pub fn named(name: &str) -> Result<Self, Refusal> {
        let found = KINDS.iter().find(|(own, _)| *own == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|(own, _)| *own).collect();
            let text = format!("no instrument is a \"{name}\": wanted one of {}", names.join(", "));
            Refusal::new(Status::RANGE, text)
        })
    }

    /// Why a service is not for it.
    pub fn other(self, wanted: &str) -> Refusal {
        Refusal::new(Status::TYPE, format!("this is a {}, wanted {wanted}", self.name()))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// An instrument.
#[derive(Debug)]
pub struct Instrument {
    /// Its number, which no other has had on this node.
    pub number: u64,
    /// What its numbers are numbers of.
    pub unit: Text,
    /// What it shows.
    pub shows: Shows,
}

/// What an instrument keeps.
#[derive(Debug)]
pub enum Shows {
    /// A counter.
    Counter(Summary),
    /// An integrator.
    Integrator(Area),
    /// A histogram.
    Histogram(Summary),
    /// A timer.
    Timer(Stopwatch),
    /// A trace.
    Trace(Trace),
}

impl Instrument {
    /// A new one.
    pub fn new(number: u64, kind: Kind, unit: Text, now: Ns) -> Self {
        let shows = match kind {
            Kind::Counter => Shows::Counter(Summary::default()),
            Kind::Integrator => Shows::Integrator(Area::new(0, now)),
            Kind::Histogram => Shows::Histogram(Summary::spread()),
            Kind::Timer(whose) => Shows::Timer(Stopwatch::new(whose)),
            Kind::Trace => Shows::Trace(Trace::default()),
        };
        Self { number, unit, shows }
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match &self.shows {
            Shows::Counter(_) => Kind::Counter,
            Shows::Integrator(_) => Kind::Integrator,
            Shows::Histogram(_) => Kind::Histogram,
            Shows::Timer(watch) => Kind::Timer(watch.whose),
            Shows::Trace(_) => Kind::Trace,
        }
    }

    /// Adds to a counter or sets its sum; or changes the level of an integrator, which was before
    /// what others say who change it, too.
    pub fn change(&mut self, how: Move, before: Option<i64>, now: Ns) -> Result<(), Refusal> {
        match (&mut self.shows, how) {
            (Shows::Counter(sum), Move::By(number)) => sum.note(number),
            (Shows::Counter(sum), Move::To(number)) => sum.sum = number,
            (Shows::Integrator(area), how) => area.change(how, before, now),
            _ => return Err(self.kind().other("a counter or an integrator")),
        }
        Ok(())
    }

    /// Gives numbers to a histogram, or a record to a trace.
    pub fn record(&mut self, values: &[Value], now: Ns) -> Result<(), Refusal> {
        match &mut self.shows {
            Shows::Histogram(spread) => {
                let number = |value: &Value| value.integer().filter(|number| *number >= 0);
                let numbers: Option<Vec<i64>> = values.iter().map(number).collect();
                let wanted = "a histogram takes integers that are not negative";
                let numbers = numbers.ok_or_else(|| Refusal::new(Status::RANGE, wanted))?;
                numbers.into_iter().for_each(|number| spread.note(number));
            }
            Shows::Trace(trace) => trace.record(now, values.to_vec()),
            _ => return Err(self.kind().other("a histogram or a trace")),
        }
        Ok(())
    }

    /// The timer that it is.
    pub fn timer(&mut self) -> Result<&mut Stopwatch, Refusal> {
        let kind = self.kind();
        match &mut self.shows {
            Shows::Timer(watch) => Ok(watch),
            _ => Err(kind.other("a timer")),
        }
    }

    /// Shows nothing again. An integrator keeps its level, which is what others say who change it,
    /// too; and who has begun has begun.
    pub fn reset(&mut self, level: Option<i64>, now: Ns) {
        match &mut self.shows {
            Shows::Counter(sum) | Shows::Histogram(sum) => *sum = sum.empty(),
            Shows::Integrator(area) => *area = area.anew(level, now),
            Shows::Timer(watch) => {
                watch.times = watch.times.empty();
                watch.lost = 0;
            }
            Shows::Trace(trace) => *trace = Trace::default(),
        }
    }
}

//! What lists count in that is in our memory, too: levels, spreads and traces.
//!
//! In: numbers of these. Out: what they hold, whole, whatever programs do to them meanwhile.

use super::counted;
use super::map;
use crate::ebpf::object::Object;
use aya::maps::Map;
use monitor_backend::Error;
use monitor_backend::rule::act::{Cell, CellKind, LevelId, Move, SpreadId, TraceId};
use monitor_backend::rule::held::{Area, Record, Spread, Traced};
use monitor_ebpf::abi::rule::level::Level;
use monitor_ebpf::abi::rule::spread::{self, SIZES};
use monitor_ebpf::abi::rule::trace::{MAX_VALUES, ROWS, WORDS};
use monitor_ebpf::abi::rule::{self as abi, MAX_LEVELS, MAX_SPREADS, MAX_TRACES};
use monitor_model::id::Ns;
use monitor_sys::words::Words;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

/// How often sums are read that a program was in the middle of changing.
const ATTEMPTS: usize = 64;

/// The arrays.
pub struct Mapped {
    levels: Words,
    sizes: Words,
    made: Words,
    rows: Words,
}

impl Mapped {
    /// Those of an object.
    pub fn of(object: &Object) -> Result<Self, Error> {
        let words = |name: &str, n: u32| words(object, name, n as usize);
        Ok(Self {
            levels: words(abi::LEVELS, MAX_LEVELS)?,
            sizes: words(abi::SPREADS, MAX_SPREADS * SIZES)?,
            made: words(abi::TRACES, MAX_TRACES)?,
            rows: words(abi::TRACED, MAX_TRACES * ROWS * WORDS as u32)?,
        })
    }

    /// Has a level be this, which nothing has changed yet.
    pub fn begin_level(&self, object: &mut Object, id: LevelId, first: i64) -> Result<(), Error> {
        let _before = self.move_level(id, Move::To(first));
        map::set_all(object, abi::AREAS, id.0, Level::default())
    }

    /// Changes a level; what it was.
    pub fn move_level(&self, id: LevelId, how: Move) -> i64 {
        let Some(level) = self.levels.at(id.0 as usize) else { return 0 };
        let before = match how {
            Move::By(change) => level.fetch_add(change.cast_unsigned(), SeqCst),
            Move::To(now) => level.swap(now.cast_unsigned(), SeqCst),
        };
        before.cast_signed()
    }

    /// What lists have done to a level.
    pub fn area(&self, object: &Object, id: LevelId) -> Area {
        let level = self.levels.at(id.0 as usize).map_or(0, |level| level.load(SeqCst));
        let mut area = Area { level: level.cast_signed(), ..Area::default() };
        for part in whole(object, id) {
            area.count += part.ended;
            area.changed = area.changed.wrapping_add(part.changed.cast_signed());
            let upper = i128::from(part.high.cast_signed()) << 64;
            area.moments = area.moments.wrapping_add(upper | i128::from(part.low));
        }
        area
    }

    /// Takes all numbers out of a spread.
    pub fn begin_spread(&self, object: &mut Object, id: SpreadId) -> Result<(), Error> {
        for at in places(id) {
            let _ = self.sizes.at(at).map(|count| count.store(0, SeqCst));
        }
        cells(id).into_iter().try_for_each(|cell| counted::reset_cell(object, cell))
    }

    /// What a spread holds.
    pub fn spread(&self, object: &Object, id: SpreadId) -> Spread {
        let [sum, least, most, refused] = cells(id).map(|cell| counted::cell(object, cell));
        let count = |at| self.sizes.at(at).map_or(0, |count| count.load(Acquire));
        let counts = (0..).zip(places(id)).map(|(size, at)| (spread::bounds(size).1, count(at)));
        Spread {
            sum: sum.unwrap_or(0),
            least,
            most,
            n_refused: refused.map_or(0, i64::cast_unsigned),
            sizes: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// Takes all records out of a trace.
    pub fn begin_trace(&self, id: TraceId) {
        for at in (0..ROWS as usize * WORDS).map(|word| row(id, 0) + word) {
            let _ = self.rows.at(at).map(|word| word.store(0, SeqCst));
        }
        let _ = self.made.at(id.0 as usize).map(|made| made.store(0, SeqCst));
    }

    /// What was recorded after the first so many records, up to one that is not whole yet.
    pub fn traced(&self, id: TraceId, after: u64) -> Traced {
        let made = self.made.at(id.0 as usize).map_or(0, |made| made.load(Acquire));
        let first = after.max(made.saturating_sub(ROWS.into()));
        let mut traced = Traced { n_made: first, n_lost: first - after, records: Vec::new() };
        for number in first + 1..=made {
            match self.record(id, number) {
                Found::Whole(record) => traced.records.push(record),
                Found::Overwritten => traced.n_lost += 1,
                Found::Unfinished => break,
            }
            traced.n_made = number;
        }
        traced
    }

    fn record(&self, id: TraceId, number: u64) -> Found {
        let at = row(id, number - 1);
        let word = |n: usize| self.rows.at(at + n).map_or(0, |word| word.load(Acquire));
        let ended = word(0);
        let n_values = usize::try_from(word(2)).map_or(0, |n| n.min(MAX_VALUES));
        let values = (3..3 + n_values).map(|n| word(n).cast_signed()).collect();
        let record = (Ns(word(1)), values);
        let begun = word(WORDS - 1);
        match () {
            () if ended == number && begun == number => Found::Whole(record),
            () if ended > number || begun > number => Found::Overwritten,
            () => Found::Unfinished,
        }
    }
}

/// What a row holds of a record.
enum Found {
    Whole(Record),
    Overwritten,
    Unfinished,
}

/// What each CPU has done to a level, none of it in the middle of a change. A program that is
/// there for longer than all attempts is left in the middle of it.
fn whole(object: &Object, id: LevelId) -> Vec<Level> {
    let mut parts = Vec::new();
    for _ in 0..ATTEMPTS {
        parts = map::get_all::<Level>(object, abi::AREAS, id.0);
        if parts.iter().all(|part| part.ended == part.begun) {
            break;
        }
    }
    parts
}

/// The cells of a spread: sum, extremes, and what was refused.
fn cells(id: SpreadId) -> [Cell; 4] {
    let cell = |place, kind| Cell { index: id.cells + place, kind };
    [
        cell(spread::SUM, CellKind::Sum),
        cell(spread::LEAST, CellKind::Least),
        cell(spread::MOST, CellKind::Most),
        cell(spread::REFUSED, CellKind::Sum),
    ]
}

/// Where the counts of a spread are.
fn places(id: SpreadId) -> std::ops::Range<usize> {
    let (first, n) = (id.index as usize * SIZES as usize, SIZES as usize);
    first..first + n
}

/// Where the row begins that so many records went before.
fn row(id: TraceId, before: u64) -> usize {
    let place = usize::try_from(before % u64::from(ROWS)).unwrap_or(0);
    (id.0 as usize * ROWS as usize + place) * WORDS
}

fn words(object: &Object, name: &str, n: usize) -> Result<Words, Error> {
    let Some(Map::Array(data)) = object.ebpf.map(name) else { return Err(object.no_map(name)) };
    Words::of(data.fd().as_fd(), n).map_err(|source| Error::Kernel {
        call: "mmap",
        what: format!("the map {name} of rules"),
        source,
    })
}

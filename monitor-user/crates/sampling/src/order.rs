//! In which order processes are shown, and how many of them.
//!
//! Each row has one key of 16 bytes, so that only keys move while the largest are found. What is
//! absent comes last in either direction; equal ones keep the order of their identities.

use monitor_model::field::process::ProcessRow;
use monitor_model::field::{Category, Kind, ProcessField, Role};
use monitor_model::sample::Process;

/// Which end comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The largest.
    Descending,
    /// The smallest.
    Ascending,
}

/// A field and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// What is compared.
    pub field: ProcessField,
    /// Which end comes first.
    pub direction: Direction,
}

/// What is compared instead of a process: absent or not, its value, its place.
pub type Key = (bool, u128, usize);

impl Order {
    /// Whether a field can be sorted by: texts that have to be looked up can not.
    pub fn possible(field: ProcessField) -> bool {
        field == ProcessField::Comm || field.field().kind != Kind::Text
    }

    /// The same, before there are rates: by the counter instead of its growth.
    pub fn without_rates(self) -> Self {
        match self.field.field().role {
            Role::RateOf(counter) => {
                Self { field: ProcessField::at(counter).unwrap_or(self.field), ..self }
            }
            _ => self,
        }
    }

    /// The key of the process at a place.
    pub fn key(self, process: &Process, place: usize) -> Key {
        let value = match self.field {
            ProcessField::Comm => Some(u128::from_be_bytes(process.comm)),
            _ => value(&process.row, self.field),
        };
        self.directed(value, place)
    }

    /// The key of the row at a place, of whatever has one; by a text nothing is ordered.
    pub fn key_of(self, row: &ProcessRow, place: usize) -> Key {
        self.directed(value(row, self.field), place)
    }

    fn directed(self, value: Option<u128>, place: usize) -> Key {
        match (value, self.direction) {
            (None, _) => (true, 0, place),
            (Some(value), Direction::Ascending) => (false, value, place),
            (Some(value), Direction::Descending) => (false, !value, place),
        }
    }
}

/// Keeps the first of many, in order.
pub fn first(keys: &mut Vec<Key>, most: Option<usize>) {
    if let Some(most) = most.filter(|&most| most < keys.len()) {
        keys.select_nth_unstable(most);
        keys.truncate(most);
    }
    keys.sort_unstable();
}

/// A number that orders as the value does. Of two equal rates, the one of the larger counter counts
/// more: most processes do nothing at any moment, and those who did something are looked for.
fn value(row: &ProcessRow, field: ProcessField) -> Option<u128> {
    let counter = match field.field().role {
        Role::RateOf(counter) => ProcessField::at(counter).and_then(|it| row.get(it)),
        _ => None,
    };
    Some(ordered(row, field)? << 64 | u128::from(counter.unwrap_or(0)))
}

fn ordered(row: &ProcessRow, field: ProcessField) -> Option<u128> {
    const SIGN: u64 = 1 << 63;
    let bits = row.get(field)?;
    let ordered = match field.field().kind {
        Kind::Signed => bits ^ SIGN,
        // IEEE 754 orders as integers do, once the negative ones are turned round.
        Kind::Float if bits & SIGN != 0 => !bits,
        Kind::Float => bits | SIGN,
        _ => bits,
    };
    Some(u128::from(ordered))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(rss: Option<u64>, nice: i64, cpu: f64) -> Process {
        let mut it = Process::default();
        it.row.set_some(ProcessField::Rss, rss);
        it.row.set_signed(ProcessField::Nice, nice);
        it.row.set_float(ProcessField::CpuPercent, cpu);
        it
    }

    #[track_caller]
    fn check(field: ProcessField, direction: Direction, most: Option<usize>, want: &[usize]) {
        let processes = [
            process(Some(5), -20, 0.5),
            process(None, 0, 100.0),
            process(Some(9), 19, -1.0),
            process(Some(5), 1, 0.25),
        ];
        let order = Order { field, direction };
        let places = processes.iter().enumerate();
        let mut keys = places.map(|(place, it)| order.key(it, place)).collect();
        first(&mut keys, most);
        assert_eq!(keys.iter().map(|key| key.2).collect::<Vec<_>>(), want);
    }

    #[test]
    fn the_largest_come_first_and_equal_ones_keep_their_order() {
        check(ProcessField::Rss, Direction::Descending, None, &[2, 0, 3, 1]);
    }

    #[test]
    fn absent_ones_are_last_in_either_direction() {
        check(ProcessField::Rss, Direction::Ascending, None, &[0, 3, 2, 1]);
    }

    #[test]
    fn negative_numbers_are_below_zero() {
        check(ProcessField::Nice, Direction::Ascending, None, &[0, 1, 3, 2]);
        check(ProcessField::CpuPercent, Direction::Descending, None, &[1, 0, 3, 2]);
    }

    #[test]
    fn of_two_idle_processes_the_one_that_did_more_comes_first() {
        let mut processes = [process(None, 0, 0.0), process(None, 0, 0.0)];
        processes[1].row.set(ProcessField::CpuTime, 7);
        let order = Order { field: ProcessField::CpuPercent, direction: Direction::Descending };
        assert!(order.key(&processes[1], 1) < order.key(&processes[0], 0));
    }

    #[test]
    fn only_as_many_as_asked_for_are_kept() {
        check(ProcessField::CpuPercent, Direction::Descending, Some(2), &[1, 0]);
        check(ProcessField::CpuPercent, Direction::Descending, Some(9), &[1, 0, 3, 2]);
    }
}

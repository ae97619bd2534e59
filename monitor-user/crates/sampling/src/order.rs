//! The order of processes and groups.
//!
//! In: rows. Out: one key of 16 bytes for each, so that sorting moves only keys. Absent values come
//! last in both directions; equal ones keep the order of identities.

use monitor_model::{Category, Process, ProcessField, ProcessRow, Role, ValueKind};

/// The direction of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The largest first.
    Descending,
    /// The smallest first.
    Ascending,
}

/// A field and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The field to sort by.
    pub field: ProcessField,
    /// The direction.
    pub direction: Direction,
}

/// The sort key of a row: whether the value is absent, the value, the index of the row.
pub type SortKey = (bool, u128, usize);

impl Order {
    /// Whether a field can be sorted by: numbers and `comm`, not texts that are read separately.
    pub fn is_sortable(field: ProcessField) -> bool {
        field == ProcessField::Comm || field.field().kind != ValueKind::Text
    }

    /// The order without rates: by the counter instead of its rate.
    pub fn without_rates(self) -> Self {
        match self.field.field().role {
            Role::RateOf(counter) => {
                Self { field: ProcessField::at(counter).unwrap_or(self.field), ..self }
            }
            _ => self,
        }
    }

    /// The key of the process at an index.
    pub fn key(self, process: &Process, index: usize) -> SortKey {
        let value = match self.field {
            ProcessField::Comm => Some(u128::from_be_bytes(process.comm)),
            _ => value(&process.row, self.field),
        };
        self.directed(value, index)
    }

    /// The key of the row at an index, for groups; texts are treated as absent.
    pub fn key_of(self, row: &ProcessRow, index: usize) -> SortKey {
        self.directed(value(row, self.field), index)
    }

    fn directed(self, value: Option<u128>, index: usize) -> SortKey {
        match (value, self.direction) {
            (None, _) => (true, 0, index),
            (Some(value), Direction::Ascending) => (false, value, index),
            (Some(value), Direction::Descending) => (false, !value, index),
        }
    }
}

/// Sorts the keys and keeps the first ones.
pub fn first(keys: &mut Vec<SortKey>, limit: Option<usize>) {
    if let Some(limit) = limit.filter(|&limit| limit < keys.len()) {
        keys.select_nth_unstable(limit);
        keys.truncate(limit);
    }
    keys.sort_unstable();
}

/// An integer with the order of the value. Equal rates are ordered by their counters: most
/// processes are idle at any moment, and the ones that have used most are of interest.
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
        ValueKind::Signed => bits ^ SIGN,
        // IEEE 754 orders as integers do, once negative numbers are inverted.
        ValueKind::Float if bits & SIGN != 0 => !bits,
        ValueKind::Float => bits | SIGN,
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
    fn check(field: ProcessField, direction: Direction, limit: Option<usize>, want: &[usize]) {
        let processes = [
            process(Some(5), -20, 0.5),
            process(None, 0, 100.0),
            process(Some(9), 19, -1.0),
            process(Some(5), 1, 0.25),
        ];
        let order = Order { field, direction };
        let rows = processes.iter().enumerate();
        let mut keys = rows.map(|(index, it)| order.key(it, index)).collect();
        first(&mut keys, limit);
        assert_eq!(keys.iter().map(|key| key.2).collect::<Vec<_>>(), want);
    }

    #[test]
    fn the_largest_come_first_and_equal_rows_keep_their_order() {
        check(ProcessField::Rss, Direction::Descending, None, &[2, 0, 3, 1]);
    }

    #[test]
    fn absent_values_are_last_in_both_directions() {
        check(ProcessField::Rss, Direction::Ascending, None, &[0, 3, 2, 1]);
    }

    #[test]
    fn negative_numbers_are_below_zero() {
        check(ProcessField::Nice, Direction::Ascending, None, &[0, 1, 3, 2]);
        check(ProcessField::CpuPercent, Direction::Descending, None, &[1, 0, 3, 2]);
    }

    #[test]
    fn of_two_idle_processes_the_one_with_the_larger_counter_comes_first() {
        let mut processes = [process(None, 0, 0.0), process(None, 0, 0.0)];
        processes[1].row.set(ProcessField::CpuTime, 7);
        let order = Order { field: ProcessField::CpuPercent, direction: Direction::Descending };
        assert!(order.key(&processes[1], 1) < order.key(&processes[0], 0));
    }

    #[test]
    fn the_limit_keeps_the_first_rows() {
        check(ProcessField::CpuPercent, Direction::Descending, Some(2), &[1, 0]);
        check(ProcessField::CpuPercent, Direction::Descending, Some(9), &[1, 0, 3, 2]);
    }
}

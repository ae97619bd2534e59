//! The values of one object: a slot for each field of its category, in the order of the list.
//!
//! In: bits by field. Out: typed values, and rates from two rows. A slot that was never set is
//! absent; texts are stored in the object.

use super::{Category, Role, Unit, ValueKind};
use crate::Ns;
use serde::Serialize;
use std::{fmt, marker::PhantomData};

/// One typed value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FieldValue<'a> {
    /// Unsigned.
    Number(u64),
    /// Signed.
    Signed(i64),
    /// Floating.
    Float(f64),
    /// Yes or no.
    Flag(bool),
    /// A letter, such as a process state.
    Letter(char),
    /// A text stored in the object.
    Text(&'a str),
}

impl FieldValue<'_> {
    /// As a number to sort by; texts have none.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::Number(n) => Some(n as f64),
            Self::Signed(n) => Some(n as f64),
            Self::Float(x) => Some(x),
            Self::Flag(yes) => Some(f64::from(u8::from(yes))),
            Self::Letter(_) | Self::Text(_) => None,
        }
    }
}

impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Signed(n) => n.fmt(f),
            Self::Float(x) => x.fmt(f),
            Self::Flag(yes) => yes.fmt(f),
            Self::Letter(letter) => letter.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Values of one object. A slot is absent until it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<F, const N: usize> {
    present: u128,
    slots: [u64; N],
    category: PhantomData<F>,
}

impl<F: Category, const N: usize> Default for Row<F, N> {
    fn default() -> Self {
        const { assert!(N <= 128 && N == F::FIELDS.len()) };
        Self { present: 0, slots: [0; N], category: PhantomData }
    }
}

/// The counters of a row that have rates: a third of its memory, and less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCounters {
    present: u128,
    values: Box<[u64]>,
}

impl RowCounters {
    /// Its memory in bytes.
    pub const fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val::<[u64]>(&self.values)
    }
}

/// A rate and its counter, by index.
#[derive(Clone, Copy)]
struct Rate {
    at: usize,
    of: usize,
    unit: Unit,
}

impl<F: Category, const N: usize> Row<F, N> {
    /// Sets a slot by its bits.
    pub fn set(&mut self, field: F, bits: u64) {
        self.slots[field.index()] = bits;
        self.present |= 1 << field.index();
    }

    /// Sets a slot if there is a value.
    pub fn set_some(&mut self, field: F, bits: Option<u64>) {
        if let Some(bits) = bits {
            self.set(field, bits);
        }
    }

    /// Sets a signed slot.
    pub fn set_signed(&mut self, field: F, value: i64) {
        self.set(field, value.cast_unsigned());
    }

    /// Sets a floating slot.
    pub fn set_float(&mut self, field: F, value: f64) {
        self.set(field, value.to_bits());
    }

    /// Adds to a counter, absent counting as zero.
    pub fn add(&mut self, field: F, amount: u64) {
        self.set(field, self.get(field).unwrap_or(0).wrapping_add(amount));
    }

    /// Makes a slot absent again.
    pub fn clear(&mut self, field: F) {
        self.present &= !(1 << field.index());
        self.slots[field.index()] = 0;
    }

    /// The bits of a slot.
    pub fn get(&self, field: F) -> Option<u64> {
        (self.present & (1 << field.index()) != 0).then(|| self.slots[field.index()])
    }

    /// The value of a slot, by its kind; texts are not in the row.
    pub fn value(&self, field: F) -> Option<FieldValue<'static>> {
        let bits = self.get(field)?;
        Some(match field.field().kind {
            ValueKind::Number => FieldValue::Number(bits),
            ValueKind::Signed => FieldValue::Signed(bits.cast_signed()),
            ValueKind::Float => FieldValue::Float(f64::from_bits(bits)),
            ValueKind::Flag => FieldValue::Flag(bits != 0),
            ValueKind::Letter => FieldValue::Letter(char::from(u8::try_from(bits).unwrap_or(b'?'))),
            ValueKind::Text => return None,
        })
    }

    /// A bit for each slot that is set, and the slots. Rates are excluded, because they can be
    /// computed again.
    pub fn without_rates(&self) -> (u128, &[u64; N]) {
        (self.present & !Self::RATED, &self.slots)
    }

    /// A row from what [`Self::without_rates`] returned.
    pub const fn from_slots(present: u128, slots: [u64; N]) -> Self {
        Self { present: present & !Self::RATED & Self::PLACES, slots, category: PhantomData }
    }

    /// Makes the slots of texts absent: texts are stored in the object.
    pub fn clear_texts(&mut self) {
        self.present &= !Self::TEXTS;
        let mut left = Self::TEXTS;
        while left != 0 {
            self.slots[left.trailing_zeros() as usize] = 0;
            left &= left - 1;
        }
    }

    /// A bit for each text field, and for each rate.
    const TEXTS_AND_RATES: (u128, u128) = {
        let (mut texts, mut rates, mut at) = (0, 0, 0);
        while at < N {
            match (F::FIELDS[at].kind, F::FIELDS[at].role) {
                (ValueKind::Text, _) => texts |= 1 << at,
                (_, Role::RateOf(_)) => rates |= 1 << at,
                _ => {}
            }
            at += 1;
        }
        (texts, rates)
    };
    const TEXTS: u128 = Self::TEXTS_AND_RATES.0;
    const RATED: u128 = Self::TEXTS_AND_RATES.1;

    /// A bit for each field.
    const PLACES: u128 = if N == 128 { u128::MAX } else { (1 << N) - 1 };

    /// Sets every rate from the increase since `before`. A counter that decreased (the kernel
    /// rescales user and system time at each reading) gives zero, never a negative rate.
    pub fn set_rates(&mut self, before: &Self, interval: Ns) {
        if interval == Ns(0) {
            return;
        }
        let both = before.present & self.present;
        let (rates, n_rates) = Self::RATES;
        for rate in &rates[..*n_rates] {
            if both & (1 << rate.of) == 0 {
                continue;
            }
            let grown = self.slots[rate.of].saturating_sub(before.slots[rate.of]);
            let value = match rate.unit {
                // Most counters do not change, and a division costs more than all the rest.
                _ if grown == 0 => 0.0,
                Unit::Percent => grown as f64 / interval.0 as f64 * 100.0,
                _ => grown as f64 / interval.seconds(),
            };
            self.slots[rate.at] = value.to_bits();
            self.present |= 1 << rate.at;
        }
    }

    /// The counters that have rates, without the other slots.
    pub fn rated_counters(&self) -> RowCounters {
        let (rates, n_rates) = Self::RATES;
        let rated = rates[..*n_rates].iter().fold(0, |mask, rate| mask | 1 << rate.of);
        let present = self.present & rated;
        let values = (0..N).filter(|at| present & (1 << at) != 0).map(|at| self.slots[at]);
        RowCounters { present, values: values.collect() }
    }

    /// A row with these counters only.
    pub fn from_counters(counters: &RowCounters) -> Self {
        let mut row = Self { present: counters.present, ..Self::default() };
        let at = (0..N).filter(|at| counters.present & (1 << at) != 0);
        at.zip(&counters.values).for_each(|(at, value)| row.slots[at] = *value);
        row
    }

    /// The rates of the category, and their number. Selected at compile time: the list itself is
    /// 14 KiB and would be walked for every process of every sample.
    const RATES: &'static ([Rate; N], usize) = &{
        let mut rates = [Rate { at: 0, of: 0, unit: Unit::None }; N];
        let (mut n_rates, mut at) = (0, 0);
        while at < N {
            if let Role::RateOf(of) = F::FIELDS[at].role {
                rates[n_rates] = Rate { at, of, unit: F::FIELDS[at].unit };
                n_rates += 1;
            }
            at += 1;
        }
        (rates, n_rates)
    };
}

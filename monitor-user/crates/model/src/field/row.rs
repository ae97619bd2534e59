//! The values of one object, in the order of its category's list.

use super::{Category, Kind, Role, Unit};
use crate::id::Ns;
use std::marker::PhantomData;

/// One value as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
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
    /// A text that the object keeps.
    Text(&'a str),
}

impl Value<'_> {
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

/// A rate and its counter, by their places.
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

    /// Sets a slot that is there only sometimes.
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
    pub fn value(&self, field: F) -> Option<Value<'static>> {
        let bits = self.get(field)?;
        Some(match field.field().kind {
            Kind::Number => Value::Number(bits),
            Kind::Signed => Value::Signed(bits.cast_signed()),
            Kind::Float => Value::Float(f64::from_bits(bits)),
            Kind::Flag => Value::Flag(bits != 0),
            Kind::Letter => Value::Letter(char::from(u8::try_from(bits).unwrap_or(b'?'))),
            Kind::Text => return None,
        })
    }

    /// What is there, as bits by place, and the slots; those of rates are left out, because they
    /// can be computed again.
    pub fn counted(&self) -> (u128, &[u64; N]) {
        (self.present & !Self::RATED, &self.slots)
    }

    /// A row of what [`Self::counted`] gave.
    pub const fn from_counted(present: u128, slots: [u64; N]) -> Self {
        Self { present: present & !Self::RATED & Self::PLACES, slots, category: PhantomData }
    }

    /// Makes the slots of texts absent, which the object keeps itself.
    pub fn clear_texts(&mut self) {
        self.present &= !Self::TEXTS;
        let mut left = Self::TEXTS;
        while left != 0 {
            self.slots[left.trailing_zeros() as usize] = 0;
            left &= left - 1;
        }
    }

    /// A bit for each text.
    const TEXTS: u128 = {
        let (mut bits, mut at) = (0, 0);
        while at < N {
            if matches!(F::FIELDS[at].kind, Kind::Text) {
                bits |= 1 << at;
            }
            at += 1;
        }
        bits
    };

    /// A bit for each place.
    const PLACES: u128 = if N == 128 { u128::MAX } else { (1 << N) - 1 };

    /// A bit for each rate.
    const RATED: u128 = {
        let (mut bits, mut at) = (0, 0);
        while at < N {
            if let Role::RateOf(_) = F::FIELDS[at].role {
                bits |= 1 << at;
            }
            at += 1;
        }
        bits
    };

    /// Sets every rate from the growth since `before`. A counter that went backwards (the kernel
    /// scales user and system time anew at each reading) gives zero, never a negative rate.
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
                // Most counters stand still, and a division takes longer than all the rest.
                _ if grown == 0 => 0.0,
                Unit::Percent => grown as f64 / interval.0 as f64 * 100.0,
                _ => grown as f64 / interval.seconds(),
            };
            self.slots[rate.at] = value.to_bits();
            self.present |= 1 << rate.at;
        }
    }

    /// The rates of the category, and how many there are. Picked out once, as the program is
    /// built: the list itself is 14 KiB, and would be walked for every process of every sample.
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

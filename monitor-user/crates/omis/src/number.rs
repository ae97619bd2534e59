//! Integers and floating-point numbers of the language.
//!
//! The specification's integers have the 32 bits of an address of 1996; those of today, and
//! counters, need 64, signed or unsigned, in both dialects. Two numbers are equal if they print
//! alike, so that equal answers can be unified.

use std::fmt;
use std::hash::{Hash, Hasher};

/// An integer from -2^63 to 2^64-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int(i128);

impl Int {
    /// The smallest integer, -2^63.
    pub const MIN: Self = Self(i64::MIN as i128);
    /// The largest integer, 2^64-1.
    pub const MAX: Self = Self(u64::MAX as i128);

    /// Returns the integer, if it is in the range.
    pub fn new(number: i128) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&number).then_some(Self(number))
    }

    /// Converts to another integer type; `None` if the value does not fit.
    pub fn get<T: TryFrom<i128>>(self) -> Option<T> {
        T::try_from(self.0).ok()
    }
}

macro_rules! from_small {
    ($($small:ty)*) => {
        $(impl From<$small> for Int {
            fn from(number: $small) -> Self {
                Self(i128::from(number))
            }
        })*
    };
}

from_small! { u8 u16 u32 u64 i8 i16 i32 i64 }

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A 64-bit integer is formatted much faster than a 128-bit one.
        match self.get::<u64>() {
            Some(number) => number.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// A double. All NaN values are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Float(pub f64);

impl Float {
    fn bits(self) -> u64 {
        if self.0.is_nan() { f64::NAN.to_bits() } else { self.0.to_bits() }
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Float {}

impl Hash for Float {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_nan() {
            return f.write_str("nan");
        }
        // `{:?}` is the shortest text that parses to the same number; it always has a point or an
        // exponent.
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_64_bits_with_or_without_a_sign() {
        assert_eq!(Int::MIN.to_string(), "-9223372036854775808");
        assert_eq!(Int::MAX.to_string(), "18446744073709551615");
        assert_eq!(Int::new(i128::from(u64::MAX) + 1), None);
        assert_eq!(Int::new(i128::from(i64::MIN) - 1), None);
        assert_eq!(Int::MAX.get::<i64>(), None);
    }

    #[test]
    fn a_float_is_never_printed_as_an_integer() {
        for (number, text) in [(1.0, "1.0"), (-0.0, "-0.0"), (1e300, "1e300"), (1.1e3, "1100.0")] {
            assert_eq!(Float(number).to_string(), text);
        }
    }

    #[test]
    fn floats_are_equal_if_they_are_printed_alike() {
        assert_eq!(Float(f64::NAN), Float(-f64::NAN));
        assert_ne!(Float(0.0), Float(-0.0));
    }
}

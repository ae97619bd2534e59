//! The field lists: one definition behind every reader, rate, table, document and metric.
//!
//! A category (process, node, processor, disk, network interface) is an enum; its list says for
//! each field the name, the unit, the meaning and where each backend gets it from. A [`Row`] holds
//! the values of one object; what could not be read is absent, never zero.

pub mod block;
pub mod disk;
pub mod group;
pub mod net;
pub mod node;
pub mod process;
pub mod row;
pub mod short;

pub use block::BlockField;
pub use disk::DiskField;
pub use group::GroupField;
pub use net::NetField;
pub use node::{CpuField, NodeField};
pub use process::ProcessField;
pub use row::{FieldValue, Row};
pub use short::SHORT;

use crate::names;

/// Unit of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No unit: a name, an id or a state; never summed.
    None,
    /// A count of things.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Percent; 100 is one processor for shares of time.
    Percent,
    /// Count per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
}

names! { Unit {
    None "", Count "count", Nanoseconds "ns", Bytes "bytes", Percent "percent", PerSecond "1/s",
    BytesPerSecond "bytes/s",
} }

/// How the 64 bits of a slot are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Unsigned.
    Number,
    /// Two's complement.
    Signed,
    /// IEEE 754.
    Float,
    /// 0 or 1.
    Flag,
    /// One ASCII letter.
    Letter,
    /// A text: stored in the object, not in the row (see `Process::text`).
    Text,
}

names! { ValueKind {
    Number "number", Signed "signed", Float "float", Flag "flag", Letter "letter", Text "text",
} }

/// What a value does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Names the object, or never changes.
    Label,
    /// Rises and falls.
    Gauge,
    /// Only grows while the object lives.
    Counter,
    /// The rate of that counter (an index into the same list) over the interval.
    RateOf(usize),
}

/// One field of a category.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name in JSON, CSV, `--fields` and `--sort`; it ends with the unit.
    pub name: &'static str,
    /// Column heading.
    pub title: &'static str,
    /// Unit.
    pub unit: Unit,
    /// How its bits are interpreted.
    pub kind: ValueKind,
    /// What it does over time.
    pub role: Role,
    /// Meaning, in one sentence without a full stop.
    pub help: &'static str,
    /// Where the eBPF backend reads it; empty if it cannot.
    pub ebpf: &'static str,
    /// Where the `/proc` backend reads it; empty if it cannot.
    pub procfs: &'static str,
}

impl Field {
    /// The rate of this counter, which has an index in its list.
    const fn rate(&self, index: usize, [name, title, help]: [&'static str; 3]) -> Self {
        let unit = match self.unit {
            Unit::Nanoseconds => Unit::Percent,
            Unit::Bytes => Unit::BytesPerSecond,
            _ => Unit::PerSecond,
        };
        let (kind, role) = (ValueKind::Float, Role::RateOf(index));
        let procfs = if self.procfs.is_empty() { "" } else { self.name };
        Self { name, title, unit, kind, role, help, ebpf: self.name, procfs }
    }
}

/// A category: the enum that numbers its fields.
pub trait Category: Copy + Eq + 'static {
    /// The list, in the order of the enum.
    const FIELDS: &'static [Field];
    /// Index of the field in the list.
    fn index(self) -> usize;
    /// The field at an index of the list.
    fn at(index: usize) -> Option<Self>;

    /// The list's entry for the field.
    fn field(self) -> &'static Field {
        &Self::FIELDS[self.index()]
    }

    /// The field of that name.
    fn from_name(name: &str) -> Option<Self> {
        Self::at(Self::FIELDS.iter().position(|field| field.name == name)?)
    }

    /// All fields, in order.
    fn all() -> impl Iterator<Item = Self> {
        (0..Self::FIELDS.len()).filter_map(Self::at)
    }
}

/// Declares a category. Each line: the enum's name, the field's name, its heading, unit, kind,
/// role, meaning, source in eBPF, source in `/proc` unless it is the same. Rates follow: the enum's
/// name, the field's name, its heading, the counter, meaning.
macro_rules! category {
    ($(#[$doc:meta])* $name:ident {
        $($field:ident: $text:literal, $title:literal, $unit:ident, $kind:ident, $role:ident,
            $help:literal, $ebpf:literal $(, $procfs:literal)?;)+
    } $(rates {
        $($rate:ident: $rate_text:literal, $rate_title:literal, $of:ident, $rate_help:literal;)+
    })?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum $name {
            $(#[doc = $help] $field,)+
            $($(#[doc = $rate_help] $rate,)+)?
        }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$field,)+ $($(Self::$rate,)+)?];
            /// Number of fields.
            pub const COUNT: usize = Self::ALL.len();
        }

        impl $crate::field::Category for $name {
            const FIELDS: &'static [$crate::field::Field] = {
                const READ: &[$crate::field::Field] = &[$(
                    $crate::field::Field {
                        name: $text,
                        title: $title,
                        unit: $crate::field::Unit::$unit,
                        kind: $crate::field::ValueKind::$kind,
                        role: $crate::field::Role::$role,
                        help: $help,
                        ebpf: $ebpf,
                        procfs: *[$ebpf $(, $procfs)?].last().expect("two sources"),
                    },
                )+];
                &[
                    $(READ[$name::$field as usize],)+
                    $($(READ[$name::$of as usize].rate(
                        $name::$of as usize,
                        [$rate_text, $rate_title, $rate_help],
                    ),)+)?
                ]
            };

            fn index(self) -> usize {
                self as usize
            }

            fn at(index: usize) -> Option<Self> {
                Self::ALL.get(index).copied()
            }
        }
    };
}
pub(crate) use category;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[track_caller]
    fn check<F: Category>() {
        let mut names = HashSet::new();
        for field in F::FIELDS {
            assert!(names.insert(field.name), "{} is defined twice", field.name);
            assert!(!field.help.ends_with('.'), "{}", field.name);
            let suffix = match field.unit {
                Unit::None | Unit::Count => continue,
                Unit::Nanoseconds => "_ns",
                Unit::Bytes => "_bytes",
                Unit::Percent => "_percent",
                Unit::PerSecond | Unit::BytesPerSecond => "_per_s",
            };
            assert!(field.name.ends_with(suffix), "{} must end with {suffix}", field.name);
        }
    }

    #[test]
    fn names_are_unique_and_end_with_their_unit() {
        check::<ProcessField>();
        check::<GroupField>();
        check::<NodeField>();
        check::<CpuField>();
        check::<BlockField>();
        check::<DiskField>();
        check::<NetField>();
    }

    #[test]
    fn a_rate_belongs_to_a_counter() {
        for field in ProcessField::FIELDS {
            let Role::RateOf(of) = field.role else { continue };
            assert_eq!(ProcessField::FIELDS[of].role, Role::Counter, "{}", field.name);
        }
    }
}

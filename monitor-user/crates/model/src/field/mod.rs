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

pub use block::BlockField;
pub use disk::DiskField;
pub use group::GroupField;
pub use net::NetField;
pub use node::{CpuField, NodeField};
pub use process::ProcessField;
pub use row::{Row, Value};

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A name, an id, a state: nothing to add up.
    None,
    /// Things.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Hundredths; of one processor where it is of time.
    Percent,
    /// Things in a second.
    PerSecond,
    /// Bytes in a second.
    BytesPerSecond,
}

impl Unit {
    /// Its name in lists of fields.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Count => "count",
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
            Self::Percent => "percent",
            Self::PerSecond => "1/s",
            Self::BytesPerSecond => "bytes/s",
        }
    }
}

/// How the 64 bits of a slot are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    /// Not in the row: the object keeps it (see `Process::text`).
    Text,
}

impl Kind {
    /// Its name in the header of a recording.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Signed => "signed",
            Self::Float => "float",
            Self::Flag => "flag",
            Self::Letter => "letter",
            Self::Text => "text",
        }
    }
}

/// What a value does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Names the object, or never changes.
    Label,
    /// Goes up and down.
    Gauge,
    /// Only grows while the object lives.
    Counter,
    /// The growth of that counter (a position in the same list) over the interval.
    RateOf(usize),
}

/// One field of a category.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in JSON, CSV, `--fields` and `--sort`; it ends with the unit.
    pub name: &'static str,
    /// The heading of its column.
    pub title: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// How its bits are meant.
    pub kind: Kind,
    /// What it does over time.
    pub role: Role,
    /// What it means, in one sentence without a full stop.
    pub help: &'static str,
    /// Where the eBPF backend reads it; empty if it cannot.
    pub ebpf: &'static str,
    /// Where the `/proc` backend reads it; empty if it cannot.
    pub procfs: &'static str,
}

/// A category: the enum that numbers its fields.
pub trait Category: Copy + Eq + 'static {
    /// The list, in the order of the enum.
    const FIELDS: &'static [Field];
    /// The field's place in the list.
    fn index(self) -> usize;
    /// The field at a place of the list.
    fn at(index: usize) -> Option<Self>;

    /// What the list says of it.
    fn field(self) -> &'static Field {
        &Self::FIELDS[self.index()]
    }

    /// The field of that name.
    fn named(name: &str) -> Option<Self> {
        Self::at(Self::FIELDS.iter().position(|field| field.name == name)?)
    }

    /// All of them, in order.
    fn all() -> impl Iterator<Item = Self> {
        (0..Self::FIELDS.len()).filter_map(Self::at)
    }
}

/// Declares a category. Each line: the enum's name, the field's name, its heading, unit, kind,
/// role (`RateOf(Counter)` names another line), meaning, source in eBPF, source in `/proc`.
macro_rules! category {
    ($(#[$doc:meta])* $name:ident {
        $($field:ident: $text:literal, $title:literal, $unit:ident, $kind:ident,
            $role:ident $(($of:ident))?, $help:literal, $ebpf:literal, $procfs:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum $name {
            $(#[doc = $help] $field,)+
        }

        impl $name {
            /// How many fields there are.
            pub const COUNT: usize = [$($text),+].len();
        }

        impl $crate::field::Category for $name {
            const FIELDS: &'static [$crate::field::Field] = &[$(
                $crate::field::Field {
                    name: $text,
                    title: $title,
                    unit: $crate::field::Unit::$unit,
                    kind: $crate::field::Kind::$kind,
                    role: $crate::field::Role::$role $(($name::$of as usize))?,
                    help: $help,
                    ebpf: $ebpf,
                    procfs: $procfs,
                },
            )+];

            fn index(self) -> usize {
                self as usize
            }

            fn at(index: usize) -> Option<Self> {
                const ALL: &[$name] = &[$($name::$field),+];
                ALL.get(index).copied()
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
            assert!(names.insert(field.name), "{} stands twice", field.name);
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
    fn a_rate_is_of_a_counter_and_named_after_it() {
        for field in ProcessField::FIELDS {
            let Role::RateOf(of) = field.role else { continue };
            assert_eq!(ProcessField::FIELDS[of].role, Role::Counter, "{}", field.name);
        }
    }
}

//! Short names of process fields, as users type them on the command line and on the screen.

use super::{Category, ProcessField};
use crate::name::{self, UnknownName};
use crate::pmix;

/// The short names; none of them is the name of a field.
pub const SHORT: &[(&str, ProcessField)] = &[
    ("cpu", ProcessField::CpuPercent),
    ("delay", ProcessField::RunDelayPercent),
    ("mem", ProcessField::Rss),
    ("rss", ProcessField::Rss),
    ("read", ProcessField::ReadRate),
    ("write", ProcessField::WrittenRate),
    ("recv", ProcessField::TcpReceivedRate),
    ("sent", ProcessField::TcpSentRate),
    ("thr", ProcessField::Threads),
    ("time", ProcessField::CpuTime),
    ("cmd", ProcessField::Cmdline),
];

impl ProcessField {
    /// The field of any of its names: its own, that of PMIx, or a short one.
    pub fn from_any_name(name: &str) -> Option<Self> {
        let short = || SHORT.iter().find(|(short, _)| *short == name).map(|(_, field)| *field);
        pmix::field(name).or_else(short)
    }

    /// The same; or which one was probably meant.
    ///
    /// # Errors
    /// If there is no such field.
    pub fn named(name: &str) -> Result<Self, UnknownName> {
        Self::from_any_name(name).ok_or_else(|| UnknownName {
            what: "field",
            written: name.to_owned(),
            hint: name::hint("field", Self::suggested_names(), name),
        })
    }

    /// The names that a suggestion for an unknown one is chosen from.
    pub fn suggested_names() -> impl Iterator<Item = &'static str> + Clone {
        let own = Self::FIELDS.iter().map(|field| field.name);
        own.chain(SHORT.iter().map(|(short, _)| *short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_no_other_field() {
        for (short, field) in SHORT {
            assert_eq!(pmix::field::<ProcessField>(short), None, "{short}");
            assert_eq!(ProcessField::from_any_name(short), Some(*field));
        }
    }
}

//! OMIS 1.0 to the letter, or with what this monitor adds to it.

use std::fmt;

/// Which language a session speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// With the extensions. Every request of OMIS 1.0 means the same in it.
    #[default]
    Extended,
    /// OMIS 1.0 only: an extension is a mistake, and replies have none.
    Strict,
}

/// What OMIS 1.0 does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extension {
    /// `,` and `;` in one list of actions.
    MixedSeparators,
    /// `$time`.
    NamedVariable,
    /// An integer of more than 32 bits.
    WideInteger,
    /// `p_1_7`.
    Token,
    /// `#2:beef`.
    Binary,
    /// `nan`, `inf` and `-inf`.
    SpecialFloat,
    /// A basic request without a number or without a node list.
    Located,
}

/// How many there are.
pub(super) const N_EXTENSIONS: usize = 7;

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MixedSeparators => "`,` and `;` in one list of actions",
            Self::NamedVariable => "a named variable",
            Self::WideInteger => "an integer of more than 32 bits",
            Self::Token => "a token",
            Self::Binary => "a binary",
            Self::SpecialFloat => "a float that is not a number or infinite",
            Self::Located => "a request without its number or node list",
        })
    }
}

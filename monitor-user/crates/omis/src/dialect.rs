//! The dialects of the request language: OMIS 1.0 alone, or with the extensions of this monitor.
//!
//! Lists the extensions; `parse` detects their use and `print` avoids them in strict sessions.

use std::fmt;

/// The dialect of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// With extensions. Every OMIS 1.0 request keeps its meaning.
    #[default]
    Extended,
    /// OMIS 1.0 only: a request that uses an extension is refused, and replies use none.
    Strict,
}

/// A language feature that OMIS 1.0 lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extension {
    /// `,` and `;` in one list of actions.
    MixedSeparators,
    /// A named variable: `$time`.
    NamedVariable,
    /// A token: `p_1_7`.
    Token,
    /// A byte string: `#2:beef`.
    Binary,
    /// A special float: `nan`, `inf` or `-inf`.
    SpecialFloat,
    /// A basic request without a number, or without a node list and so routed by its objects.
    RoutedByObject,
}

/// Number of variants of `Extension`.
pub(super) const N_EXTENSIONS: usize = 6;

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MixedSeparators => "`,` and `;` in one list of actions",
            Self::NamedVariable => "a named variable",
            Self::Token => "a token",
            Self::Binary => "a binary",
            Self::SpecialFloat => "a float that is not a number or infinite",
            Self::RoutedByObject => "a request without its number or node list",
        })
    }
}

//! Environment directives, as a user writes them: `prepend:PATH=/opt/bin`.
//!
//! In: a text. Out: a directive, or why it is none. The kinds are those of PMIx (`PMIX_SET_ENVAR`
//! and the like); a separator in brackets follows the name, as in PRRTE: `append:FLAGS[ ]=-g`.

use monitor_model::name;

/// The separator of lists, where none is given.
pub const DEFAULT_SEPARATOR: u8 = b':';

/// What a directive does to its variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectiveKind {
    /// Sets the value, and replaces another one.
    Set,
    /// Sets the value if the variable is not set.
    Add,
    /// Removes the variable; a name that ends with `*` removes all that begin with the rest.
    Unset,
    /// Puts the value before the list.
    Prepend,
    /// Puts the value after the list.
    Append,
    /// Makes the value the first element of the list, and removes its other occurrences.
    First,
}

monitor_model::names! { DirectiveKind {
    Set "set", Add "add", Unset "unset", Prepend "prepend", Append "append", First "first",
} }

/// A directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    kind: DirectiveKind,
    name: Vec<u8>,
    value: Vec<u8>,
    separator: u8,
}

/// Why a directive is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveError {
    /// It has no kind.
    #[error("{0:?} is no directive: expected KIND:NAME=VALUE, such as prepend:PATH=/opt/bin")]
    NoKind(String),
    /// Its kind is unknown.
    #[error("unknown directive {written:?}{hint}")]
    UnknownKind {
        /// The kind as written.
        written: String,
        /// The nearest kind, or all of them.
        hint: String,
    },
    /// It has no value.
    #[error("{kind}:{name} has no value: expected {kind}:{name}=VALUE")]
    NoValue {
        /// The kind.
        kind: &'static str,
        /// The name of the variable.
        name: String,
    },
    /// `unset` has a value.
    #[error("unset:{0} has a value: unset takes a name only")]
    UnsetWithValue(String),
    /// The name is empty.
    #[error("a directive has an empty name: name the variable")]
    EmptyName,
    /// The name has `=`.
    #[error("the name {0:?} contains '=': the name of a variable cannot")]
    NameWithEquals(String),
    /// Name or value has a NUL.
    #[error("{0:?} contains NUL, which ends a variable: remove it")]
    Nul(String),
}

impl Directive {
    /// A directive. A separator of NUL means `:`, as in PMIx; `set`, `add` and `unset` have no use
    /// for it.
    ///
    /// # Errors
    /// If the name is empty or has `=`, or if name or value have a NUL.
    pub fn new(
        kind: DirectiveKind,
        (name, value): (&[u8], &[u8]),
        separator: u8,
    ) -> Result<Self, DirectiveError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if name.is_empty() {
            return Err(DirectiveError::EmptyName);
        }
        if name.contains(&b'=') {
            return Err(DirectiveError::NameWithEquals(text(name)));
        }
        if let Some(bad) = [name, value].into_iter().find(|it| it.contains(&0)) {
            return Err(DirectiveError::Nul(text(bad)));
        }
        let separator = if separator == 0 { DEFAULT_SEPARATOR } else { separator };
        Ok(Self { kind, name: name.to_vec(), value: value.to_vec(), separator })
    }

    /// Parses `KIND:NAME=VALUE`, `KIND:NAME[SEPARATOR]=VALUE` or `unset:NAME`.
    ///
    /// # Errors
    /// If the kind is missing or unknown, or the name or value is not valid.
    pub fn parse(written: &str) -> Result<Self, DirectiveError> {
        let Some((kind, rest)) = written.split_once(':') else {
            return Err(DirectiveError::NoKind(written.to_owned()));
        };
        let Some(found) = DirectiveKind::from_name(kind) else {
            let names = DirectiveKind::ALL.iter().map(|it| it.name());
            let hint = name::hint("directive", names, kind);
            return Err(DirectiveError::UnknownKind { written: kind.to_owned(), hint });
        };
        let value = rest.split_once('=');
        if found == DirectiveKind::Unset {
            return match value {
                Some((name, _)) => Err(DirectiveError::UnsetWithValue(name.to_owned())),
                None => Self::new(found, (rest.as_bytes(), b""), 0),
            };
        }
        let Some((name, value)) = value else {
            let name = rest.to_owned();
            return Err(DirectiveError::NoValue { kind: found.name(), name });
        };
        let (name, separator) = name_and_separator(name);
        Self::new(found, (name.as_bytes(), value.as_bytes()), separator)
    }

    /// What it does.
    pub const fn kind(&self) -> DirectiveKind {
        self.kind
    }

    /// The name of its variable, or the pattern of `unset`.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its value; empty for `unset`.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The separator of the list.
    pub const fn separator(&self) -> u8 {
        self.separator
    }

    /// Whether it concerns the dynamic linker: `LD_…`, which ld.so(8) ignores in a set-user-ID
    /// program. A caller that starts such a program refuses the directive.
    pub fn concerns_dynamic_linker(&self) -> bool {
        const LINKER: &[u8] = b"LD_";
        match self.name.strip_suffix(b"*").filter(|_| self.kind == DirectiveKind::Unset) {
            Some(prefix) => prefix.starts_with(LINKER) || LINKER.starts_with(prefix),
            None => self.name.starts_with(LINKER),
        }
    }
}

impl std::fmt::Display for Directive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [name, value] = [&self.name, &self.value].map(|it| String::from_utf8_lossy(it));
        let kind = self.kind.name();
        let is_list = matches!(
            self.kind,
            DirectiveKind::Prepend | DirectiveKind::Append | DirectiveKind::First
        );
        match self.kind {
            DirectiveKind::Unset => write!(f, "{kind}:{name}"),
            _ if is_list && self.separator != DEFAULT_SEPARATOR => {
                write!(f, "{kind}:{name}[{}]={value}", char::from(self.separator))
            }
            _ => write!(f, "{kind}:{name}={value}"),
        }
    }
}

/// The name, and the separator in brackets after it; NUL, if there is none.
fn name_and_separator(written: &str) -> (&str, u8) {
    let bytes = written.as_bytes();
    match bytes {
        [.., b'[', separator, b']'] if bytes.len() > 3 => (&written[..bytes.len() - 3], *separator),
        _ => (written, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, want: Result<(DirectiveKind, &str, &str, u8), &str>) {
        let got = Directive::parse(written).map_err(|why| why.to_string());
        let got = got.as_ref().map_err(String::as_str).map(|directive| {
            let text = |bytes| std::str::from_utf8(bytes).expect("text");
            let (name, value) = (text(directive.name()), text(directive.value()));
            (directive.kind(), name, value, directive.separator())
        });
        assert_eq!(got, want);
    }

    #[test]
    fn a_directive_has_a_kind_a_name_and_a_value() {
        check("set:FOO=1", Ok((DirectiveKind::Set, "FOO", "1", b':')));
        check("add:FOO=", Ok((DirectiveKind::Add, "FOO", "", b':')));
        check("unset:FOO*", Ok((DirectiveKind::Unset, "FOO*", "", b':')));
        check("prepend:FOO[;]=a=b:c", Ok((DirectiveKind::Prepend, "FOO", "a=b:c", b';')));
    }

    #[test]
    fn a_bad_directive_is_refused_with_the_reason() {
        let kinds = r#"unknown directive "apend"; did you mean "append"?"#;
        check("apend:FOO=1", Err(kinds));
        let none = "\"FOO=1\" is no directive: expected KIND:NAME=VALUE, such as \
                    prepend:PATH=/opt/bin";
        check("FOO=1", Err(none));
        check("set:FOO", Err("set:FOO has no value: expected set:FOO=VALUE"));
        check("unset:FOO=1", Err("unset:FOO has a value: unset takes a name only"));
        check("set:=1", Err("a directive has an empty name: name the variable"));
        check("set:F\0=1", Err("\"F\\0\" contains NUL, which ends a variable: remove it"));
        check("set:F=\0", Err("\"\\0\" contains NUL, which ends a variable: remove it"));
    }

    #[test]
    fn a_name_with_an_equals_sign_is_refused() {
        let got = Directive::new(DirectiveKind::Set, (b"A=B", b"1"), 0);
        assert_eq!(got, Err(DirectiveError::NameWithEquals("A=B".to_owned())));
    }

    #[test]
    fn a_separator_of_nul_is_a_colon() {
        let got = Directive::new(DirectiveKind::Append, (b"A", b"1"), 0).map(|it| it.separator());
        assert_eq!(got, Ok(b':'));
    }

    #[test]
    fn what_concerns_the_dynamic_linker_is_known() {
        let concerns = |it: &str| Directive::parse(it).expect("valid").concerns_dynamic_linker();
        assert!(concerns("set:LD_PRELOAD=x") && concerns("unset:LD_AUDIT"));
        assert!(concerns("unset:L*") && concerns("unset:LD_LIB*") && concerns("unset:*"));
        assert!(!concerns("set:LDFLAGS=x") && !concerns("unset:PMIX_*"));
    }

    #[test]
    fn a_directive_is_printed_as_it_is_written() {
        for text in ["set:A=1", "unset:A*", "prepend:A[;]=x", "append:A=x"] {
            assert_eq!(Directive::parse(text).expect("valid").to_string(), text);
        }
    }
}

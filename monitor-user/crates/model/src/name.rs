//! Look-up of names in user input, with suggestions for unknown ones.
//!
//! In: the valid names and the input. Out: its index among them, or a one-line error with the input
//! and a suggestion.

/// Names the values of an enum: `names! { Answer { Yes "yes", No "no" } }`.
///
/// Gives it `ALL` values in order, the `name` of a value, and the value `from_name`.
#[macro_export]
macro_rules! names {
    ($kind:ident { $($value:ident $name:literal),+ $(,)? }) => {
        impl $kind {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Its name in text output and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }

            /// The value with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.name() == name)
            }
        }
    };
}

/// Similarity from which a name is suggested.
const LIKELY_MATCH: f64 = 0.7;
/// Maximum number of names listed if none is similar.
const MAX_LISTED: usize = 30;

/// A name that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {written:?}{hint}")]
pub struct UnknownName {
    /// Kind of object that is named.
    pub what: &'static str,
    /// The input.
    pub written: String,
    /// The most similar valid name, else how to list the valid ones.
    pub hint: String,
}

/// Index of a name in the list of valid ones.
///
/// # Errors
///
/// If the name is not among them.
pub fn position<'n>(
    what: &'static str,
    names: impl Iterator<Item = &'n str> + Clone,
    written: &str,
) -> Result<usize, UnknownName> {
    names.clone().position(|name| name == written).ok_or_else(|| UnknownName {
        what,
        written: written.to_owned(),
        hint: hint(what, names, written),
    })
}

/// What follows an unknown name: a suggestion, or the valid names.
pub fn hint<'n>(what: &str, names: impl Iterator<Item = &'n str>, written: &str) -> String {
    let mut all: Vec<_> = names.collect();
    all.dedup();
    if let Some(likely) = likely(all.iter().copied(), written) {
        return format!("; did you mean {likely:?}?");
    }
    match what {
        _ if (1..=MAX_LISTED).contains(&all.len()) => format!(": there are {}", all.join(", ")),
        "field" | "service" => format!("; monitor {what}s lists them"),
        _ => String::new(),
    }
}

/// The name that was probably meant, if one is similar enough.
pub fn likely<'n>(names: impl Iterator<Item = &'n str>, written: &str) -> Option<&'n str> {
    nearest(names, written).filter(|name| likeness(name, written) >= LIKELY_MATCH)
}

/// The name most similar to the input. Common prefixes count, because names are abbreviated.
pub fn nearest<'n>(names: impl Iterator<Item = &'n str>, written: &str) -> Option<&'n str> {
    names.max_by(|a, b| likeness(a, written).total_cmp(&likeness(b, written)))
}

/// Similarity of two names, from 0 to 1 (equal).
pub fn likeness(name: &str, written: &str) -> f64 {
    strsim::jaro_winkler(name, &written.to_lowercase())
}

/// Whether a name matches a pattern as a whole: `*` matches any bytes, or none.
pub fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    matches(pattern, name, None)
}

/// The same for a mask: `?` matches any one character of UTF-8 too.
pub fn matches_mask(mask: &[u8], name: &[u8]) -> bool {
    matches(mask, name, Some(b'?'))
}

/// Backtracks to the last `*` only: earlier ones match the shortest text.
fn matches(pattern: &[u8], name: &[u8], any_one: Option<u8>) -> bool {
    let (mut at, mut of_name, mut back) = (0, 0, None);
    while of_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                back = Some((at + 1, of_name));
                at += 1;
            }
            Some(&letter) if Some(letter) == any_one => {
                at += 1;
                of_name += character_len(&name[of_name..]);
            }
            Some(&letter) if letter == name[of_name] => (at, of_name) = (at + 1, of_name + 1),
            _ => {
                let Some((star, from)) = back else { return false };
                back = Some((star, from + 1));
                (at, of_name) = (star, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|&letter| letter == b'*')
}

/// Bytes of the character that a text, which is not empty, begins with.
fn character_len(text: &[u8]) -> usize {
    1 + text[1..].iter().take_while(|&&byte| byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, want: Result<usize, &str>) {
        let got = position("field", ["cpu_ns", "rss_bytes", "comm"].into_iter(), written);
        assert_eq!(got.map_err(|error| error.to_string()), want.map_err(str::to_owned));
    }

    #[test]
    fn a_valid_name_gives_its_index() {
        check("rss_bytes", Ok(1));
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_most_similar() {
        check("rss", Err(r#"unknown field "rss"; did you mean "rss_bytes"?"#));
        check("CPU", Err(r#"unknown field "CPU"; did you mean "cpu_ns"?"#));
    }

    #[test]
    fn a_question_mark_is_one_character_of_a_mask_and_itself_in_a_pattern() {
        let mask = |mask: &str, name: &str| matches_mask(mask.as_bytes(), name.as_bytes());
        assert!(mask("n?", "n1") && mask("n?", "nü") && mask("*?", "n") && mask("?*-ib", "n1-ib"));
        assert!(!mask("n?", "n12") && !mask("n??", "nü") && !mask("?", ""));
        assert!(matches_pattern(b"n?", b"n?") && !matches_pattern(b"n?", b"n1"));
    }

    #[test]
    fn a_dissimilar_name_is_reported_with_all_if_they_are_few() {
        check("job", Err(r#"unknown field "job": there are cpu_ns, rss_bytes, comm"#));
        let levels = ["off", "error", "warn", "info", "debug"].into_iter();
        assert_eq!(likely(levels, "loud"), None);
        assert_eq!(likely(["otlp", "http"].into_iter(), "nope"), None);
        assert_eq!(likely(["exec_id", "pid"].into_iter(), "PMIX_NET_ID"), None);
        let many: Vec<String> = (0..99).map(|n| format!("x{n}")).collect();
        let hint = hint("field", many.iter().map(String::as_str), "foo");
        assert_eq!(hint, "; monitor fields lists them");
    }
}

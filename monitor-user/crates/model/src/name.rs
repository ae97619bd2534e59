//! Names that people write: the one that was meant, or the nearest there is.
//!
//! In: the valid names and what was written. Out: its place among them, or an error that names
//! both, in one line.

/// From here on a name is likely to be meant.
const ALIKE: f64 = 0.7;
/// So many names are listed, where none is likely.
const FEW: usize = 30;

/// A name that is not in its list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {written:?}{hint}")]
pub struct Unknown {
    /// What it should be the name of.
    pub what: &'static str,
    /// As it was written.
    pub written: String,
    /// The valid name that is likely to be meant, else where the valid ones are.
    pub hint: String,
}

/// The place of a name in the list of valid ones.
pub fn position<'n>(
    what: &'static str,
    names: impl Iterator<Item = &'n str> + Clone,
    written: &str,
) -> Result<usize, Unknown> {
    names.clone().position(|name| name == written).ok_or_else(|| Unknown {
        what,
        written: written.to_owned(),
        hint: hint(what, names, written),
    })
}

/// What to say after an unknown name: which is meant, or which there are.
pub fn hint<'n>(what: &str, names: impl Iterator<Item = &'n str>, written: &str) -> String {
    let mut all: Vec<_> = names.collect();
    all.dedup();
    if let Some(likely) = likely(all.iter().copied(), written) {
        return format!("; did you mean {likely:?}?");
    }
    match what {
        _ if (1..=FEW).contains(&all.len()) => format!(": there are {}", all.join(", ")),
        "field" | "service" => format!("; monitor {what}s lists them"),
        _ => String::new(),
    }
}

/// The name that is likely to be meant, if there is one.
pub fn likely<'n>(names: impl Iterator<Item = &'n str>, written: &str) -> Option<&'n str> {
    nearest(names, written).filter(|name| likeness(name, written) >= ALIKE)
}

/// The name most like what was written. Common beginnings count, as people shorten names.
pub fn nearest<'n>(names: impl Iterator<Item = &'n str>, written: &str) -> Option<&'n str> {
    names.max_by(|a, b| likeness(a, written).total_cmp(&likeness(b, written)))
}

/// How much alike two names are: 0 not at all, 1 the same.
pub fn likeness(name: &str, written: &str) -> f64 {
    strsim::jaro_winkler(name, &written.to_lowercase())
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
    fn a_valid_name_is_its_place() {
        check("rss_bytes", Ok(1));
    }

    #[test]
    fn an_unknown_name_is_told_with_its_neighbour() {
        check("rss", Err(r#"unknown field "rss"; did you mean "rss_bytes"?"#));
        check("CPU", Err(r#"unknown field "CPU"; did you mean "cpu_ns"?"#));
    }

    #[test]
    fn what_is_like_none_is_told_with_all_if_they_are_few() {
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

//! Names that people write: the one that was meant, or the nearest there is.
//!
//! In: the valid names and what was written. Out: its place among them, or an error that names
//! both, in one line.

/// A name that is not in its list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {written:?}; did you mean {nearest:?}?")]
pub struct Unknown {
    /// What it should be the name of.
    pub what: &'static str,
    /// As it was written.
    pub written: String,
    /// The valid name most like it.
    pub nearest: String,
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
        nearest: nearest(names, written).unwrap_or_default().to_owned(),
    })
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
}

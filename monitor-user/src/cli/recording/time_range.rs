//! Parses the time range of a recording: `--from` and `--to`.
//!
//! In: texts and the span of the recording. Out: a range, which overlaps the span.

use super::args::PartArgs;
use crate::cli::exit::Failure;
use monitor_model::id::Ns;
use monitor_recording::Span;
use std::time::{Duration, UNIX_EPOCH};

/// A time range on the realtime clock, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Start.
    pub from: Ns,
    /// End.
    pub to: Ns,
}

/// The requested time range of a recording.
pub fn time_range(part: &PartArgs, span: &Span) -> Result<TimeRange, Failure> {
    let at = |written: &Option<String>, or: Ns| match written {
        Some(text) => parse_time(text, span).map_err(Failure::usage),
        None => Ok(or),
    };
    let (from, to) = (at(&part.from, Ns(0))?, at(&part.to, Ns(u64::MAX))?);
    if to < from {
        return Err(Failure::usage("--to is before --from"));
    }
    if from > span.last.unix || to < span.first.unix {
        let [first, last] = [span.first, span.last].map(|it| rfc3339(it.unix));
        let why = format!("outside the recording, which covers {first} to {last}");
        return Err(Failure::usage(why));
    }
    Ok(TimeRange { from, to })
}

/// Formats a time on the realtime clock.
pub fn rfc3339(at: Ns) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(at.0)).to_string()
}

fn parse_time(text: &str, span: &Span) -> Result<Ns, String> {
    let time = |text: &str| humantime::parse_duration(text.trim()).ok().map(Ns::from);
    let found = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(after), _) => time(after).map(|it| Ns(span.first.unix.0.saturating_add(it.0))),
        (_, Some(before)) => time(before).map(|it| Ns(span.last.unix.0.saturating_sub(it.0))),
        _ => {
            let at = humantime::parse_rfc3339_weak(text).ok();
            at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(Ns::from)
        }
    };
    found.ok_or_else(|| {
        format!(
            "time {text:?}: expected 2026-11-20T14:00:00Z, +90s (after the start) or -5m \
             (before the end)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::sample::Instant;

    #[track_caller]
    fn check(from: Option<&str>, to: Option<&str>, want: Option<(u64, u64)>) {
        const SECOND: u64 = 1_000_000_000;
        let at = |second: u64| Instant { unix: Ns(second * SECOND), boot: Ns(0) };
        let span = Span { first: at(1_000), last: at(2_000), samples: 7 };
        let part = PartArgs { from: from.map(str::to_owned), to: to.map(str::to_owned) };
        let got = time_range(&part, &span).ok().map(|it| (it.from.0 / SECOND, it.to.0 / SECOND));
        assert_eq!(got, want);
    }

    #[test]
    fn a_time_is_absolute_or_relative_to_start_or_end() {
        check(Some("+90s"), Some("-5m"), Some((1_090, 1_700)));
        check(Some("1970-01-01T00:20:00Z"), None, Some((1_200, u64::MAX / 1_000_000_000)));
        check(Some("1970-01-01 00:20:00"), Some("+1000s"), Some((1_200, 2_000)));
        check(None, None, Some((0, u64::MAX / 1_000_000_000)));
    }

    #[test]
    fn a_range_outside_the_recording_is_refused() {
        check(Some("+1h"), None, None);
        check(Some("-1s"), Some("+1s"), None);
        check(Some("yesterday"), None, None);
        check(None, Some("1970-01-01T00:00:07Z"), None);
    }
}

//! Arguments of the commands around recordings, and the time range that they select.
//!
//! In: the command line, and the span of a recording. Out: the same, typed.

use crate::cli::args::daemon::DaemonArgs;
use crate::cli::args::{
    LimitArgs, NodeSetArgs, PrintArgs, ReadingArgs, SourceArgs, interval, names,
};
use crate::cli::exit::{self, Failure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use monitor_format::OutputFormat;
use monitor_model::id::Ns;
use monitor_recording::Span;
use monitor_sampling::usage_report::ReportBy;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

/// Forms of an export; Parquet needs a build with the feature of that name.
const EXPORT_FORMS: &[&str] =
    if cfg!(feature = "parquet") { &["csv", "json", "parquet"] } else { &["csv", "json"] };

/// Arguments of `record`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
#[command(mut_args(adapt_for_record))]
pub struct RecordArgs {
    /// File to write; only its owner can read it. With --nodes: FILE.NODE for each node
    pub file: PathBuf,
    /// What is recorded.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Daemon or local backend.
    #[command(flatten)]
    pub reader: SourceArgs,
    /// Interval between samples, such as 100ms, 1s or 2m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub every: Duration,
    /// When it stops.
    #[command(flatten)]
    pub limit: LimitArgs,
    /// Maximum file size, such as 100m or 1g; then stop, or rotate with --rotate
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Limits")]
    pub max_size: Option<u64>,
    /// Maximum time per file; then stop, or rotate with --rotate
    #[arg(long, value_name = "TIME", value_parser = interval, help_heading = "Limits")]
    pub max_time: Option<Duration>,
    /// At a limit continue in a new file, and keep N older ones: FILE.1, FILE.2, …
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9999),
        help_heading = "Limits")]
    pub rotate: Option<u32>,
    /// Replace an existing file
    #[arg(long, help_heading = "Limits")]
    pub force: bool,
    /// The nodes; each has a file of its own, FILE.NODE.
    #[command(flatten)]
    pub on_nodes: NodeSetArgs,
}

/// Adapts the shared arguments to `record`: hides those about format and order, and records all
/// parts by default.
fn adapt_for_record(argument: clap::Arg) -> clap::Arg {
    const NOT_RECORDED: [&str; 8] =
        ["format", "pmix", "output", "filter", "sort", "top", "group_by", "keep"];
    let name = argument.get_id().as_str();
    let hide = NOT_RECORDED.contains(&name);
    if name == "part" { argument.default_value("all") } else { argument.hide(hide) }
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ReplayArgs {
    /// Recording to read
    pub file: PathBuf,
    /// What is shown and how it is printed.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Multiple of the original speed; max: do not wait. Default: 1 on a terminal, else max
    #[arg(long, value_name = "N|max", value_parser = speed)]
    pub speed: Option<Speed>,
    /// The time range.
    #[command(flatten)]
    pub part: PartArgs,
    /// Stop after N samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Serve a web page with a seek bar at this address
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0",
        conflicts_with_all = ["count", "output", "format"])]
    pub page: Option<SocketAddr>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ReportArgs {
    /// Recording to read
    pub file: PathBuf,
    /// Property to summarize by
    #[arg(long, value_name = "WHAT", default_value = "command",
        value_parser = names::<ReportBy>(&ReportBy::NAMES))]
    pub by: ReportBy,
    /// Print at most N entries; files contain more
    #[arg(long, value_name = "N", default_value = "20")]
    pub top: usize,
    /// The time range.
    #[command(flatten)]
    pub part: PartArgs,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// Write plots of the largest entries over time to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a self-contained page with plots and tables to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
#[command(mut_args(adapt_for_export))]
pub struct ExportArgs {
    /// Recording to read
    pub file: PathBuf,
    /// What is exported and how.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// The time range.
    #[command(flatten)]
    pub part: PartArgs,
}

/// Arguments of `save`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct SaveArgs {
    /// File to write; only its owner can read it
    pub file: PathBuf,
    /// Save only the last TIME; default: everything that is kept
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub last: Option<Duration>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

fn export_form(name: String) -> Result<OutputFormat, String> {
    name.parse().map_err(|why: monitor_model::name::UnknownName| why.to_string())
}

/// Adapts the shared arguments to `export`: limits the formats.
fn adapt_for_export(argument: clap::Arg) -> clap::Arg {
    match argument.get_id().as_str() {
        "format" => argument
            .default_value("csv")
            .value_parser(PossibleValuesParser::new(EXPORT_FORMS).try_map(export_form)),
        "pmix" => argument.hide(true),
        _ => argument,
    }
}

/// The time range of a recording.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Time range")]
pub struct PartArgs {
    /// Start time: 2026-11-20T14:00:00Z, +90s from the beginning, or -5m from the end
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End time, in the same format
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Length of the range, such as 90s, instead of its end
    #[arg(long = "for", value_name = "TIME", value_parser = interval, conflicts_with = "to")]
    pub span: Option<Duration>,
}

/// The speed of playback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// A multiple of the original speed.
    Times(f64),
    /// Without waiting.
    Max,
}

fn speed(text: &str) -> Result<Speed, String> {
    const WANT: &str = "expected a multiple such as 0.5 or 10, or max";
    if text == "max" {
        return Ok(Speed::Max);
    }
    let times = text.trim_end_matches('x').parse::<f64>().map_err(|_| WANT)?;
    match times.is_finite() && times >= 1e-3 {
        true => Ok(Speed::Times(times)),
        false => Err(WANT.into()),
    }
}

/// Parses a size, with units of 1,024. Fails below 64 KiB.
fn size(text: &str) -> Result<u64, String> {
    const WANT: &str = "expected a size such as 500k, 100m or 1g";
    const MIN: u64 = 64 << 10;
    let lower = text.to_lowercase();
    let lower = lower.trim_end_matches("ib").trim_end_matches('b');
    let digits = lower.trim_end_matches(['k', 'm', 'g', 't']);
    let power = match &lower[digits.len()..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(WANT.into()),
    };
    let number: u64 = digits.parse().map_err(|_| WANT)?;
    let bytes = number.checked_mul(1 << power).ok_or(WANT)?;
    if bytes < MIN { Err("the minimum is 64k".into()) } else { Ok(bytes) }
}

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
    let (from, mut to) = (at(&part.from, Ns(0))?, at(&part.to, Ns(u64::MAX))?);
    if let Some(length) = part.span {
        to = Ns(from.max(span.first.unix).0.saturating_add(Ns::from(length).0));
    }
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

    #[test]
    fn sizes_have_binary_units_and_a_minimum() {
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("100MiB"), Ok(100 << 20));
        assert_eq!(size("64k"), Ok(64 << 10));
        assert_eq!(size("100000"), Ok(100_000));
        for wrong in ["", "g", "1.5g", "1kk", "-1k", "99999999t", "10k"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_speed_is_a_multiple_or_max() {
        assert_eq!(speed("0.5"), Ok(Speed::Times(0.5)));
        assert_eq!(speed("10x"), Ok(Speed::Times(10.0)));
        assert_eq!(speed("max"), Ok(Speed::Max));
        for wrong in ["0", "-1", "nan", "inf", "fast"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }

    #[track_caller]
    fn check(from: Option<&str>, to: Option<&str>, want: Option<(u64, u64)>) {
        let (from, to) = (from.map(Into::into), to.map(Into::into));
        check_part(&PartArgs { from, to, span: None }, want);
    }

    #[track_caller]
    fn check_part(part: &PartArgs, want: Option<(u64, u64)>) {
        const SECOND: u64 = 1_000_000_000;
        let at = |second: u64| Instant { unix: Ns(second * SECOND), boot: Ns(0) };
        let span = Span { first: at(1_000), last: at(2_000), samples: 7 };
        let got = time_range(part, &span).ok().map(|it| (it.from.0 / SECOND, it.to.0 / SECOND));
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
    fn a_range_has_a_length_instead_of_an_end() {
        let part = |from: Option<&str>| PartArgs {
            from: from.map(Into::into),
            span: Some(Duration::from_secs(30)),
            ..PartArgs::default()
        };
        check_part(&part(Some("-5m")), Some((1_700, 1_730)));
        check_part(&part(None), Some((0, 1_030)));
    }

    #[test]
    fn a_range_outside_the_recording_is_refused() {
        check(Some("+1h"), None, None);
        check(Some("-1s"), Some("+1s"), None);
        check(Some("yesterday"), None, None);
        check(None, Some("1970-01-01T00:00:07Z"), None);
    }
}

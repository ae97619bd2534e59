//! The words of the commands around recordings, as they were written.

use crate::cli::args::{Reader, Reading, interval, names};
use crate::cli::exit;
use crate::cli::words::Daemon;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use monitor_format::Form;
use monitor_sampling::ledger::Of;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `record`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
#[command(mut_args(of_a_recording))]
pub struct Record {
    /// The file to write; its owner alone may read it
    pub file: PathBuf,
    /// What to read.
    #[command(flatten)]
    pub reading: Reading,
    /// Who reads.
    #[command(flatten)]
    pub reader: Reader,
    /// Time from one sample to the next, such as 100ms, 1s or 2m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub every: Duration,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = interval)]
    pub time: Option<Duration>,
    /// Stop after so many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Largest file, such as 100m or 1g; then stop, or go on as --rotate says
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Limits")]
    pub max_size: Option<u64>,
    /// Longest time in a file; then stop, or go on as --rotate says
    #[arg(long, value_name = "TIME", value_parser = interval, help_heading = "Limits")]
    pub max_time: Option<Duration>,
    /// At a limit go on in a new file, and keep so many older ones: FILE.1, FILE.2, …
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9999),
        help_heading = "Limits")]
    pub rotate: Option<u32>,
    /// Replace the file if it is there
    #[arg(long, help_heading = "Limits")]
    pub force: bool,
}

/// What of a reading speaks of its form or of the order of its rows is not of a recording, which
/// has everything unless less is asked for.
fn of_a_recording(argument: clap::Arg) -> clap::Arg {
    const NOT_RECORDED: [&str; 7] = ["format", "pmix", "output", "sort", "top", "group_by", "keep"];
    let name = argument.get_id().as_str();
    let hide = NOT_RECORDED.contains(&name);
    if name == "part" { argument.default_value("all") } else { argument.hide(hide) }
}

/// `replay`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Replay {
    /// The recording
    pub file: PathBuf,
    /// What to show of it.
    #[command(flatten)]
    pub reading: Reading,
    /// How many times as fast as it was; max does not wait. On a terminal 1, else max
    #[arg(long, value_name = "N|max", value_parser = speed)]
    pub speed: Option<Speed>,
    /// Which part of it.
    #[command(flatten)]
    pub part: Part,
    /// Stop after so many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Show it as a page that a browser opens there, with a bar to go to and fro
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0",
        conflicts_with_all = ["count", "output", "format"])]
    pub page: Option<SocketAddr>,
}

/// `report`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Report {
    /// The recording
    pub file: PathBuf,
    /// What is told apart
    #[arg(long, value_name = "WHAT", default_value = "command",
        value_parser = names::<Of>(&Of::NAMES))]
    pub by: Of,
    /// Show only the first so many; files have more
    #[arg(long, value_name = "N", default_value = "20")]
    pub top: usize,
    /// Which part of it.
    #[command(flatten)]
    pub part: Part,
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub format: String,
    /// Draw the course of the largest into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a page with plots and tables into this file; it needs nothing from elsewhere
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `export`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
#[command(mut_args(of_an_export))]
pub struct Export {
    /// The recording
    pub file: PathBuf,
    /// What of it.
    #[command(flatten)]
    pub reading: Reading,
    /// Which part of it.
    #[command(flatten)]
    pub part: Part,
}

/// `save`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Save {
    /// The file to write; its owner alone may read it
    pub file: PathBuf,
    /// Only the last so much time; else all that is kept
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub last: Option<Duration>,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
    /// Which daemon.
    #[command(flatten)]
    pub daemon: Daemon,
}

fn form_of_an_export(name: String) -> Result<Form, String> {
    name.parse().map_err(|why: monitor_model::name::Unknown| why.to_string())
}

/// What an export may be: what other programs read.
fn of_an_export(argument: clap::Arg) -> clap::Arg {
    match argument.get_id().as_str() {
        "format" => argument.default_value("csv").value_parser(
            PossibleValuesParser::new(["csv", "json", "parquet"]).try_map(form_of_an_export),
        ),
        "pmix" => argument.hide(true),
        _ => argument,
    }
}

/// A part of a recording.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which part")]
pub struct Part {
    /// From this time: 2026-11-20T14:00:00Z, +90s from its beginning, or -5m from its end
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Until this time, said likewise
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub to: Option<String>,
}

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was.
    Times(f64),
    /// Without waiting.
    Max,
}

fn speed(text: &str) -> Result<Speed, String> {
    const WANT: &str = "write how many times as fast, such as 0.5 or 10, or max";
    if text == "max" {
        return Ok(Speed::Max);
    }
    let times = text.trim_end_matches('x').parse::<f64>().map_err(|_| WANT)?;
    match times.is_finite() && times >= 1e-3 {
        true => Ok(Speed::Times(times)),
        false => Err(WANT.into()),
    }
}

/// A size, in units of 1,024.
fn size(text: &str) -> Result<u64, String> {
    const WANT: &str = "write a size such as 500k, 100m or 1g";
    const LEAST: u64 = 64 << 10;
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
    if bytes < LEAST { Err("the smallest is 64k".into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("100MiB"), Ok(100 << 20));
        assert_eq!(size("64k"), Ok(64 << 10));
        assert_eq!(size("100000"), Ok(100_000));
        for wrong in ["", "g", "1.5g", "1kk", "-1k", "99999999t", "10k"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_speed_is_a_number_of_times() {
        assert_eq!(speed("0.5"), Ok(Speed::Times(0.5)));
        assert_eq!(speed("10x"), Ok(Speed::Times(10.0)));
        assert_eq!(speed("max"), Ok(Speed::Max));
        for wrong in ["0", "-1", "nan", "inf", "fast"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}

//! The words of the command line, as they were written.
//!
//! One definition feeds the parser, the help, the manual pages and the completions. Names of
//! fields are checked later, when it is known of what.

mod parse;
mod reading;
mod service;

use super::recording::words as recording;
use super::top::words::Top;
use super::{exit, when, words};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use parse::{interval, names};
pub use reading::{Printed, ProbeLog, Reader, Reading};
pub use service::{Config, ConfigCommand, Serve, Status};

/// Knows exactly what every process of this node uses, and costs almost nothing.
///
/// Without a command it shows the screen of top, on a terminal.
#[derive(Debug, Parser)]
#[command(name = "monitor", version, after_help = exit::HELP)]
#[command(max_term_width = 80)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read once
    Sample(Sample),
    /// Read again and again, with rates
    Watch(Watch),
    /// Look at processes and node on a screen, with keys and mouse
    Top(Top),
    /// Record what is read
    Record(recording::Record),
    /// Print a recording as watch would have printed it
    Replay(recording::Replay),
    /// Tell from a recording what used what
    Report(recording::Report),
    /// Give a recording to other programs, as CSV, JSON or Parquet
    Export(recording::Export),
    /// Save what the flight recorder of the daemon kept
    Save(recording::Save),
    /// Run a command; tell what it and all its descendants used
    Run(Run),
    /// Start a monitor at the daemon, and print what it tells
    Start(words::Start),
    /// List the monitors that run at the daemon
    List(words::List),
    /// Cancel a monitor that runs at the daemon
    Cancel(words::Cancel),
    /// Print what monitors that run on a lease have to tell
    Events(words::Events),
    /// Ask in the request language, and print the replies
    Ask(words::Ask),
    /// The manual of what can be asked for
    Services(words::Services),
    /// Print, count, time or stop: when a function is called, a signal comes, a program ends
    When(when::words::When),
    /// Serve the tools of this node: one reader for all of them
    Serve(Serve),
    /// What the service of this node uses, holds and refused
    Status(Status),
    /// Check the configuration of the service, or show what holds
    Config(Config),
    /// List every field, or one: name, unit, meaning, source
    Fields(Fields),
    /// Tell what works here, by which hook, at what cost, and what is missing
    Doctor(Doctor),
    /// Act on processes for a user: started by the service, with a socket as its input
    #[command(hide = true)]
    Hand(Hand),
    /// Print the completions of a shell
    Completions(Completions),
    /// Print the manual page, or write all of them to a folder
    Man(Man),
}

/// `hand`.
#[derive(Debug, Args)]
pub struct Hand {
    /// The user whose rights it takes
    #[arg(long)]
    pub uid: Option<u32>,
    /// His group
    #[arg(long, requires = "uid")]
    pub gid: Option<u32>,
    /// His other groups
    #[arg(long, requires = "uid", value_delimiter = ',', num_args = 0..)]
    pub groups: Vec<u32>,
}

/// `sample`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Sample {
    /// What to read.
    #[command(flatten)]
    pub reading: Reading,
    /// Who reads.
    #[command(flatten)]
    pub reader: Reader,
    /// What is logged.
    #[command(flatten)]
    pub log: ProbeLog,
}

/// `watch`.
#[derive(Debug, Parser)]
#[command(after_help = exit::HELP)]
pub struct Watch {
    /// What to read.
    #[command(flatten)]
    pub reading: Reading,
    /// Who reads.
    #[command(flatten)]
    pub reader: Reader,
    /// What is logged.
    #[command(flatten)]
    pub log: ProbeLog,
    /// Time from one reading to the next, such as 100ms, 1s or 2m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub every: Duration,
    /// Stop after so many readings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_CODES)]
pub struct Run {
    /// The command and its arguments
    #[arg(required = true, last = true)]
    pub command: Vec<OsString>,
    /// Form of the report
    #[arg(long, default_value = "text", value_enum)]
    pub format: RunForm,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Record it and all its descendants, once a second, reading without the daemon
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// With --record: replace the file if it is there
    #[arg(long, requires = "record")]
    pub force: bool,
    /// Who reads.
    #[command(flatten)]
    pub reader: Reader,
}

/// Forms of the report of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RunForm {
    /// For people, on standard error.
    Text,
    /// One object, on standard output.
    Json,
}

const RUN_CODES: &str = "\
Exit codes:
  the command's own, or 128 and the number of the signal that ended it
  126  the command cannot be executed
  127  there is no such command";

/// `fields`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Fields {
    /// One field; all of them, if absent
    pub name: Option<String>,
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json", "markdown"]))]
    pub format: String,
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Doctor {
    /// How it is printed.
    #[command(flatten)]
    pub printed: Printed,
    /// Who is asked.
    #[command(flatten)]
    pub reader: Reader,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Write monitor.1, monitor-sample.1, … there
    pub dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_sort_field_may_begin_with_a_hyphen() {
        let cli = Cli::try_parse_from(["monitor", "sample", "--sort", "-rss_bytes"]);
        let Ok(Cli { command: Some(Command::Sample(sample)) }) = cli else { panic!("{cli:?}") };
        assert_eq!(sample.reading.sort.as_deref(), Some("-rss_bytes"));
    }
}

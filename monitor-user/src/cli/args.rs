//! The words of the command line, as they were written.
//!
//! One definition feeds the parser, the help, the manual pages and the completions. Names of
//! fields are checked later, when it is known of what.

use super::recording::words as recording;
use super::top::words::Top;
use super::{exit, when, words};
use crate::backend::select::Choice;
use crate::format::{Form, Scope};
use crate::model::group::By;
use crate::sys::user;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Knows exactly what every process of this node uses, and costs almost nothing.
///
/// Without a command it shows the screen of top, on a terminal.
#[derive(Debug, Parser)]
#[command(name = "monitor", version, after_help = exit::HELP)]
#[command(disable_help_subcommand = true, max_term_width = 80)]
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
    /// Give a recording to other programs, as CSV or JSON
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
    /// List every field: name, unit, meaning, source
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
    /// What the programs in the kernel log
    #[arg(long, value_name = "LEVEL", default_value = "off",
        value_parser = PossibleValuesParser::new(LEVELS), help_heading = "Who reads")]
    pub probe_log: String,
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
    /// What the programs in the kernel log
    #[arg(long, value_name = "LEVEL", default_value = "off",
        value_parser = PossibleValuesParser::new(LEVELS), help_heading = "Who reads")]
    pub probe_log: String,
    /// Time from one reading to the next, such as 100ms, 1s or 2m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub every: Duration,
    /// Stop after so many readings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

/// What `sample` and `watch` have in common.
#[derive(Clone, Debug, Args)]
pub struct Reading {
    /// Processes, the node with its devices, disks, interfaces, or all
    #[arg(default_value = "proc", value_parser = names::<Scope>(&Scope::NAMES))]
    pub part: Scope,
    /// With disk or net: only these devices
    pub device: Vec<String>,

    /// Only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Which processes")]
    pub pid: Vec<u32>,
    /// Only processes with this command name; * stands for any letters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Which processes")]
    pub comm: Vec<String>,
    /// Only processes of this user, by name or number
    #[arg(long, value_name = "USER,…", value_delimiter = ',', value_parser = user::number,
        help_heading = "Which processes")]
    pub uid: Vec<u32>,
    /// Only processes in this cgroup or below it
    #[arg(long, value_name = "PATH,…", value_delimiter = ',', help_heading = "Which processes")]
    pub cgroup: Vec<String>,
    /// Show only the first so many (watch on a terminal: as many as fit)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Which processes")]
    pub top: Option<u32>,
    /// Add up processes that have this in common, ended ones included
    #[arg(long, value_name = "WHAT", value_parser = names::<By>(&By::NAMES),
        help_heading = "Which processes")]
    pub group_by: Option<By>,
    /// With --group-by: tell a group so long after its last process ended
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration,
        requires = "group_by", help_heading = "Which processes")]
    pub keep: Duration,
    /// Sort by this field, largest first; +FIELD smallest first
    #[arg(
        long,
        value_name = "[+|-]FIELD",
        allow_hyphen_values = true,
        help_heading = "Which processes"
    )]
    pub sort: Option<String>,

    /// Show these fields (see: monitor fields)
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',', help_heading = "What of them")]
    pub fields: Vec<String>,
    /// A row for each thread
    #[arg(long, help_heading = "What of them")]
    pub threads: bool,
    /// Count block I/O by process
    #[arg(long, help_heading = "What of them")]
    pub disk: bool,
    /// Count the payload of every socket by process: UDP too
    #[arg(long, help_heading = "What of them")]
    pub net: bool,
    /// Percentiles of the wait for a CPU
    #[arg(long, help_heading = "What of them")]
    pub runqlat: bool,
    /// With --disk: charge write-back to the process that made the pages dirty
    #[arg(long, requires = "disk", help_heading = "What of them")]
    pub writeback: bool,
    /// Count CPU time at each switch
    #[arg(long, help_heading = "What of them")]
    pub exact_cpu: bool,
    /// Tell each signal: when, from whom, to whom, what became of it
    #[arg(long, help_heading = "What of them")]
    pub signals: bool,

    /// Form of the output
    #[arg(long, default_value = "table", value_parser = names::<Form>(&Form::NAMES),
        help_heading = "Output")]
    pub format: Form,
    /// Under the keys and in the units of PMIx: --format pmix
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub pmix: bool,
    /// Write to this file, a whole sample at a time
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// Who reads: the daemon of this node, if one answers, else we.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Who reads")]
pub struct Reader {
    /// Do not ask the daemon
    #[arg(long)]
    pub local: bool,
    /// Ask the daemon that listens there
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Read here: by the best way that works, or by this one and no other
    #[arg(long, default_value = "auto", env = "MONITOR_BACKEND", hide_env_values = true,
        value_parser = names::<Choice>(&Choice::NAMES))]
    pub backend: Choice,
}

impl Reading {
    /// The form of the output.
    pub const fn form(&self) -> Form {
        if self.pmix { Form::Pmix } else { self.format }
    }
}

/// Levels of `--probe-log`; their place is what the programs are told.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The level of a name.
pub fn probe_log(name: &str) -> u8 {
    let level = LEVELS.iter().position(|level| *level == name);
    level.and_then(|level| u8::try_from(level).ok()).unwrap_or(0)
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

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Serve {
    /// Its configuration; else $XDG_CONFIG_HOME/monitor/monitor.toml or /etc/monitor/monitor.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where it listens
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Who reads: the best that works, or this one and no other
    #[arg(long, env = "MONITOR_BACKEND", hide_env_values = true,
        value_parser = names::<Choice>(&Choice::NAMES))]
    pub backend: Option<Choice>,
}

/// `status`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Status {
    /// Where it listens
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub format: String,
}

/// `config`.
#[derive(Debug, Args)]
pub struct Config {
    /// What to do with it.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What can be done with a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Tell every error with its line and key; exit code 2 if there is one
    Check {
        /// The file; the one that the service would read, if absent
        file: Option<PathBuf>,
    },
    /// Print what holds, and where each value comes from
    Show {
        /// The file; the one that the service would read, if absent
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Where it would listen
        #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
        socket: Option<PathBuf>,
        /// Who would read
        #[arg(long, env = "MONITOR_BACKEND", hide_env_values = true,
            value_parser = names::<Choice>(&Choice::NAMES))]
        backend: Option<Choice>,
    },
}

/// `fields`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Fields {
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json", "markdown"]))]
    pub format: String,
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Doctor {
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub format: String,
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

/// A parser of names that completions know too. The texts are the valid ones, so it cannot fail.
pub(super) fn names<T>(valid: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = crate::model::name::Unknown> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(valid).try_map(|name| name.parse::<T>())
}

/// The names of the commands.
pub fn command_names() -> Vec<String> {
    let cli = <Cli as clap::CommandFactory>::command();
    cli.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(1);
    match humantime::parse_duration(text) {
        Ok(time) if time >= LEAST => Ok(time),
        Ok(_) => Err("the shortest is 1ms".into()),
        // A number alone lacks its unit, and is told so; anything else is no time at all.
        Err(error) if text.parse::<f64>().is_ok() => Err(error.to_string()),
        Err(_) => Err("write a time such as 100ms, 1s or 2m".into()),
    }
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
    fn times_are_read_as_people_write_them() {
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(interval("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(interval("0s"), Err("the shortest is 1ms".into()));
        assert!(interval("1").is_err_and(|why| why.contains("unit")));
    }

    #[test]
    fn a_sort_field_may_begin_with_a_hyphen() {
        let cli = Cli::try_parse_from(["monitor", "sample", "--sort", "-rss_bytes"]);
        let Ok(Cli { command: Some(Command::Sample(sample)) }) = cli else { panic!("{cli:?}") };
        assert_eq!(sample.reading.sort.as_deref(), Some("-rss_bytes"));
    }
}

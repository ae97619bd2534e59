//! The words that several commands share: what is read, who reads, and how it is printed.
//!
//! In: the command line. Out: it, typed. What the words mean together is `cli/plan`'s.

use super::parse::names;
use clap::Args;
use clap::builder::PossibleValuesParser;
use monitor_backends::select::Choice;
use monitor_format::Form;
use monitor_model::group::By;
use monitor_model::scope::Scope;
use monitor_sys::user;
use std::path::PathBuf;
use std::time::Duration;

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

/// How those print that have one thing to tell.
#[derive(Clone, Debug, Args)]
pub struct Printed {
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub format: String,
}

/// What those log that read here.
#[derive(Clone, Debug, Args)]
pub struct ProbeLog {
    /// What the programs in the kernel log
    #[arg(long, value_name = "LEVEL", default_value = "off",
        value_parser = PossibleValuesParser::new(LEVELS), help_heading = "Who reads")]
    pub probe_log: String,
}

/// Levels of `--probe-log`; their place is what the programs are told.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl ProbeLog {
    /// The level, as the programs are told it.
    pub fn level(&self) -> u8 {
        let level = LEVELS.iter().position(|level| *level == self.probe_log);
        level.and_then(|level| u8::try_from(level).ok()).unwrap_or(0)
    }
}

impl Reading {
    /// The form of the output.
    pub const fn form(&self) -> Form {
        if self.pmix { Form::Pmix } else { self.format }
    }
}

impl Printed {
    /// Whether programs read it.
    pub fn is_json(&self) -> bool {
        self.format == "json"
    }
}

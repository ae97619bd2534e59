//! The words of the commands that need a daemon, as they were written.

use super::args::{Printed, Reader, Reading, interval};
use super::exit;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use std::time::Duration;

/// Which daemon.
#[derive(Clone, Debug, Args)]
pub struct Daemon {
    /// Ask the daemon that listens there
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
}

/// `start`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Start {
    /// The name of the monitor
    pub name: String,
    /// What to read.
    #[command(flatten)]
    pub reading: Reading,
    /// Time from one sample to the next, such as 100ms, 1s or 2m
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub every: Duration,
    /// End after so many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Let it run on at the daemon, and return
    #[arg(long, conflicts_with_all = ["output", "format"])]
    pub detach: bool,
    /// With --detach: how long it runs on after somebody asked for it last
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = interval,
        requires = "detach")]
    pub lease: Duration,
    /// Take the place of a monitor with the same name
    #[arg(long)]
    pub replace: bool,
    /// Go on when all processes that were named have ended
    #[arg(long)]
    pub follow: bool,
    /// Which daemon.
    #[command(flatten)]
    pub daemon: Daemon,
}

/// `list`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct List {
    /// How it is printed.
    #[command(flatten)]
    pub printed: Printed,
    /// Which daemon.
    #[command(flatten)]
    pub daemon: Daemon,
}

/// `cancel`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Cancel {
    /// The name of the monitor
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// All of this user
    #[arg(long)]
    pub all: bool,
    /// The one that this process asked for, if several have the name
    #[arg(long, value_name = "PID", requires = "name")]
    pub requestor: Option<u32>,
    /// Which daemon.
    #[command(flatten)]
    pub daemon: Daemon,
}

/// `events`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Events {
    /// The name of the monitor; all that run on a lease, if absent
    pub name: Option<String>,
    /// Go on with what comes
    #[arg(long)]
    pub follow: bool,
    /// How it is printed.
    #[command(flatten)]
    pub printed: Printed,
    /// Which daemon.
    #[command(flatten)]
    pub daemon: Daemon,
}

/// `ask`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Ask {
    /// Requests, each as one word, such as '10 [0] number_of_nodes()'; - reads lines from the
    /// standard input
    #[arg(required = true)]
    pub request: Vec<String>,
    /// Attach these processes first
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "What is observed")]
    pub pid: Vec<u32>,
    /// Attach processes with this command name first, and those to come; * stands for any letters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "What is observed")]
    pub comm: Vec<String>,
    /// Attach processes in this cgroup or below it first, and those to come
    #[arg(long, value_name = "PATH,…", value_delimiter = ',', help_heading = "What is observed")]
    pub cgroup: Vec<String>,
    /// OMIS 1.0 to the letter: refuse extensions, and get no reply that has one
    #[arg(long)]
    pub strict: bool,
    /// Wait so long for events, such as 10s
    #[arg(long = "for", value_name = "TIME", value_parser = interval)]
    pub span: Option<Duration>,
    /// Wait for so many replies at events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Who answers.
    #[command(flatten)]
    pub reader: Reader,
}

/// `services`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Services {
    /// One service; all of them, if absent
    pub name: Option<String>,
    /// Whose tools bring services, too.
    #[command(flatten)]
    pub daemon: Daemon,
    /// Form of the output
    #[arg(long, default_value = "text",
        value_parser = PossibleValuesParser::new(["text", "json", "markdown"]))]
    pub format: String,
}

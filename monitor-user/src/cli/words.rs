//! The words of the commands that need a daemon, as they were written.

use super::args::{Reading, interval};
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
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub format: String,
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
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub format: String,
    /// Which daemon.
    #[command(flatten)]
    pub daemon: Daemon,
}

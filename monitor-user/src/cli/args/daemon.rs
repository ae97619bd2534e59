//! Arguments of the commands that run or use a daemon.
//!
//! In: the command line. Out: the same, typed.

use super::nodes::MonitorNodesArgs;
use super::reading::{LimitArgs, PrintArgs, ReadingArgs, SourceArgs, formats, interval, names};
use crate::cli::exit;
use crate::cli::node_groups::node_set;
use clap::{Args, Subcommand};
use monitor_backend::BackendChoice;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ServeArgs {
    /// Configuration file; default: $XDG_CONFIG_HOME/monitor/monitor.toml, then
    /// /etc/monitor/monitor.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What overrides the file.
    #[command(flatten)]
    pub overrides: OverrideArgs,
}

/// Options of `serve` that override the configuration file.
#[derive(Debug, Args)]
pub struct OverrideArgs {
    /// Socket to listen on
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Backend to read with; auto: the best that works
    #[arg(long, env = "MONITOR_BACKEND", hide_env_values = true,
        value_parser = names::<BackendChoice>(&BackendChoice::NAMES))]
    pub backend: Option<BackendChoice>,
}

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Check or show.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands below `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every error with its line and key; exit code 2 if there is one
    Check {
        /// The file.
        #[command(flatten)]
        file: ConfigFileArgs,
    },
    /// Print the effective configuration and where each value comes from
    Show {
        /// The file.
        #[command(flatten)]
        file: ConfigFileArgs,
        /// What overrides the file.
        #[command(flatten)]
        overrides: OverrideArgs,
    },
}

/// A configuration file, as an argument or as an option.
#[derive(Debug, Args)]
pub struct ConfigFileArgs {
    /// Configuration file; default: the one that serve would read
    pub file: Option<PathBuf>,
    /// Configuration file, spelled as for serve
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub config: Option<PathBuf>,
}

impl ConfigFileArgs {
    /// The named file, if any.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }
}

/// Selects the daemon.
#[derive(Clone, Debug, Args)]
pub struct DaemonArgs {
    /// Connect to the daemon listening on this socket
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
}

/// Arguments of `start`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct StartArgs {
    /// Name of the monitor
    pub name: String,
    /// What is read and how it is printed.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Interval between samples, such as 100ms, 1s or 2m
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub every: Duration,
    /// When it stops.
    #[command(flatten)]
    pub limit: LimitArgs,
    /// Leave the monitor running at the daemon and exit
    #[arg(long, conflicts_with_all = ["output", "format"])]
    pub detach: bool,
    /// With --detach: cancel the monitor when no client has read it for TIME
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = interval,
        requires = "detach")]
    pub lease: Duration,
    /// Replace a monitor with the same name
    #[arg(long)]
    pub replace: bool,
    /// Continue after all named processes have exited
    #[arg(long)]
    pub follow: bool,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: MonitorNodesArgs,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ListArgs {
    /// Output format, and the daemon.
    #[command(flatten)]
    pub report: DaemonReportArgs,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: MonitorNodesArgs,
}

/// Arguments of `list` and `status`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct DaemonReportArgs {
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct CancelArgs {
    /// Name of the monitor
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// Cancel all monitors of this user
    #[arg(long)]
    pub all: bool,
    /// Cancel the monitor that this process started, if several have the name
    #[arg(long, value_name = "PID", requires = "name")]
    pub requestor: Option<u32>,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: MonitorNodesArgs,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct EventsArgs {
    /// Name of the monitor; default: all detached monitors of this user
    pub name: Option<String>,
    /// Keep printing new samples
    #[arg(long)]
    pub follow: bool,
    /// With --follow: stop after this time, such as 10s
    #[arg(long = "for", value_name = "TIME", value_parser = interval, requires = "follow")]
    pub span: Option<Duration>,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// The nodes; the monitor is named.
    #[command(flatten)]
    pub on_nodes: MonitorNodesArgs,
}

/// Arguments of `gdb`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct GdbArgs {
    /// Process to debug
    pub pid: u32,
    /// Speak gdb's remote protocol on standard input and output instead of starting gdb, as in
    /// gdb's `target remote | monitor gdb --serve PID`
    #[arg(long, conflicts_with_all = ["gdb", "options"])]
    pub serve: bool,
    /// The gdb to start
    #[arg(long, value_name = "PROGRAM", default_value = "gdb")]
    pub gdb: PathBuf,
    /// Options of gdb, after --
    #[arg(last = true, value_name = "GDB-OPTIONS")]
    pub options: Vec<OsString>,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Arguments of `ask`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct AskArgs {
    /// Requests, one per argument, such as '10 [0] number_of_nodes()', or calls of the socket,
    /// such as '{"id":1,"method":"status"}'; - reads lines from standard input
    #[arg(required = true)]
    pub request: Vec<String>,
    /// Attach these processes first
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Observed processes")]
    pub pid: Vec<u32>,
    /// Attach processes with this command name first, and later ones; * matches any characters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Observed processes")]
    pub comm: Vec<String>,
    /// Attach processes in this cgroup or below it first, and later ones
    #[arg(long, value_name = "PATH,…", value_delimiter = ',', help_heading = "Observed processes")]
    pub cgroup: Vec<String>,
    /// Speak strict OMIS 1.0: extensions are refused, and replies contain none
    #[arg(long)]
    pub strict: bool,
    /// Wait this long for events, such as 10s
    #[arg(long = "for", value_name = "TIME", value_parser = interval)]
    pub span: Option<Duration>,
    /// Wait for N event replies
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Ask the whole cluster: [] is all members, and list_nodes() has their numbers
    #[arg(long, help_heading = "Many nodes", conflicts_with_all = ["nodes", "pid", "comm",
        "cgroup", "local", "backend"])]
    pub cluster: bool,
    /// Let these nodes of the cluster execute the requests, such as n[1-3],m7 or @*
    #[arg(long, value_name = "SET", value_parser = node_set, help_heading = "Many nodes",
        conflicts_with_all = ["pid", "comm", "cgroup", "strict", "span", "count", "local",
        "backend"])]
    pub nodes: Option<String>,
    /// With --nodes: wait this long for replies
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval,
        requires = "nodes", help_heading = "Many nodes")]
    pub within: Duration,
    /// With --nodes: output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json"]),
        requires = "nodes", help_heading = "Many nodes")]
    pub format: String,
    /// Daemon or local backend.
    #[command(flatten)]
    pub reader: SourceArgs,
}

/// Arguments of `nodes`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct NodesArgs {
    /// Print them again every second, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// Wait this long for the replies of nodes
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub within: Duration,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct SendArgs {
    /// The file, such as a program or a recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Send it to these nodes of the cluster, such as n[1-3],m7 or @*
    #[arg(long, value_name = "SET")]
    pub nodes: String,
    /// Its name there; that of the file without this option
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Wait this long until nodes accept the file
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval)]
    pub within: Duration,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct MigrateArgs {
    /// The process, with all its threads
    #[arg(required_unless_present = "list", requires = "to")]
    pub pid: Option<u32>,
    /// The node that it goes to
    #[arg(long, value_name = "NODE", requires = "pid")]
    pub to: Option<String>,
    /// Wait this long until its copy there is ready
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = interval)]
    pub within: Duration,
    /// List the migrations of this node that have no outcome yet
    #[arg(long, conflicts_with = "pid")]
    pub list: bool,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Arguments of `conformance`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ConformanceArgs {
    /// Run the cases of this folder, not those of the program
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// Number of this node; default: the first node that replies
    #[arg(long, value_name = "N")]
    pub node: Option<u32>,
    /// How long a reply may take, such as 2s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub timeout: Duration,
    /// Print the sentences, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Output format; markdown: of the list alone
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json", "markdown"]))]
    pub format: String,
    /// The implementation.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Arguments of `services`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ServicesArgs {
    /// Service to print; default: all services
    pub name: Option<String>,
    /// The daemon whose external services are listed too.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json", "markdown"]))]
    pub format: String,
}

//! The arguments of the command line, parsed and typed.
//!
//! One definition feeds the parser, the help, the manual pages and the completions. Field names
//! are checked later, by `cli/plan`, which knows their category.

pub mod daemon;
pub mod files;
mod nodes;
mod reading;

pub use daemon::{ConfigArgs, ServeArgs};
pub use nodes::{NodeSetArgs, NodesArgs};
pub use reading::{LimitArgs, PrintArgs, ProbeLogArgs, ReadingArgs, SourceArgs};
pub use reading::{formats, interval, names, signal};

use super::recording::args as recording;
use super::top::args::TopArgs;
use super::{cluster, exit, job, when};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Measures exactly what every process of this node uses, at almost no cost.
///
/// Without a command, on a terminal, it starts the screen of `monitor top`.
#[derive(Debug, Parser)]
#[command(name = "monitor", version, after_help = exit::HELP)]
#[command(max_term_width = 80)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read once, print and exit
    Sample(SampleOnceArgs),
    /// Read periodically and print rates
    Watch(WatchArgs),
    /// Show processes and node on an interactive screen
    Top(TopArgs),
    /// Record samples to a file
    Record(recording::RecordArgs),
    /// Print a recording as watch would print it
    Replay(recording::ReplayArgs),
    /// Summarize a recording: which processes used which resources
    Report(recording::ReportArgs),
    /// Export a recording as CSV, JSON or Parquet
    Export(recording::ExportArgs),
    /// Save the contents of the daemon's flight recorder to a file
    Save(recording::SaveArgs),
    /// Run a command and report what it and its descendants used, or run it on other nodes
    Run(RunArgs),
    /// Start a monitor at the daemon and print its samples
    Start(daemon::StartArgs),
    /// List the monitors running at the daemon
    List(daemon::ListArgs),
    /// Cancel a monitor running at the daemon
    Cancel(daemon::CancelArgs),
    /// Print the samples of detached monitors
    Events(daemon::EventsArgs),
    /// Send OMIS requests and print the replies
    Ask(daemon::AskArgs),
    /// List the nodes of the cluster: state, version, load, memory, jobs, clock
    Nodes(daemon::NodesArgs),
    /// Send a file to other nodes of the cluster, over TLS from node to node
    Send(daemon::SendArgs),
    /// Migrate a process to another node of the cluster, or list migrations
    Migrate(daemon::MigrateArgs),
    /// Write what a cluster needs, or check the links of this node to it
    Cluster(cluster::args::ClusterArgs),
    /// Print the manual of the services that requests can call
    Services(daemon::ServicesArgs),
    /// Check that an implementation of the request language conforms to OMIS 1.0
    Conformance(daemon::ConformanceArgs),
    /// Print, count, time or stop on function calls, signals, execs and exits
    When(when::args::WhenArgs),
    /// Debug a process with gdb, beside other debuggers, rules and screens
    Gdb(daemon::GdbArgs),
    /// Launch, watch, hold and end parallel jobs; their stacks, MPI calls, output and tools
    Job(job::args::JobArgs),
    /// List, read or write the files that the daemon serves over 9P, without a mount
    Files(files::FilesArgs),
    /// Run the daemon: one reader for all tools of this node
    Serve(ServeArgs),
    /// Print what the daemon uses, holds and has refused
    Status(daemon::DaemonReportArgs),
    /// Check the daemon's configuration, or show the effective one
    Config(ConfigArgs),
    /// List the fields with unit, meaning and source
    Fields(FieldsArgs),
    /// Report what works here, by which hook, at what cost, and what is missing
    Doctor(DoctorArgs),
    /// Act on processes with the rights of one user; started by the daemon
    #[command(hide = true)]
    UserWorker(UserWorkerArgs),
    /// Be a process that a case of conformance acts on; started by conformance
    #[command(hide = true)]
    ConformanceTarget,
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print the manual page, or write all manual pages to a folder
    Man(ManArgs),
}

/// Arguments of `user-worker`.
#[derive(Debug, Args)]
pub struct UserWorkerArgs {
    /// User whose rights it takes
    #[arg(long)]
    pub uid: Option<u32>,
    /// Group of the user
    #[arg(long, requires = "uid")]
    pub gid: Option<u32>,
    /// Supplementary groups of the user
    #[arg(long, requires = "uid", value_delimiter = ',', num_args = 0..)]
    pub groups: Vec<u32>,
    /// Read files that the user names, within limits, instead of acting on processes
    #[arg(long)]
    pub reader: bool,
    /// Execute the program of a session, and end what it has started, instead
    #[arg(long, conflicts_with = "reader")]
    pub launcher: bool,
}

/// Arguments of `sample`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct SampleOnceArgs {
    /// What the reading is.
    #[command(flatten)]
    pub sample: SampleArgs,
    /// Where it is made instead of here.
    #[command(flatten)]
    pub on_nodes: NodeSetArgs,
}

/// What is read, where, and how it is printed.
#[derive(Debug, Args)]
pub struct SampleArgs {
    /// What is read and how it is printed.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Daemon or local backend.
    #[command(flatten)]
    pub reader: SourceArgs,
    /// Log level of the BPF programs.
    #[command(flatten)]
    pub log: ProbeLogArgs,
}

/// Arguments of `watch`.
#[derive(Debug, Parser)]
#[command(after_help = exit::HELP)]
pub struct WatchArgs {
    /// What each reading is.
    #[command(flatten)]
    pub sample: SampleArgs,
    /// Interval between readings, such as 100ms, 1s or 2m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub every: Duration,
    /// When it stops.
    #[command(flatten)]
    pub limit: LimitArgs,
    /// Where it is read instead of here.
    #[command(flatten)]
    pub on_nodes: NodeSetArgs,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_CODES)]
pub struct RunArgs {
    /// The command and its arguments
    #[arg(required = true, last = true)]
    pub command: Vec<OsString>,
    /// Format of the report
    #[arg(long, default_value = "table", value_enum)]
    pub format: RunForm,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Record the command and its descendants once a second; reads without the daemon
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// With --record: replace an existing file
    #[arg(long, requires = "record")]
    pub force: bool,
    /// Daemon or local backend.
    #[command(flatten)]
    pub reader: SourceArgs,
    /// Where it runs instead of here.
    #[command(flatten)]
    pub on_nodes: NodesArgs,
}

/// Formats of the report of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RunForm {
    /// Text, on standard error.
    #[value(name = "table", alias = "text")]
    Text,
    /// One JSON object, on standard output.
    Json,
}

const RUN_CODES: &str = "\
Exit codes:
  that of the command, or 128 plus the number of the signal that ended it
  126  the command cannot be executed
  127  the command does not exist
  255  with --nodes: a node does not answer
  With --nodes it is the largest one of all nodes.";

/// Arguments of `fields`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct FieldsArgs {
    /// Field to list; default: all fields
    pub name: Option<String>,
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json", "markdown"]))]
    pub format: String,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct DoctorArgs {
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// Daemon or local backend.
    #[command(flatten)]
    pub reader: SourceArgs,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to complete for
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder to write monitor.1, monitor-sample.1, … to
    pub dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn clap_accepts_the_definition() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_sort_field_may_begin_with_a_hyphen() {
        let cli = Cli::try_parse_from(["monitor", "sample", "--sort", "-rss_bytes"]);
        let Ok(Cli { command: Some(Command::Sample(sample)) }) = cli else { panic!("{cli:?}") };
        assert_eq!(sample.sample.reading.sort.as_deref(), Some("-rss_bytes"));
    }
}

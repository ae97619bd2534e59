//! Arguments of `monitor when`.
//!
//! In: the command line. Out: the same, typed. `when::event` and `when::action` parse the texts.

use crate::cli::args::daemon::DaemonArgs;
use crate::cli::args::{PrintArgs, interval};
use crate::cli::exit;
use crate::cli::node_groups::node_set;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Events:
  call FUNCTION,...   a function is called; shows its arguments
  return FUNCTION,... a function returns; shows result and output arguments
  signal [NAME,...]   a signal is delivered
  exec                a program is executed
  end                 a process exits
  A function is NAME, LIBRARY:NAME@VERSION or FILE:0xOFFSET.

Actions:
  print               print a line for each event
  count               print the number of events at the end
  time                print percentiles of the duration of calls at the end
  stop                stop the process immediately, until it is continued
  kill SIGNAL         send this signal to the process immediately

Examples:
  monitor when 'call MPI_Send' count,time --pid 4711
  monitor when 'call MPI_Send' time --pid 4711 --explain
  monitor when signal print --comm 'worker*'
  monitor when 'call abort' print,stop -- ./program
  monitor when 'call read,write' count --for 10s --terminate -- ./server
  monitor when end print,count --comm 'worker*' --nodes 'n[1-8]'
  monitor when 'call abort' 'print,kill TERM' --job 4711.0 --nodes '@*' --total-above 3
";

/// The exit codes: those of all commands, and that of the watched command.
fn codes() -> String {
    format!(
        "{}\n  With a command: its own code, or 128 plus the signal that ended it; 8 if nothing \
         was\n  watched, and 4 if it succeeded but not all was watched",
        exit::HELP
    )
}

/// Arguments of `when`.
#[derive(Debug, Args)]
#[command(after_help = codes(), after_long_help = format!("{EXAMPLES}\n{}", codes()))]
pub struct WhenArgs {
    /// Event, such as 'call MPI_Send', 'return open', 'signal SIGTERM', exec or end
    pub event: String,
    /// Actions, separated by commas: print, count, time, stop, 'kill SIGNAL'
    #[arg(default_value = "print,count")]
    pub actions: String,
    /// Watch these processes and their children
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Which processes")]
    pub pid: Vec<u32>,
    /// Watch processes with this command name and their children; * matches any characters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Which processes")]
    pub comm: Vec<String>,
    /// Watch for this time, such as 10s; a command runs on
    #[arg(long = "for", value_name = "TIME", value_parser = interval)]
    pub span: Option<Duration>,
    /// Watch until N lines are printed; a command runs on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub lines: Option<u64>,
    /// End the command with SIGTERM when --for or --lines is reached
    #[arg(long, requires = "command")]
    pub terminate: bool,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// See the ends of calls by replaced return addresses: cheaper, and it ends a program in which
    /// an exception, a panic, a cancellation or a jump passes through the function; only for
    /// processes of your own
    #[arg(long)]
    pub trampoline: bool,
    /// Print what each probe costs a call, measured on this machine, and watch nothing
    #[arg(long, conflicts_with = "command")]
    pub explain: bool,
    /// Read additional call signatures from this folder
    #[arg(long, value_name = "FOLDER")]
    pub calls: Vec<PathBuf>,
    /// Watch on these nodes of the cluster, such as n[1-3],m7 or @*, by --comm or --job: events
    /// end, signal, call and return, actions print, count and time; with --total-above also stop
    /// and kill
    #[arg(long, value_name = "SET", value_parser = node_set, help_heading = "Many nodes",
        conflicts_with_all = ["pid", "command", "trampoline", "explain", "calls"])]
    pub nodes: Option<String>,
    /// With --nodes: watch the ranks of this parallel job, also those that start later, and their
    /// children
    #[arg(
        long,
        value_name = "JOB",
        requires = "nodes",
        conflicts_with = "comm",
        help_heading = "Many nodes"
    )]
    pub job: Option<String>,
    /// With --nodes: do the actions once, when the nodes have more than N events together, and end;
    /// stop and kill act on the watched processes of all nodes
    #[arg(
        long,
        value_name = "N",
        requires = "nodes",
        conflicts_with = "lines",
        help_heading = "Many nodes"
    )]
    pub total_above: Option<u64>,
    /// With --nodes: wait this long for nodes that do not begin
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval,
        requires = "nodes", help_heading = "Many nodes")]
    pub within: Duration,
    /// The service, for --nodes.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Start this command and watch it and its children from the first instruction
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "comm"])]
    pub command: Vec<OsString>,
}

//! The arguments of `monitor job`.

use super::event_code::event_code;
use super::launch_args::{
    JobHostArgs, JobHostGuardArgs, JobLaunchArgs, JobLauncherHostArgs, JobOutputKeeperArgs,
};
use crate::cli::args::daemon::DaemonArgs;
use crate::cli::args::{NodeSetArgs, formats, interval, names, signal};
use crate::cli::exit;
use crate::cli::node_groups::node_set;
use clap::{Args, Subcommand};
use monitor_backend::BackendChoice;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `job`.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: JobCommand,
}

/// The commands below `job`.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List the parallel jobs with a rank on this node
    List(JobListArgs),
    /// Print when jobs appear, change and end, and when the node reports faults and limits
    Events(JobEventsArgs),
    /// Show the ranks of a job, what each uses, and which are far from the median
    Show(JobShowArgs),
    /// Show where the ranks of a job are: their call stacks, merged into one tree
    Stacks(JobStacksArgs),
    /// Show how long the ranks of a job are in MPI, in which functions, and called from where
    Calls(JobCallsArgs),
    /// Run ranks of a program, or a launcher, and hold the ranks if asked
    Launch(JobLaunchArgs),
    /// Host the ranks of `launch -n`
    #[command(hide = true)]
    Host(JobHostArgs),
    /// Wait for the host of a job in the background, and end what it leaves when it is killed
    #[command(hide = true)]
    HostGuard(JobHostGuardArgs),
    /// Wait for a launcher in the background
    #[command(hide = true)]
    LauncherHost(JobLauncherHostArgs),
    /// Keep what a launcher in the background writes
    #[command(hide = true)]
    OutputKeeper(JobOutputKeeperArgs),
    /// Run a tool beside the ranks of a running job, or hold them, until it ends
    Attach(JobAttachArgs),
    /// Stop all processes of ranks at one moment
    Hold(JobHoldArgs),
    /// Continue ranks that are stopped
    Release(JobHoldArgs),
    /// Send a signal to the processes of ranks
    Signal(JobSignalArgs),
    /// End a job: its launcher gets SIGTERM
    End(JobEndArgs),
    /// Print what the ranks of `launch -n`, or a launcher in the background, have written, and go
    /// on until they have ended
    Output(JobOutputArgs),
    /// Ask the PMIx server of a job for namespaces, process tables and what it supports
    Query(JobQueryArgs),
    /// Raise an event for ranks, which execute their handlers of it
    Notify(JobNotifyArgs),
    /// Write a text in the output of a job of `launch -n`, or of a launcher in the background
    Log(JobLogArgs),
    /// Serve tools of PMIx that name no server: they get the jobs of their user
    Rendezvous(JobRendezvousArgs),
    /// Report which runtimes are here, where their ranks can be held, and what is missing
    Doctor(JobDoctorArgs),
    /// Explain what environment directives make of an environment
    Env(JobEnvArgs),
}

/// Arguments of `job list`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobListArgs {
    /// List the jobs that have ended in this last time, which the service of the node has kept
    #[arg(long, value_name = "TIME", value_parser = interval, conflicts_with = "nodes")]
    pub ended: Option<Duration>,
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json", "csv"]))]
    pub format: String,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: NodeSetArgs,
    /// The service, for --ended and --nodes.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Where processes are read.
    #[command(flatten)]
    pub source: JobSourceArgs,
}

/// Arguments of `job events`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobEventsArgs {
    /// Only of this job: its id, the beginning of it, or the pid of its launcher
    pub job: Option<String>,
    /// Only of this class: transitions of jobs, or faults and limits of the node
    #[arg(long, value_parser = formats(&["job", "environment"]))]
    pub class: Option<String>,
    /// Print first those of this last time, which the service of the node has kept
    #[arg(long, value_name = "TIME", value_parser = interval, conflicts_with = "nodes")]
    pub replay: Option<Duration>,
    /// Output format; json: one object per line
    #[arg(long, default_value = "text", value_parser = formats(&["text", "json"]))]
    pub format: String,
    /// Wait for events of these nodes of the cluster, such as n[1-3],m7 or @*, instead of here
    #[arg(long, value_name = "SET", value_parser = node_set, help_heading = "Many nodes")]
    pub nodes: Option<String>,
    /// With --nodes: wait this long for nodes that do not begin
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval,
        requires = "nodes", help_heading = "Many nodes")]
    pub within: Duration,
    /// The service.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Nodes on which a command is about one job.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many nodes")]
pub struct JobNodesArgs {
    /// The ranks on these nodes of the cluster, such as n[1-3],m7 or @*, through their services;
    /// the job is named by its id
    #[arg(long, value_name = "SET", value_parser = node_set)]
    pub nodes: Option<String>,
    /// With --nodes: wait this long for replies
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval,
        requires = "nodes")]
    pub within: Duration,
    /// The service.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Arguments of `job show`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobShowArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank
    pub job: String,
    /// Measure rates over this time
    #[arg(long = "for", alias = "interval", value_name = "TIME", default_value = "1s",
        value_parser = interval)]
    pub span: Duration,
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json"]))]
    pub format: String,
    /// Print host, executable and pid of each rank, separated by tabs, as MPIR_proctable has them
    #[arg(long, conflicts_with_all = ["format", "span", "nodes"])]
    pub mpir: bool,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: JobNodesArgs,
    /// Where processes are read.
    #[command(flatten)]
    pub source: JobSourceArgs,
}

/// Arguments of `job stacks`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobStacksArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank; some of its
    /// ranks after a colon, such as 77:0-3,7
    #[arg(value_name = "JOB[:RANKS]")]
    pub job: String,
    /// Show all threads, not only the first of each process
    #[arg(long)]
    pub threads: bool,
    /// Show the line of each function, where the file has debugging information
    #[arg(long)]
    pub lines: bool,
    /// Look this many times, and mark the frames that were the same at each look
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub count: u16,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub every: Duration,
    /// Output format; folded: lines for a flame graph
    #[arg(long, default_value = "table",
        value_parser = formats(&["table", "json", "dot", "folded"]))]
    pub format: String,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: JobNodesArgs,
}

/// Arguments of `job calls`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobCallsArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank; some of its
    /// ranks after a colon, such as 77:0-3,7
    #[arg(value_name = "JOB[:RANKS]")]
    pub job: String,
    /// Measure over this time
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub span: Duration,
    /// Count the calls and do not time them, which costs less
    #[arg(long, conflicts_with = "trampoline")]
    pub counts: bool,
    /// See ends of calls by replacing return addresses, which costs less; an exception or a
    /// cancellation that passes through such a call ends the rank. Only in your own processes,
    /// also for root
    #[arg(long)]
    pub trampoline: bool,
    /// Set probes one by one, as kernels before 6.6 do.
    #[arg(long, hide = true, conflicts_with = "nodes")]
    pub one_by_one: bool,
    /// Most that the probes may slow down a rank: first the hottest functions are no longer timed,
    /// then no longer counted. `none` keeps all
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = overhead)]
    pub max_overhead: Overhead,
    /// Show at most this number of functions, and of places of calls
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Show the line of each call, where the file has debugging information
    #[arg(long, conflicts_with = "nodes")]
    pub lines: bool,
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json"]))]
    pub format: String,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: JobNodesArgs,
}

/// Most that probes may slow down a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overhead {
    /// At most this share of its time, percent.
    AtMost(f64),
    /// Any.
    Any,
}

/// Parses a share such as `5%`, or `none`.
fn overhead(text: &str) -> Result<Overhead, String> {
    if text == "none" {
        return Ok(Overhead::Any);
    }
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let share = number.filter(|it: &f64| (0.1..=100.0).contains(it)).map(Overhead::AtMost);
    share.ok_or_else(|| format!("{text:?} is no share: write 0.1% to 100%, or none"))
}

/// Arguments of `job rendezvous`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobRendezvousArgs {
    /// Write the rendezvous file in this folder: without it, PMIX_SYSTEM_TMPDIR, else TMPDIR or
    /// /tmp, where tools of PMIx look
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// The socket where hosts of jobs register; they look at MONITOR_RENDEZVOUS, else at
    /// /run/monitor-rendezvous/hosts.sock
    #[arg(long, value_name = "PATH")]
    pub hosts: Option<PathBuf>,
    /// As root: run the processes that talk to tools as this user (nobody)
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Which of its processes this one is
    #[arg(long, hide = true, value_parser = formats(&["front", "worker"]))]
    pub part: Option<String>,
}

/// Arguments of `job attach`.
#[derive(Debug, Args)]
#[command(after_help = DAEMON_VARIABLES)]
pub struct JobAttachArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank; some of its
    /// ranks after a colon, such as 77:0-3,7
    #[arg(value_name = "JOB[:RANKS]")]
    pub job: String,
    /// Stop the ranks at one moment, and continue them at the end
    #[arg(long)]
    pub hold: bool,
    /// Run this command of the shell
    #[arg(long, value_name = "COMMAND")]
    pub daemon: Option<OsString>,
    /// Run it once, or once for each rank
    #[arg(long, value_name = "NODE|PROCESS", default_value = "process",
        value_parser = formats(&["node", "process"]))]
    pub per: String,
    /// Do it for this process, which is the command of the user
    #[arg(long, hide = true, value_name = "PID")]
    pub child_of: Option<u32>,
}

/// Arguments of `job hold` and `job release`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobHoldArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank; some of its
    /// ranks after a colon, such as 77:0-3,7
    #[arg(value_name = "JOB[:RANKS]")]
    pub job: String,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: JobNodesArgs,
}

/// Arguments of `job signal`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobSignalArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank; some of its
    /// ranks after a colon, such as 77:0-3,7
    #[arg(value_name = "JOB[:RANKS]")]
    pub job: String,
    /// Name or number of the signal, such as USR1 or 10
    #[arg(value_parser = signal)]
    pub signal: u32,
    /// Send it only to the process that the runtime started, which `job show` prints, and not to
    /// its descendants
    #[arg(long, conflicts_with = "nodes")]
    pub first: bool,
    /// The nodes.
    #[command(flatten)]
    pub on_nodes: JobNodesArgs,
}

/// Arguments of `job end`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobEndArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank
    pub job: String,
    /// Wait at most so long for its end
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub span: Duration,
    /// Send SIGKILL to what has not ended by then
    #[arg(long, conflicts_with = "nodes")]
    pub kill: bool,
    /// The nodes, on which no end is awaited.
    #[command(flatten)]
    pub on_nodes: JobNodesArgs,
}

/// Arguments of `job output`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobOutputArgs {
    /// Id of a job of `launch -n` or of a launch in the background, the beginning of it, or the pid
    /// of its host, its launcher or of a rank; some of its ranks after a colon, such as 77:0-3,7
    #[arg(value_name = "JOB[:RANKS]")]
    pub job: String,
    /// Write the rank before each line
    #[arg(long)]
    pub tag: bool,
    /// Print what is there, and do not wait for the end of the job
    #[arg(long)]
    pub no_follow: bool,
    /// Begin at this position, in bytes of the output of the whole job: the last `position` of
    /// --format json
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    pub from: u64,
    /// Print at most this number of bytes, rounded up to what a rank has written at once
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub most: Option<u64>,
    /// With --no-follow: where nothing is there, wait for it at most this time
    #[arg(long = "for", value_name = "TIME", requires = "no_follow", value_parser = interval)]
    pub span: Option<Duration>,
    /// Output format; json: a line for each part, with bytes in base64
    #[arg(long, default_value = "text", value_parser = formats(&["text", "json"]))]
    pub format: String,
}

/// Arguments of `job query`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobQueryArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank
    pub job: String,
    /// Keys: namespaces, proc-table, local-proc-table, spawn-support, debug-support, job-status,
    /// job-size, servers, or one of PMIx such as pmix.qry.psets
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<String>,
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json"]))]
    pub format: String,
    /// Connect in this process
    #[arg(long, hide = true)]
    pub connects: bool,
}

/// Arguments of `job notify`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobNotifyArgs {
    /// Id of the job, the beginning of it, or the pid of its launcher or of a rank; some of its
    /// ranks after a colon, such as 77:0-3,7
    #[arg(value_name = "JOB[:RANKS]")]
    pub job: String,
    /// Name of the event, such as debugger-release, or its number
    #[arg(value_parser = event_code, allow_hyphen_values = true)]
    pub event: i32,
    /// Which processes get it: the ranks, or all that the server knows
    #[arg(long, default_value = "ranks", value_parser = formats(&["ranks", "global"]))]
    pub range: String,
    /// A text for the handlers (pmix.evtext)
    #[arg(long)]
    pub text: Option<String>,
    /// Connect in this process
    #[arg(long, hide = true)]
    pub connects: bool,
}

/// Arguments of `job log`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobLogArgs {
    /// Id of a job of `launch -n` or of a launch in the background, the beginning of it, or the pid
    /// of its host, its launcher or of a rank
    pub job: String,
    /// The text
    pub text: String,
    /// Where the host writes it
    #[arg(long, default_value = "stderr", value_parser = formats(&["stdout", "stderr"]))]
    pub to: String,
}

/// Arguments of `job doctor`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct JobDoctorArgs {
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json"]))]
    pub format: String,
}

/// Arguments of `job env`.
#[derive(Debug, Args)]
#[command(after_help = DIRECTIVES)]
pub struct JobEnvArgs {
    /// Directives of the application, executed in this order after those of the job
    #[arg(long, required = true, num_args = 1.., value_name = "DIRECTIVE")]
    pub explain: Vec<String>,
    /// Directives of the whole job, executed in this order before those of the application
    #[arg(long, num_args = 1.., value_name = "DIRECTIVE")]
    pub for_job: Vec<String>,
    /// Begin with the environment of this process, or with that in a file (lines NAME=value, or as
    /// in /proc/PID/environ) [default: the environment of this program]
    #[arg(long, value_name = "FILE|PID")]
    pub from: Option<String>,
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json"]))]
    pub format: String,
}

/// Where the processes of jobs are read: always here, with the rights of the user.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Source")]
pub struct JobSourceArgs {
    /// Read with this backend; auto: the best that works
    #[arg(long, default_value = "auto", env = "MONITOR_BACKEND", hide_env_values = true,
        value_parser = names::<BackendChoice>(&BackendChoice::NAMES))]
    pub backend: BackendChoice,
}

const DAEMON_VARIABLES: &str = "\
Variables of the daemon:
  MONITOR_JOB_ID          id of the job; its namespace, where the runtime has PMIx
  MONITOR_JOB_RUNTIME     openmpi4, prrte, hydra or slurm
  MONITOR_JOB_RANKS       ranks on this node, such as 0-3,7
  MONITOR_JOB_PIDS        their processes, in the order of the ranks
  MONITOR_JOB_RANK        --per process: its rank
  MONITOR_JOB_PID         --per process: the process of that rank
  MONITOR_JOB_LOCAL_RANK  --per process: 0 for the first of these ranks

Exit codes:
  0 if all daemons ended with 0, otherwise the code of the first that did not,
  or 128 plus the signal that ended it; without daemons, 0 when the job has
  ended; 130 if interrupted, 143 if terminated; 4 if not all ranks could be held;
  those of `job hold` if there is no such job, or none of it could be held.";

const DIRECTIVES: &str = "\
Directives:
  set:NAME=VALUE      set the value, and replace another one
  add:NAME=VALUE      set the value if the variable is not set
  unset:NAME          remove the variable; NAME* removes all that begin so
  prepend:NAME=VALUE  put the value before the list
  append:NAME=VALUE   put the value after the list
  first:NAME=VALUE    make the value the first element of the list, and the only
                      one of that text
  The separator of lists is ':'; another one follows the name in brackets, such
  as append:FLAGS[ ]=-g

Exit codes:
  0    success
  1    the file cannot be read
  2    usage: an invalid directive
  5    not permitted: the process belongs to another user
  6    no such process";

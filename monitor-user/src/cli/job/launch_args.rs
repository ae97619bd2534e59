//! The arguments of `monitor job launch`, and of the processes that it starts.

use crate::cli::args::{formats, interval};
use clap::Args;
use monitor_jobs::hold_table::HoldPoint;
use monitor_jobs::launch_method::METHODS;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `job launch`.
#[derive(Debug, Args)]
#[command(after_help = LAUNCH_EXITS)]
pub struct JobLaunchArgs {
    /// Start this number of ranks of the program itself, without a launcher; they take their rank
    /// from PMIx
    #[arg(short = 'n', long = "ranks", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: Option<u32>,
    /// How the ranks are started; native: by this program; pmix: by a PMIx server that runs, such
    /// as prte; mpirun, srun: by that launcher, whose command line follows; auto: native with -n,
    /// otherwise by the launcher, or by a script that starts one
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = formats(&METHODS))]
    pub with: String,
    /// With --with pmix: the server, by its rendezvous file, its pid, or the id of a job that it
    /// runs [default: that of the session, $PMIX_SERVER_TMPDIR/pmix.HOST.tool, or of the node,
    /// pmix.sys.HOST in $PMIX_SYSTEM_TMPDIR or the folder for temporary files]
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,
    /// With -n: write the rank before each line of the ranks; with a launcher: add its own option
    /// for that, such as --tag-output of mpirun, so that `job output` knows the rank of a line
    #[arg(long)]
    pub tag: bool,
    /// Return when the ranks, or the launcher, run; `job output` prints what they write
    #[arg(long)]
    pub background: bool,
    /// With --background: keep the output for this time after the end of the ranks, or the launcher
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "background",
        value_parser = interval)]
    pub keep: Duration,
    /// With --background: output format
    #[arg(long, default_value = "text", requires = "background",
        value_parser = formats(&["text", "json"]))]
    pub format: String,
    /// Where to hold the ranks; exec: before the first instruction of their program, init: where
    /// they call MPI_Init, app: with -n, where their program waits for a debugger by PMIx
    #[arg(long, value_name = "WHERE", value_parser = formats(&["exec", "init", "app"]))]
    pub stop: Option<String>,
    /// Hold a rank where it executes this program, not the first one: its name, or its whole path
    #[arg(long, value_name = "PROGRAM", requires = "stop")]
    pub stop_at: Option<OsString>,
    /// With --stop init: how long after the first rank has begun all of them may take until they
    /// call MPI_Init; then they run on [default: 1m]
    #[arg(long, value_name = "TIME", requires = "stop", value_parser = interval)]
    pub within: Option<Duration>,
    /// With --background and --stop: return when the ranks run, before they are held
    #[arg(long, requires = "background", requires = "stop")]
    pub no_wait: bool,
    /// Run this command of the shell beside the ranks that are held, which run on when it has
    /// ended; `job attach --help` lists its variables
    #[arg(long, value_name = "COMMAND", requires = "stop")]
    pub daemon: Option<OsString>,
    /// Run it once, or once for each rank
    #[arg(long, value_name = "NODE|PROCESS", default_value = "process", requires = "daemon",
        value_parser = formats(&["node", "process"]))]
    pub per: String,
    /// Change the environment of the launcher, in the order given; `job env --help` lists the
    /// directives
    #[arg(long, value_name = "DIRECTIVE")]
    pub env: Vec<String>,
    /// Trace the launcher for this process, which is the command of the user
    #[arg(long, hide = true, value_name = "PID")]
    pub tracer_of: Option<u32>,
    /// With --with pmix: keep the output in this process, by this id, for the command of the user
    #[arg(long, hide = true, value_name = "ID", requires = "background")]
    pub kept_as: Option<String>,
    /// Launcher, such as mpirun, with its arguments; with -n, the program of the ranks
    #[arg(last = true, required = true, value_name = "LAUNCHER|PROGRAM")]
    pub command: Vec<OsString>,
}

impl JobLaunchArgs {
    /// Where the ranks are held, if they are.
    pub fn hold_point(&self) -> Option<HoldPoint> {
        self.stop.as_deref().and_then(HoldPoint::from_name)
    }

    /// Whether a tracer holds them: not where their program says.
    pub fn is_traced(&self) -> bool {
        self.hold_point().is_some_and(|it| it != HoldPoint::App)
    }
}

/// Arguments of `job host`, which `job launch -n` starts.
#[derive(Debug, Args)]
pub struct JobHostArgs {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks")]
    pub ranks: u32,
    /// Write the rank before each line of the ranks
    #[arg(long)]
    pub tag: bool,
    /// Namespace of the job
    #[arg(long)]
    pub id: String,
    /// Make the ranks wait where their program says
    #[arg(long)]
    pub stop_in_app: bool,
    /// Run without a terminal, and keep the output for this time
    #[arg(long, value_parser = interval)]
    pub keep: Option<Duration>,
    /// End the job unless a line comes on standard input, from the process that holds the ranks
    #[arg(long, requires = "keep")]
    pub held_by_parent: bool,
    /// The program of the ranks, with its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Arguments of `job host-guard`, which `job launch -n --background` starts.
#[derive(Debug, Args)]
pub struct JobHostGuardArgs {
    /// The arguments of `job host`
    #[arg(last = true, required = true)]
    pub host: Vec<OsString>,
}

/// Arguments of `job launcher-host`, which `job launch --background` starts.
#[derive(Debug, Args)]
pub struct JobLauncherHostArgs {
    /// Id of the launch
    #[arg(long)]
    pub id: String,
    /// Keep the output for this time after the end of the launcher
    #[arg(long, value_parser = interval)]
    pub keep: Duration,
    /// The form of the labels of ranks
    #[arg(long)]
    pub label: Option<String>,
    /// The launcher with its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Arguments of `job output-keeper`, which `job launcher-host` starts.
#[derive(Debug, Args)]
pub struct JobOutputKeeperArgs {
    /// Id of the launch
    #[arg(long)]
    pub id: String,
    /// Keep the output for this time after the end of the launcher
    #[arg(long, value_parser = interval)]
    pub keep: Duration,
    /// The form of the labels of ranks
    #[arg(long)]
    pub label: Option<String>,
    /// The folder of the launch
    #[arg(long)]
    pub folder: PathBuf,
    /// Process id of the launcher
    #[arg(long)]
    pub launcher: u32,
    /// Descriptors of its standard output and error
    #[arg(long, value_delimiter = ',')]
    pub streams: Vec<u32>,
}

const LAUNCH_EXITS: &str = "\
Exit codes:
  The code of the launcher, or 128 plus the signal that ended it; 127 if it does
  not exist, 126 if it cannot be executed, 2 if an argument is not valid, and 1
  if it cannot be traced.";

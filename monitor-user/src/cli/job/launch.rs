//! `monitor job launch`: a launcher whose ranks are held before their first instruction, or where
//! they call `MPI_Init`.
//!
//! In: the command line of a launcher. Out: its ranks, stopped until `job release`; the exit code
//! of the launcher. It inherits the standard streams. Where ranks are held, a copy of the command
//! (fork(2)) starts the launcher; a thread of it traces the launcher and its descendants until the
//! ranks are held, and no longer.

use super::background::begin_session;
use super::env;
use super::held_background::{self, HostLine};
use super::hold;
use super::hold_report::{finish_reports, report_hold};
use super::host_command::{host_command, host_lost, missing_home, run_in_background};
use super::launch_args::JobLaunchArgs;
use super::launch_background::{launch_in_background, launch_words};
use super::launcher_labels::labelled;
use super::passed_signals::{run_passing_signals, start_and_wait, wait_for_child};
use super::pmix_launch;
use super::rank_rules::MpiRules;
use super::target::JobTarget;
use super::tool_daemon::{ToolDaemons, ended_text};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::cli::run::not_started;
use monitor_control::ControlError;
use monitor_control::held_launch::{HoldAt, LaunchEnd, LaunchError, StopEvents, launch_held};
use monitor_control::stop_all::{StopAll, continue_all};
use monitor_control::user_worker::SELF_EXE;
use monitor_format::human;
use monitor_jobs::directive::Directive;
use monitor_jobs::envar::Environment;
use monitor_jobs::hold_table::HoldPoint;
use monitor_jobs::launch_method::LaunchMethod;
use monitor_jobs::{RankSet, Runtime, mpi_name};
use monitor_model::{Environ, Identity, Pid};
use monitor_sampling::job::rank_number;
use monitor_sys::copy::{self, Copy};
use monitor_sys::pidfd::{PidFd, returned_code};
use monitor_sys::{fd_limit, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use tokio::sync::oneshot;

/// The command name of a tracer that goes on without the command.
const TRACER: &CStr = c"monitor-tracer";
/// How long ranks may take until they call `MPI_Init`, unless the user sets it.
const CALLS_WITHIN: Duration = Duration::from_secs(60);
/// Most other nodes whose ranks are named.
const MOST_NODES: usize = 8;

/// What to do where a launcher is not there.
const INSTALL: &str = "install an MPI (Debian: apt install openmpi-bin, or mpich), load its \
     module, or start ranks without a launcher (-n); monitor job doctor shows what is here";

/// What to do where ranks may be stopped, and none was named.
const HOLD_LOST: &str = "the process that holds the ranks was killed: the job runs; ranks that \
     were stopped already go on with monitor job release (monitor job list names the job)";

/// Runs the launcher. Returns its exit code.
///
/// # Errors
/// If a directive is not valid, if this process is itself a rank, or if the launcher cannot be
/// traced.
pub fn launch(args: &JobLaunchArgs) -> Result<u8, Failure> {
    let method = method_of(args)?;
    let directives = env::parsed(&args.env)?;
    let environment = env::own_environment();
    if let LaunchMethod::Pmix(ranks) = method {
        return pmix_launch::launch(args, ranks, (environment, &directives));
    }
    let is_held = args.is_traced();
    env::check_program(&args.command[0], &directives)?;
    let own: Vec<u8> = joined(environment.variables());
    if is_held && rank_number(&Environ::parse(&own)).is_some() {
        let why = "this command is itself a rank of a job: all that it starts would be held";
        return Err(Failure::usage(why));
    }
    if args.tracer_of.is_some() && args.no_wait {
        // It goes on without the command, and without the signals to the group of the command.
        begin_session(TRACER);
    }
    let traced_for = match args.tracer_of.map(Pid) {
        None if args.background && args.ranks.is_none() => {
            return launch_in_background(args, environment, &directives);
        }
        None if is_held && args.background => {
            return held_background::launch(tracer(args), &args.format);
        }
        None if args.background => {
            return run_in_background(launcher(args, environment, &directives)?, &args.format);
        }
        // What a tracer leaves when it is killed may stay stopped, or end from the signal of a
        // breakpoint; and what a user kills is the command, so the tracer is another process.
        None if is_held => match copy::fork().map_err(not_copied)? {
            Copy::Caller(tracer) => return wait_for_tracer(tracer),
            Copy::Child(parent) => Some(parent),
        },
        None if method == LaunchMethod::Launcher => {
            // It takes the place of this process, with its pid and its signals.
            let error = launcher(args, environment, &directives)?.exec();
            return Ok(launcher_not_started(&args.command[0], &error));
        }
        parent => parent,
    };
    let command = launcher(args, environment, &directives)?;
    let hold = traced_for.map(|parent| Hold::new(args, parent)).transpose()?;
    let launched = run_passing_signals(move |started| match hold {
        Some(hold) => hold_and_wait(command, hold, started),
        None => start_and_wait(command, started),
    })?;
    match launched {
        Ok(status) => {
            if let Some(signal) = status.signal().filter(|_| args.ranks.is_some()) {
                host_lost(signal);
            }
            Ok(returned_code(status))
        }
        Err(LaunchError::NotStarted(error)) => Ok(launcher_not_started(&args.command[0], &error)),
        Err(LaunchError::Control(error)) => Err(Failure::failed(format!("job launch: {error}"))),
    }
}

/// Waits for the copy of this process that traces the launcher. Returns its exit code, which is
/// that of the launcher.
fn wait_for_tracer(tracer: Pid) -> Result<u8, Failure> {
    let waited = run_passing_signals(move |started| {
        let _waits = started.send(tracer);
        let ended = wait::wait(tracer).map(|(status, _)| status);
        ended.map_err(|error| ControlError::from_io("waiting for the tracer", &error).into())
    })?;
    let status = waited.map_err(|error| Failure::failed(format!("job launch: {error}")))?;
    if status.signal().is_some() {
        output::notice(HOLD_LOST);
    }
    Ok(returned_code(status))
}

fn not_copied(error: std::io::Error) -> Failure {
    Failure::failed(format!("job launch: cannot start the process that holds the ranks: {error}"))
}

/// How the ranks are started, if the options fit that.
fn method_of(args: &JobLaunchArgs) -> Result<LaunchMethod, Failure> {
    let method = LaunchMethod::choose(&args.with, args.ranks, &args.command[0]);
    let method = method.map_err(|why| Failure::usage(format!("--with: {why}")))?;
    if args.within.is_some() && args.hold_point() != Some(HoldPoint::Init) {
        return Err(Failure::usage("--within is for --stop init"));
    }
    if args.server.is_some() && !matches!(method, LaunchMethod::Pmix(_)) {
        return Err(Failure::usage("--server is for --with pmix"));
    }
    let is_hosted = args.background && args.ranks.is_some();
    if is_hosted && (args.tag || args.stop_at.is_some() || args.daemon.is_some()) {
        let why = "--tag, --stop-at and --daemon are not for -n with --background; its output is \
                   kept by rank";
        return Err(Failure::usage(why));
    }
    if args.hold_point() == Some(HoldPoint::App) && args.ranks.is_none() {
        let why = "--stop app is for -n; mpirun of Open MPI 5 has --rtos stop-in-app";
        return Err(Failure::usage(why));
    }
    Ok(method)
}

/// Says why a launcher was not started; the exit code.
fn launcher_not_started(program: &OsStr, error: &std::io::Error) -> u8 {
    let code = not_started(program, error);
    if error.kind() == ErrorKind::NotFound && runtime_of(program).is_some() {
        output::notice(INSTALL);
    }
    code
}

/// The runtime of a launcher, by its name.
fn runtime_of(program: &OsStr) -> Option<Runtime> {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    Runtime::of_program(&name).map(|(runtime, _)| runtime)
}

/// The launcher, in the environment that directives make of this one.
fn launcher(
    args: &JobLaunchArgs,
    mut environment: Environment,
    directives: &[Directive],
) -> Result<Command, Failure> {
    let _steps = environment.execute(directives, &[]);
    let mut command = match args.ranks {
        Some(ranks) => host_command(args, ranks)?,
        None => {
            let words = labelled(args)?;
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        }
    };
    command.env_clear().envs(environment.os_variables());
    if args.ranks.is_some() {
        command.envs(missing_home(&environment));
    }
    fd_limit::restore_in(&mut command);
    Ok(command)
}

/// How ranks are held.
struct Hold {
    at: HoldAt,
    rules: MpiRules,
    /// A command that runs beside them, once per node or process.
    daemon: Option<(OsString, String)>,
    events: StopEvents,
    /// Whether they stay held when this process has ended.
    is_background: bool,
    /// Whether the command waits until they are held.
    is_awaited: bool,
}

impl Hold {
    /// Call it before there is another thread.
    fn new(args: &JobLaunchArgs, parent: Pid) -> Result<Self, Failure> {
        let at = match args.hold_point() {
            Some(HoldPoint::Init) => {
                let within = args.within.unwrap_or(CALLS_WITHIN);
                HoldAt::Call { functions: &mpi_name::INIT, within }
            }
            _ => HoldAt::Exec,
        };
        let failed = |error| Failure::failed(format!("job launch: cannot trace: {error}"));
        let events = StopEvents::watch((!args.no_wait).then_some(parent)).map_err(failed)?;
        let daemon = args.daemon.clone().map(|command| (command, args.per.clone()));
        let rules = MpiRules { stop_at: args.stop_at.clone() };
        let (is_background, is_awaited) = (args.background, !args.no_wait);
        Ok(Self { at, rules, daemon, events, is_background, is_awaited })
    }
}

/// This program, as the tracer of a host in the background, which goes on without the command.
fn tracer(args: &JobLaunchArgs) -> Command {
    let mut command = Command::new(SELF_EXE);
    command.arg0("monitor");
    command.args(["job", "launch", "--tracer-of", &std::process::id().to_string()]);
    command.args(launch_words(args));
    fd_limit::restore_in(&mut command);
    command
}

fn joined<'v>(variables: impl Iterator<Item = (&'v [u8], &'v [u8])>) -> Vec<u8> {
    let entries = variables.map(|(name, value)| [name, value].join(&b'='));
    entries.collect::<Vec<_>>().join(&0)
}

fn hold_and_wait(
    mut command: Command,
    hold: Hold,
    started: oneshot::Sender<Pid>,
) -> Result<ExitStatus, LaunchError> {
    let Hold { at, rules, daemon, events, is_background, is_awaited } = hold;
    let place = match at {
        HoldAt::Exec => HoldPoint::Exec,
        HoldAt::Call { .. } => HoldPoint::Init,
    };
    let failed = |error| ControlError::from_io("leaving the host of the ranks", &error);
    let line = is_background.then(|| HostLine::read(&mut command, is_awaited));
    let line = line.transpose().map_err(failed)?;
    let mut started = Some(started);
    // What it traces belongs to this thread, and ends with it.
    let launched = std::thread::spawn(move || {
        launch_held(&mut command, at, &events, &rules, &mut |pid| {
            let _waits = started.take().map(|started| started.send(pid));
        })
    });
    let gone = |_| Err(ControlError::Gone.into());
    let (mut child, end) = launched.join().unwrap_or_else(gone)?;
    let target = report_end(&end, place, daemon.is_some());
    if let Some(line) = line {
        finish_reports();
        let left = held_background::leave(child, &end, line);
        // As in wait(2).
        return Ok(ExitStatus::from_raw(i32::from(left.map_err(failed)?) << 8));
    }
    if let (Some((command, per)), Some(target)) = (daemon, target) {
        run_daemons((&command, &per), &target, &child);
    }
    match end {
        LaunchEnd::Ended(status) => Ok(status),
        // The command that would return it has ended.
        LaunchEnd::Orphaned => Ok(ExitStatus::default()),
        LaunchEnd::Held { .. } | LaunchEnd::NotCalled { .. } | LaunchEnd::Refused(_) => {
            wait_for_child(&mut child)
        }
    }
}

/// Says whether ranks are held; their job, if they are.
fn report_end(end: &LaunchEnd, place: HoldPoint, has_daemon: bool) -> Option<JobTarget> {
    match end {
        LaunchEnd::Held { ranks, elsewhere } => {
            let target = report(ranks, place, has_daemon);
            report_elsewhere(elsewhere);
            return target;
        }
        LaunchEnd::Ended(_) => {
            output::notice("the launcher ended before all ranks of this node were held");
        }
        LaunchEnd::NotCalled { called, others } => output::notice(&format!(
            "{called} ranks called MPI_Init in time and {others} processes of ranks did not; all \
             run on, and none is held (--within sets the time)"
        )),
        LaunchEnd::Orphaned => {}
        LaunchEnd::Refused(why) => {
            output::notice(&human::escaped_text(&format!("no rank is held: {why}")));
        }
    }
    None
}

/// Waits until the ranks are seen stopped, and says how they go on; their job.
fn report(
    ranks: &BTreeMap<u32, Identity>,
    place: HoldPoint,
    has_daemon: bool,
) -> Option<JobTarget> {
    let ids: Vec<Identity> = ranks.values().copied().collect();
    let mut all = StopAll::new(hold::LIMIT);
    let _stopped = all.stop(&ids, &|| false);
    all.keep();
    let Some(first) = ids.first() else {
        output::notice("all ranks of this node ended before they were held");
        return None;
    };
    // The launcher may be a script around that of the job.
    match JobTarget::find(&first.pid.0.to_string()) {
        Ok(target) => {
            let numbers: BTreeSet<u32> = ranks.keys().copied().collect();
            let line = target.line(&numbers, "held", ids.len());
            let id = human::escaped_text(&target.job.id);
            report_hold(&target.job.id, Some(place));
            let how = if has_daemon {
                "until the daemons end; to continue before"
            } else {
                "to continue"
            };
            let line = line.trim_end();
            output::notice(&format!("{line}; {how}: monitor job release {id}"));
            Some(target)
        }
        Err(Failure { message, exit: Exit::NoTarget }) => {
            output::notice(&format!("the ranks were held, and have ended: {message}"));
            None
        }
        Err(why) => {
            output::notice(&why.message);
            None
        }
    }
}

/// Says which ranks are on other nodes.
fn report_elsewhere(elsewhere: &BTreeMap<String, BTreeSet<u32>>) {
    let mut nodes = elsewhere.iter();
    for (node, ranks) in nodes.by_ref().take(MOST_NODES) {
        let ranks: RankSet = ranks.iter().copied().collect();
        let node = human::escaped_text(node);
        output::notice(&format!("not held, because they are on node {node}: ranks {ranks}"));
    }
    let left: usize = nodes.map(|(_, ranks)| ranks.len()).sum();
    if left > 0 {
        output::notice(&format!("not held, because they are on other nodes: {left} more ranks"));
    }
}

/// Runs daemons beside the ranks until they have ended, or the launcher has; then the ranks run on.
fn run_daemons((command, per): (&OsStr, &str), target: &JobTarget, launcher: &Child) {
    let run = || {
        let launcher = PidFd::open(Pid(launcher.id())).map_err(Failure::failed)?;
        let mut daemons = ToolDaemons::start(command, per, target)?;
        let _has_ended = daemons.wait(&[launcher.as_fd()])?;
        Ok(daemons.end())
    };
    match run() {
        Ok(ends) => {
            let failed = ends.iter().filter(|(_, status)| !status.is_some_and(|it| it.success()));
            failed.for_each(|(rank, status)| output::notice(&ended_text(*rank, *status)));
        }
        Err(Failure { message, .. }) => output::notice(&message),
    }
    let ids: Vec<Identity> = target.processes().into_iter().map(|(_, id)| id).collect();
    // Those that have ended, or run already, need nothing.
    let _continued = continue_all(&ids);
}

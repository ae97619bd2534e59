//! `monitor job launch --with pmix`: ranks that a PMIx server starts, such as `prte`.
//!
//! In: a program, a number of ranks, the name of the server. Out: what the ranks write, which the
//! server sends, printed and kept; the exit code of the job. This process is a tool of the server.

use super::background::begin_session;
use super::host_command::new_id;
use super::host_connection::LAUNCH;
use super::launch_args::JobLaunchArgs;
use super::pmix_background::{self, say_started};
use super::pmix_job::{
    LaunchEvent, PmixJob, has_ended_at_once, interrupted_by_signals, send_input,
};
use super::pmix_output::PmixOutput;
use super::pmix_server;
use crate::cli::exit::Failure;
use crate::cli::output::notice;
use monitor_control::host_protocol::OUTPUT_FOLDER;
use monitor_format::human;
use monitor_jobs::directive::Directive;
use monitor_jobs::envar::Environment;
use monitor_jobs::hold_table::HoldPoint;
use monitor_model::Pid;
use monitor_pmix::attribute::{Attribute, Datum};
use monitor_pmix::{SpawnedApp, Tool};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The command name of the process that keeps the output of a job in the background.
const PROGRAM: &CStr = c"monitor-output";
/// How long the server may take to end a job that this command gives up.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);
/// Variables that a server gives its own ranks: those of another server are not for these.
const OF_RANKS: [&[u8]; 3] = [b"PMIX_", b"PRTE_", b"PMI_"];

/// Starts the ranks. Returns the exit code of their job. Call it before there is another thread.
///
/// # Errors
/// If no server is found, or it does not start them.
pub fn launch(
    args: &JobLaunchArgs,
    ranks: u32,
    (mut environment, directives): (Environment, &[Directive]),
) -> Result<u8, Failure> {
    if args.daemon.is_some() || args.stop_at.is_some() || args.within.is_some() {
        let why = "--daemon, --stop-at and --within are not for --with pmix: use job attach";
        return Err(Failure::usage(why));
    }
    match &args.kept_as {
        None if args.background => return pmix_background::launch(args),
        Some(_) => begin_session(PROGRAM),
        None => {}
    }
    let failed = |error| Failure::failed(format!("job launch: {error}"));
    let server = pmix_server::find(args.server.as_deref())?;
    let before: BTreeSet<Vec<u8>> = names(&environment);
    let _steps = environment.execute(directives, &[]);
    let unset: Vec<Vec<u8>> = before.difference(&names(&environment)).cloned().collect();
    let tool = Tool::connect(&server.uri).map_err(failed)?;
    let output = PmixOutput::create(&args.kept_as.clone().unwrap_or_else(|| new_id(LAUNCH)));
    let not_kept =
        |error: std::io::Error| Failure::failed(format!("job launch: keeping output: {error}"));
    let output = output.map_err(not_kept)?;
    let (sender, events) = channel();
    let tool_events = sender.clone();
    let receive = move |event| {
        // The tool ends already, if this fails.
        let _ended = tool_events.send(LaunchEvent::Tool(event));
    };
    tool.watch_jobs(Box::new(receive)).map_err(failed)?;
    let app = application(args, ranks, &environment, output.folder());
    let id = match tool.spawn(&app, &attributes(args, &unset)) {
        Ok(id) => id,
        // PRRTE 3.0.14 calls that a failure of the spawn where a rank fails at once.
        Err((_, Some(id))) if has_ended_at_once((&sender, &events), &id) => id,
        Err((error, _)) => return Err(failed(error)),
    };
    let mut launch = PmixLaunch { args, server: server.server, tool, id, output };
    let listens = launch.output.listen(&launch.id).map_err(not_kept);
    let code = listens.and_then(|()| launch.run(ranks, &sender, &events));
    code.map_err(|why| launch.give_up(why, &events))
}

/// A job that has been started.
struct PmixLaunch<'a> {
    args: &'a JobLaunchArgs,
    /// The process of the server.
    server: Pid,
    tool: Tool,
    id: String,
    output: PmixOutput,
}

impl PmixLaunch<'_> {
    /// Prints and keeps the output until the job has ended, and as long as it is to be kept.
    fn run(
        &self,
        ranks: u32,
        sender: &Sender<LaunchEvent>,
        events: &Receiver<LaunchEvent>,
    ) -> Result<u8, Failure> {
        let failed = |error| Failure::failed(format!("job launch: {error}"));
        let Self { args, tool, id, output, .. } = self;
        // Before the user sees that the job runs.
        interrupted_by_signals(sender.clone())?;
        if !args.background {
            let printed = sender.clone();
            let ended = move || {
                // The command ends already, if this fails.
                let _ended = printed.send(LaunchEvent::Printed);
            };
            let _ends = output.print(args.tag, ended).map_err(failed)?;
        }
        if let Err(error) = tool.pull_output(id, output.receiver(id, ranks)) {
            notice(&format!("what the ranks write is lost: {error}"));
        }
        send_input(tool.input(), id, !args.background);
        self.say_held();
        if args.background && !say_started(id, self.server.0)? {
            // The command was interrupted.
            let _running = sender.send(LaunchEvent::Interrupted);
        }
        let is_printed = !args.background;
        let place = args.hold_point();
        let mut job = PmixJob { tool, id, events, log: &output.log, is_printed, place };
        let end = job.wait();
        let is_printed = job.is_printed;
        output.close(id, end.of_job);
        if !end.is_left && self.keep(is_printed, events) {
            output.wait_for_readers();
        }
        // The library waits for its thread when it ends.
        output.log.discard_new();
        Ok(end.code)
    }

    /// Ends the job, which would run, or be held, without this command.
    fn give_up(&self, why: Failure, events: &Receiver<LaunchEvent>) -> Failure {
        let id = human::escaped_text(&self.id);
        let becomes = match self.tool.kill(&self.id) {
            Ok(()) => "it is ended",
            Err(_) => "it runs on",
        };
        // The request is on its way until the server has done it.
        let _ended = events.recv_timeout(GIVEN_UP_WITHIN);
        Failure { message: format!("{}; job {id} was started: {becomes}", why.message), ..why }
    }

    /// Waits until all is printed, or kept for long enough. Returns whether the user has not ended
    /// that.
    fn keep(&self, is_printed: bool, events: &Receiver<LaunchEvent>) -> bool {
        let until = Instant::now() + self.args.keep;
        if !is_printed && !self.args.background {
            return true;
        }
        loop {
            let event = if self.args.background {
                events.recv_timeout(until.saturating_duration_since(Instant::now()))
            } else {
                events.recv().map_err(RecvTimeoutError::from)
            };
            match event {
                Ok(LaunchEvent::Interrupted) => return false,
                Ok(LaunchEvent::Tool(_)) => {}
                Ok(LaunchEvent::Printed) | Err(_) => return true,
            }
        }
    }

    /// Says how ranks that the server holds go on.
    fn say_held(&self) {
        let id = human::escaped_text(&self.id);
        match self.args.hold_point() {
            Some(HoldPoint::Exec) => {
                notice(&format!("job {id}: held; to continue: monitor job release {id}"));
            }
            Some(_) => notice(&format!(
                "job {id}: its ranks wait for a debugger; to continue: monitor job notify {id} \
                 debugger-release"
            )),
            None => {}
        }
    }
}

fn names(environment: &Environment) -> BTreeSet<Vec<u8>> {
    environment.variables().map(|(name, _)| name.to_vec()).collect()
}

fn application(
    args: &JobLaunchArgs,
    ranks: u32,
    environment: &Environment,
    output: &Path,
) -> SpawnedApp {
    // A word of a command line has no NUL, nor has a variable.
    let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
    // A launch in which this one runs has another folder for its output.
    let is_own = |name: &[u8]| {
        name != OUTPUT_FOLDER.as_bytes() && !OF_RANKS.iter().any(|it| name.starts_with(it))
    };
    let variables = environment.variables().filter(|(name, _)| is_own(name));
    let output = (OUTPUT_FOLDER.as_bytes(), output.as_os_str().as_bytes());
    let variables = variables.chain([output]);
    let folder = std::env::current_dir().ok().map(|it| text(it.as_os_str().as_bytes()));
    SpawnedApp {
        command: text(args.command[0].as_bytes()),
        arguments: args.command.iter().map(|it| text(it.as_bytes())).collect(),
        environment: variables.map(|(name, value)| text(&[name, value].join(&b'='))).collect(),
        folder,
        ranks,
        attributes: Vec::new(),
    }
}

fn attributes(args: &JobLaunchArgs, unset: &[Vec<u8>]) -> Vec<Attribute> {
    let set = |key| Attribute::new(key, Datum::flag(true));
    let mut all = vec![set("pmix.note.jev"), set("pmix.notecomp")];
    // The library would print what is forwarded: it is pulled.
    let pulled = ["pmix.fwd.stdout", "pmix.fwd.stderr"];
    all.extend(pulled.map(|key| Attribute::new(key, Datum::flag(false))));
    all.extend(args.hold_point().map(|place| {
        set(match place {
            HoldPoint::Exec => "pmix.dbg.exec",
            HoldPoint::Init => "pmix.dbg.init",
            _ => "pmix.dbg.notify",
        })
    }));
    let name = |it: &Vec<u8>| Datum::text(&String::from_utf8_lossy(it));
    all.extend(unset.iter().map(|it| Attribute::new("pmix.envar.unset", name(it))));
    all
}

//! `monitor job launch --with pmix`: ranks that a PMIx server starts, such as `prte`.
//!
//! In: a program, a number of ranks, the name of the server. Out: what the ranks write,
//! which the library of PMIx prints; the exit code of the job. This process is a tool of the
//! server.

use super::launch_args::JobLaunchArgs;
use super::pmix_server;
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, notice};
use monitor_format::human;
use monitor_jobs::directive::Directive;
use monitor_jobs::envar::Environment;
use monitor_pmix::attribute::{Attribute, Datum};
use monitor_pmix::{SpawnedApp, Tool, ToolEvent};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code when the user has ended the job.
const INTERRUPTED: u8 = Exit::Interrupted as u8;
/// Variables that a server gives its own ranks: those of another server are not for these.
const OF_RANKS: [&[u8]; 3] = [b"PMIX_", b"PRTE_", b"PMI_"];
/// Signals that end the job.
const ENDING: [SignalKind; 3] =
    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];

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
    let failed = |error| Failure::failed(format!("job launch: {error}"));
    let server = pmix_server::find(args.server.as_deref())?;
    let before: BTreeSet<Vec<u8>> = names(&environment);
    let _steps = environment.execute(directives, &[]);
    let unset: Vec<Vec<u8>> = before.difference(&names(&environment)).cloned().collect();
    let tool = Tool::connect(&server.uri).map_err(failed)?;
    let (sender, events) = channel();
    tool.watch_ends(sender.clone()).map_err(failed)?;
    let app = application(args, ranks, &environment);
    let id = tool.spawn(&app, &attributes(args, &unset)).map_err(failed)?;
    let printed = human::escaped_text(&id);
    if args.background {
        let pid = server.server.0;
        let text = match args.format.as_str() {
            "json" => output::json(&json!({ "schema_version": 1, "job": id, "host_pid": pid }))?,
            _ => format!("job {printed} runs, started by process {pid}\n"),
        };
        return output::print(text.as_bytes()).map(|exit| exit as u8);
    }
    match args.stop.as_deref() {
        Some("exec") => {
            notice(&format!("job {printed}: held; to continue: monitor job release {printed}"));
        }
        Some(_) => notice(&format!(
            "job {printed}: its ranks wait for a debugger; to continue: monitor job notify \
             {printed} debugger-release"
        )),
        None => {}
    }
    interrupted_by_signals(sender)?;
    Ok(wait(&tool, &id, &events))
}

fn names(environment: &Environment) -> BTreeSet<Vec<u8>> {
    environment.variables().map(|(name, _)| name.to_vec()).collect()
}

fn application(args: &JobLaunchArgs, ranks: u32, environment: &Environment) -> SpawnedApp {
    // A word of a command line has no NUL, nor has a variable.
    let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
    let is_own = |name: &[u8]| !OF_RANKS.iter().any(|it| name.starts_with(it));
    let variables = environment.variables().filter(|(name, _)| is_own(name));
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
    if !args.background {
        all.extend(["pmix.fwd.stdout", "pmix.fwd.stderr"].map(set));
    }
    all.extend(args.tag.then(|| set("pmix.iof.tag")));
    all.extend(args.stop.as_deref().map(|place| {
        set(match place {
            "exec" => "pmix.dbg.exec",
            "init" => "pmix.dbg.init",
            _ => "pmix.dbg.notify",
        })
    }));
    let name = |it: &Vec<u8>| Datum::text(&String::from_utf8_lossy(it));
    all.extend(unset.iter().map(|it| Attribute::new("pmix.envar.unset", name(it))));
    all
}

/// Sends an event at a signal that ends the job.
fn interrupted_by_signals(events: Sender<ToolEvent>) -> Result<(), Failure> {
    let runtime = runtime()?;
    let failed = |error| Failure::failed(format!("job launch: cannot handle signals: {error}"));
    let entered = runtime.enter();
    let [mut interrupt, mut terminate, mut hangup] = {
        let all: Result<Vec<_>, _> = ENDING.into_iter().map(signal).collect();
        let all: Result<[_; 3], _> = all.map_err(failed)?.try_into();
        all.map_err(|_| Failure::failed("job launch: cannot handle signals"))?
    };
    drop(entered);
    let _ends_with_the_process = std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if events.send(ToolEvent::Interrupted).is_err() {
                    return;
                }
            }
        });
    });
    Ok(())
}

/// Waits for the end of the job; its exit code.
fn wait(tool: &Tool, id: &str, events: &Receiver<ToolEvent>) -> u8 {
    let mut is_interrupted = false;
    loop {
        match events.recv() {
            Ok(ToolEvent::Ended(nspace, code)) if nspace == id => {
                let code = u8::try_from(code.unwrap_or(0)).unwrap_or(1);
                return if is_interrupted { INTERRUPTED } else { code };
            }
            Ok(ToolEvent::Ended(..)) => {}
            Ok(ToolEvent::Lost) | Err(_) => {
                notice(
                    "host lost: the connection to the PMIx server has ended, and so may the job",
                );
                return 1;
            }
            Ok(ToolEvent::Interrupted) if is_interrupted => return INTERRUPTED,
            Ok(ToolEvent::Interrupted) => {
                is_interrupted = true;
                if let Err(error) = tool.kill(id) {
                    notice(&format!("job {}: {error}", human::escaped_text(id)));
                }
            }
        }
    }
}

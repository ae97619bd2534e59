//! A launcher in the background, whose output is kept (`launcher-host`).
//!
//! In: the arguments of `job launch --background` without `-n`. Out: the command that waits for the
//! launcher; what is printed when it runs. Where ranks are held, `job launch` without this option
//! takes the place of the launcher, and starts it.

use super::background::{Started, start_in_background};
use super::host_command::new_id;
use super::host_connection::LAUNCH;
use super::launch_args::JobLaunchArgs;
use super::launcher_labels::{label_of, labelled};
use crate::cli::exit::Failure;
use crate::cli::output;
use monitor_control::user_worker::SELF_EXE;
use monitor_jobs::directive::Directive;
use monitor_jobs::envar::Environment;
use monitor_jobs::rank_label::RankLabel;
use monitor_sys::fd_limit;
use monitor_sys::pidfd::returned_code;
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The value of `--with` for a PMIx server, whose own process in the background has its options.
const PMIX: &str = "pmix";

/// Starts the launcher, and prints by which id its output is found. Returns the exit code.
///
/// # Errors
/// If it cannot be started, or writes no labels and is to.
pub fn launch_in_background(
    args: &JobLaunchArgs,
    mut environment: Environment,
    directives: &[Directive],
) -> Result<u8, Failure> {
    let words = labelled(args)?;
    let id = new_id(LAUNCH);
    let mut command = Command::new(SELF_EXE);
    command.arg0("monitor").args(["job", "launcher-host", "--id", &id]);
    command.args(["--keep", &format!("{}ns", args.keep.as_nanos())]);
    if let Some(label) = label_of(&words) {
        command.args(["--label", RankLabel::name(label)]);
    }
    command.arg("--");
    if args.is_traced() {
        // It executes the directives.
        command.args([SELF_EXE, "job", "launch"]).args(launch_words(args));
    } else {
        let _steps = environment.execute(directives, &[]);
        command.args(words).env_clear().envs(environment.os_variables());
    }
    fd_limit::restore_in(&mut command);
    let (host, launcher) = match start_in_background(&mut command)? {
        Started::Runs { host, rest } => (host, rest),
        Started::Ended(status) => return Ok(returned_code(status)),
    };
    let pid: u32 = launcher.parse().map_err(Failure::failed)?;
    let text = match args.format.as_str() {
        "json" => output::json(&json!({
            "schema_version": 1, "job": id, "host_pid": host, "launcher_pid": pid,
        }))?,
        _ => format!("{id} runs, process {pid}; its output: monitor job output {id}\n"),
    };
    output::print(text.as_bytes()).map(|exit| exit as u8)
}

/// The options of a launch that holds ranks, and its operands.
pub fn launch_words(args: &JobLaunchArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--with".into(), args.with.clone().into()];
    let mut add = |option: &str, value: OsString| words.extend([option.into(), value]);
    if let Some(ranks) = args.ranks {
        add("-n", ranks.to_string().into());
    }
    if let Some(server) = &args.server {
        add("--server", server.into());
    }
    if let Some(within) = args.within {
        add("--within", format!("{}ns", within.as_nanos()).into());
    }
    if let Some(place) = &args.stop {
        add("--stop", place.into());
    }
    if let Some(program) = &args.stop_at {
        add("--stop-at", program.clone());
    }
    if let Some(daemon) = &args.daemon {
        add("--per", args.per.clone().into());
        add("--daemon", daemon.clone());
    }
    for directive in &args.env {
        add("--env", directive.into());
    }
    if args.tag {
        words.push("--tag".into());
    }
    if args.background && args.ranks.is_some() && args.with != PMIX {
        words.push("--background".into());
        if args.no_wait {
            words.push("--no-wait".into());
        }
        words.extend(["--keep".into(), format!("{}ns", args.keep.as_nanos()).into()]);
    }
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    words
}

//! `monitor job env`: what environment directives make of an environment, step by step.
//!
//! In: directives, and an environment: of a process, of a file, or of this program. Out: a step for
//! each directive, and the variables that they concern. Changes no environment.

use super::args::JobEnvArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_jobs::directive::{Directive, DirectiveKind};
use monitor_jobs::envar::{Environment, Step};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt as _;

/// The set-user-ID and set-group-ID bits of a mode.
const SET_ID: u32 = 0o6000;

/// Prints the steps.
///
/// # Errors
/// If a directive is not valid, or the environment cannot be read.
pub fn explain(args: &JobEnvArgs) -> Result<Exit, Failure> {
    let of_job = parsed(&args.for_job)?;
    let of_application = parsed(&args.explain)?;
    let mut environment = match &args.from {
        None => own_environment(),
        Some(from) => read(from)?,
    };
    let steps = environment.execute(&of_job, &of_application);
    let explained = ExplainedEnvironment { steps, environment };
    output::report(&explained.to_json(), args.format == "json", |_| explained.to_text())
}

/// The directives of texts.
///
/// # Errors
/// If one is not valid.
pub fn parsed(written: &[String]) -> Result<Vec<Directive>, Failure> {
    let all = written.iter().map(|it| Directive::parse(it));
    all.collect::<Result<_, _>>().map_err(Failure::usage)
}

/// Refuses directives for the dynamic linker where the program changes its user or group: the
/// linker would ignore them (ld.so(8)).
///
/// # Errors
/// If there is one, and the program is such a file.
pub fn check_program(program: &OsStr, directives: &[Directive]) -> Result<(), Failure> {
    let Some(directive) = directives.iter().find(|it| it.concerns_dynamic_linker()) else {
        return Ok(());
    };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_folders = std::env::split_paths(&folders).map(|folder| folder.join(program));
    let is_path = program.as_bytes().contains(&b'/');
    let file = if is_path { Some(program.into()) } else { { in_folders }.find(|it| it.is_file()) };
    let mode = file.and_then(|file| file.metadata().ok()).map_or(0, |it| it.permissions().mode());
    if mode & SET_ID == 0 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{directive} is refused: {} is a set-user-ID or set-group-ID program, whose dynamic linker \
         ignores it",
        program.display()
    )))
}

/// The environment of this program.
pub fn own_environment() -> Environment {
    let variables = std::env::vars_os();
    let entries = variables.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'='));
    Environment::from_proc_environ(&entries.collect::<Vec<_>>().join(&0))
}

/// Reads the environment of a process, if the text is a number, or a file.
fn read(from: &str) -> Result<Environment, Failure> {
    if let Ok(pid) = from.parse::<u32>() {
        let bytes = std::fs::read(format!("/proc/{pid}/environ"));
        return match bytes {
            Ok(bytes) => Ok(Environment::from_proc_environ(&bytes)),
            Err(error) => Err(unreadable_process(pid, &error)),
        };
    }
    let bytes = std::fs::read(from)
        .map_err(|error| Failure::failed(format!("cannot read {from}: {error}")))?;
    Ok(match bytes.contains(&0) {
        true => Environment::from_proc_environ(&bytes),
        false => Environment::from_lines(&bytes),
    })
}

fn unreadable_process(pid: u32, error: &std::io::Error) -> Failure {
    let (message, exit) = match error.kind() {
        ErrorKind::NotFound => {
            (format!("no process {pid}: it has ended, or never was"), Exit::NoTarget)
        }
        ErrorKind::PermissionDenied => {
            let why = "only its user and root may read it; run it as root";
            (format!("cannot read the environment of process {pid}: {why}"), Exit::Denied)
        }
        _ => (format!("cannot read the environment of process {pid}: {error}"), Exit::Failed),
    };
    Failure { message, exit }
}

/// What directives did to an environment.
struct ExplainedEnvironment {
    steps: Vec<Step>,
    /// The environment after them.
    environment: Environment,
}

impl ExplainedEnvironment {
    /// The names of the variables that directives concern, sorted.
    fn names(&self) -> BTreeSet<&[u8]> {
        let changed = self.steps.iter().flat_map(|step| &step.changes);
        let named = self.steps.iter().map(|step| &step.directive);
        // `unset` may name a pattern.
        let named = named.filter(|it| it.kind() != DirectiveKind::Unset).map(Directive::name);
        changed.map(|it| it.name.as_slice()).chain(named).collect()
    }

    /// Notes about variables that some programs ignore.
    fn notes(&self) -> Vec<String> {
        let concerned = self.steps.iter().filter(|it| it.directive.concerns_dynamic_linker());
        let note = |step: &Step| {
            let directive = &step.directive;
            format!("{directive} does not apply to set-user-ID programs: it is refused for them")
        };
        concerned.map(note).collect()
    }

    fn to_json(&self) -> Json {
        let result = self.names().into_iter().map(
            |name| json!({ "name": text(name), "value": self.environment.get(name).map(text) }),
        );
        json!({
            "schema_version": 1,
            "steps": self.steps.iter().map(step_json).collect::<Vec<_>>(),
            "result": result.collect::<Vec<_>>(),
            "notes": self.notes(),
        })
    }

    /// Writing to a `String` cannot fail.
    fn to_text(&self) -> String {
        let mut out = String::new();
        for (number, step) in (1..).zip(&self.steps) {
            let Step { level, directive, effect, .. } = step;
            let _ = writeln!(out, "{number}  {}  {directive}", level.name());
            let _ = writeln!(out, "   {}", effect.text());
            for change in &step.changes {
                let [before, after] =
                    [&change.before, &change.after].map(|it| quoted(it.as_deref()));
                let _ = writeln!(out, "   {}: {before} -> {after}", text(&change.name));
            }
        }
        out.push_str("\nresult\n");
        for name in self.names() {
            let value = quoted(self.environment.get(name));
            let _ = writeln!(out, "   {}: {value}", text(name));
        }
        self.notes().iter().for_each(|note| _ = writeln!(out, "note: {note}"));
        out
    }
}

fn step_json(step: &Step) -> Json {
    let changes = step.changes.iter().map(|change| {
        let [before, after] = [&change.before, &change.after].map(|it| it.as_deref().map(text));
        json!({ "name": text(&change.name), "before": before, "after": after })
    });
    json!({
        "level": step.level.name(),
        "directive": step.directive.to_string(),
        "effect": step.effect.name(),
        "changes": changes.collect::<Vec<_>>(),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn quoted(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "not set".to_owned(), |value| format!("\"{}\"", text(value)))
}

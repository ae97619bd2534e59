//! `monitor job doctor`: which runtimes are here, where their ranks can be held, and what the
//! commands of this group need.
//!
//! In: the search path, and the rights of the user. Out: a table of launchers, one of places at
//! which ranks are held, one of needs, and one of sources of faults and limits. Starts no
//! launcher, and opens no connection to one.

use super::args::JobDoctorArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_backends::environment::EnvironmentReader;
use monitor_format::grid::{Column, Grid, Side};
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_jobs::Runtime;
use monitor_jobs::hold_table::{HoldPoint, RUNTIMES, held_by};
use monitor_jobs::runtime::LauncherRole;
use monitor_loader::call_profile;
use monitor_model::Pid;
use monitor_model::environment::EnvironmentSourceState;
use monitor_sys::perf_event;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Names of launchers, in the search path.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "prterun", "srun"];
const SEPARATOR: char = '.';
/// Columns before wrapped text.
const INDENT: usize = 22;

/// A launcher.
struct FoundLauncher {
    /// The first path of the search path that leads to it.
    path: PathBuf,
    /// The runtime of the program behind that path.
    runtime: Runtime,
    /// That program.
    program: PathBuf,
}

/// What commands need, and why they do not have it.
struct Need {
    commands: &'static str,
    what: &'static str,
    missing: Option<String>,
}

/// Prints what is here.
///
/// # Errors
/// If standard output cannot be written.
pub fn doctor(args: &JobDoctorArgs) -> Result<Exit, Failure> {
    let (launchers, needs) = (launchers(), needs());
    let sources = EnvironmentReader::new(Path::new("/")).sources();
    let text = match args.format.as_str() {
        "json" => output::json(&json(&launchers, &needs, &sources))?,
        _ => text(&launchers, &needs) + &source_text(&sources),
    };
    let printed = output::print(text.as_bytes())?;
    Ok(if needs.iter().any(|it| it.missing.is_some()) { Exit::Degraded } else { printed })
}

/// The launchers of the search path; names that lead to one program are one.
fn launchers() -> Vec<FoundLauncher> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut found: BTreeMap<PathBuf, FoundLauncher> = BTreeMap::new();
    for folder in std::env::split_paths(&paths) {
        for path in files(&folder).into_iter().filter(|it| is_launcher(it)) {
            let Ok(program) = path.canonicalize() else { continue };
            let Some(runtime) = runtime(&program, &path) else { continue };
            let launcher = FoundLauncher { path, runtime, program: program.clone() };
            let _first = found.entry(program).or_insert(launcher);
        }
    }
    found.into_values().collect()
}

/// The files of a folder, sorted; none of one that cannot be read.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Whether a file is named as a launcher: `mpirun`, or `mpirun.openmpi`.
fn is_launcher(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    LAUNCHERS.contains(&name.split(SEPARATOR).next().unwrap_or_default())
}

/// The runtime of a program, by its name or by that of the path to it; `None` if it is no launcher.
fn runtime(program: &Path, path: &Path) -> Option<Runtime> {
    let of = |path: &Path| Runtime::of_program(&path.file_name()?.to_string_lossy());
    let (runtime, role) = of(program).or_else(|| of(path))?;
    (role == LauncherRole::Launcher).then_some(runtime)
}

fn needs() -> [Need; 5] {
    let is_root = rustix::process::geteuid().is_root();
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_restricted = !is_root && !matches!(scope.trim(), "" | "0");
    let restricted = || {
        format!(
            "kernel.yama.ptrace_scope is {}: a process traces only its own children",
            scope.trim()
        )
    };
    [
        Need {
            commands: "list, show, hold",
            what: "environments of ranks",
            missing: (!is_root).then(|| "those of other users need root".to_owned()),
        },
        Need { commands: "stacks", what: "tracing", missing: is_restricted.then(restricted) },
        Need {
            commands: "launch --stop init",
            what: "breakpoints of the processor",
            missing: breakpoint_error(),
        },
        Need {
            commands: "launch -n",
            what: "PMIx",
            missing: monitor_pmix::check_installed().err().map(|why| why.to_string()),
        },
        Need {
            commands: "calls",
            what: "probes with a number",
            missing: call_profile::check().err().map(|why| why.to_string()),
        },
    ]
}

/// Why this process cannot have a breakpoint of the processor; none if it can.
fn breakpoint_error() -> Option<String> {
    // No thread executes it: it is not mapped.
    const ADDRESS: u64 = 0x1000;
    let why = perf_event::open_trap(Pid(std::process::id()), ADDRESS).err()?;
    Some(format!("perf_event_open: {why}; it needs {}", perf_event::TRAP_NEEDS))
}

/// Writing to a `String` cannot fail.
fn text(launchers: &[FoundLauncher], needs: &[Need]) -> String {
    let mut out = String::new();
    let left = |title| Column { title, min_width: 0, side: Side::Left };
    let mut grid = Grid::default();
    grid.begin(["RUNTIME", "LAUNCHER", "PROGRAM"].into_iter().map(left));
    for it in launchers {
        grid.cell(|out| out.push_str(it.runtime.name()));
        grid.cell(|out| human::escaped(&it.path.to_string_lossy(), out));
        grid.cell(|out| human::escaped(&it.program.to_string_lossy(), out));
    }
    grid.lines(COLUMNS, &mut out);
    if launchers.is_empty() {
        let _ =
            writeln!(out, "no launcher is in the search path: install openmpi-bin, mpich or slurm");
    }
    let _ = writeln!(out, "\n{:<INDENT$}RANKS CAN BE HELD", "RUNTIME AND PLACE");
    for runtime in RUNTIMES {
        for point in HoldPoint::ALL {
            let place = format!("{} {}", runtime.name(), point.name());
            let _ = write!(out, "{place:<INDENT$}");
            let answer = match held_by(runtime, *point) {
                Ok(how) => how.to_owned(),
                Err(why) => format!("no: {why}"),
            };
            wrap(&answer, INDENT, COLUMNS, &mut out);
        }
    }
    let _ = writeln!(out, "\n{:<INDENT$}NEED", "COMMANDS");
    for Need { commands, what, missing } in needs {
        let _ = write!(out, "{commands:<INDENT$}");
        let state =
            missing.as_ref().map_or_else(|| "there".to_owned(), |why| format!("missing: {why}"));
        wrap(&human::escaped_text(&format!("{what}: {state}")), INDENT, COLUMNS, &mut out);
    }
    out
}

/// The sources of faults and limits. Writing to a `String` cannot fail.
fn source_text(sources: &[EnvironmentSourceState]) -> String {
    let mut out = format!("\n{:<INDENT$}FAULTS AND LIMITS OF THE NODE\n", "SOURCE");
    for it in sources {
        let _ = write!(out, "{:<INDENT$}", it.source.name());
        let state = match it.values {
            Ok(count) => format!("{count} values are read"),
            Err(why) => format!("not on this node: {why}"),
        };
        wrap(&state, INDENT, COLUMNS, &mut out);
    }
    out
}

fn json(launchers: &[FoundLauncher], needs: &[Need], sources: &[EnvironmentSourceState]) -> Json {
    let source = |it: &EnvironmentSourceState| {
        let (values, missing) = (it.values.ok(), it.values.err());
        json!({ "source": it.source.name(), "values": values, "missing": missing })
    };
    let launcher = |it: &FoundLauncher| {
        let [path, program] = [&it.path, &it.program].map(|it| it.to_string_lossy());
        json!({ "runtime": it.runtime.name(), "path": path, "program": program })
    };
    let hold = |runtime: Runtime, point: HoldPoint| {
        let answer = held_by(runtime, point);
        json!({
            "runtime": runtime.name(),
            "place": point.name(),
            "works": answer.is_ok(),
            "how": answer.ok(),
            "why": answer.err(),
        })
    };
    let holds = RUNTIMES
        .into_iter()
        .flat_map(|runtime| HoldPoint::ALL.iter().map(move |point| hold(runtime, *point)));
    let need =
        |it: &Need| json!({ "commands": it.commands, "what": it.what, "missing": it.missing });
    json!({
        "schema_version": 1,
        "launchers": launchers.iter().map(launcher).collect::<Vec<_>>(),
        "holds": holds.collect::<Vec<_>>(),
        "needs": needs.iter().map(need).collect::<Vec<_>>(),
        "sources": sources.iter().map(source).collect::<Vec<_>>(),
    })
}

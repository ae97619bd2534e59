//! `monitor conformance`: which sentences of OMIS 1.0 hold for the implementation at a socket.
//!
//! In: the cases of the program or of a folder. Out: a verdict for each sentence, and the exit code
//! `Nonconforming` if one does not hold. Runs the processes of the cases itself; `print` writes.

mod print;
pub mod target;

use super::args::daemon::ConformanceArgs;
use super::exit::{Exit, Failure};
use super::output;
use monitor_conformance::case::{self, Case};
use monitor_conformance::run::{Implementation, RunError, run};
use monitor_conformance::suite;
use monitor_conformance::verdict::{Finding, Summary, findings};
use std::path::Path;
use target::OwnProcesses;

/// Runs the cases and prints the verdicts, or lists the sentences.
pub fn conformance(args: &ConformanceArgs) -> Result<Exit, Failure> {
    let cases = match &args.cases {
        Some(folder) => read_cases(folder)?,
        None => suite(),
    };
    if args.list {
        let text = match args.format.as_str() {
            "json" => print::list_json(&cases),
            "markdown" => print::markdown(&cases),
            _ => print::list(&cases),
        };
        return output::print(text.as_bytes());
    }
    if args.format == "markdown" {
        return Err(Failure::usage("--format markdown is of the list alone; add --list"));
    }
    let found = run_all(&cases, args)?;
    let text = match args.format.as_str() {
        "json" => print::json(&found),
        _ => print::table(&found),
    };
    let written = output::print(text.as_bytes())?;
    Ok(if Summary::from_findings(&found).failed > 0 { Exit::Nonconforming } else { written })
}

fn run_all(cases: &[Case], args: &ConformanceArgs) -> Result<Vec<Finding>, Failure> {
    let implementation = Implementation {
        socket: args.daemon.socket.as_deref(),
        node: args.node.map(i64::from),
        timeout: args.timeout,
    };
    let mut found = Vec::new();
    for case in cases {
        let verdict = run(case, implementation, &mut OwnProcesses::default()).map_err(failure)?;
        found.extend(findings(case, &verdict));
    }
    Ok(found)
}

fn failure(error: RunError) -> Failure {
    match error {
        RunError::Client(error) => error.into(),
        RunError::Process(why) => Failure::failed(format!("cannot start a process: {why}")),
    }
}

/// The cases of the `.txt` files of a folder, in the order of their names.
fn read_cases(folder: &Path) -> Result<Vec<Case>, Failure> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot read {}: {why}", path.display()))
    };
    let entries = std::fs::read_dir(folder).map_err(|why| failed(folder, &why))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|why| failed(folder, &why))?.path();
        if path.extension().is_some_and(|it| it == "txt") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|why| failed(&path, &why))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        cases.extend(case::parse(&name, &text).map_err(Failure::usage)?);
    }
    match cases.is_empty() {
        true => Err(Failure::usage(format!("no .txt file with cases in {}", folder.display()))),
        false => Ok(cases),
    }
}

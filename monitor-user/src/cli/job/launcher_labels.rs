//! The labels of ranks that a launcher writes: those of its command line, or the option that is
//! added for `--tag`.
//!
//! In: the command line of a launcher. Out: the form of its labels, or the same command line with
//! an option more. Which runtime a name such as `mpirun` is of, its file shows, or those beside.

use super::launch_args::JobLaunchArgs;
use crate::cli::exit::Failure;
use monitor_jobs::Runtime;
use monitor_jobs::rank_label::{RankLabel, runtime_beside};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The command line of a launcher: with `--tag`, and where it has no option for labels yet, with
/// that option after the name of the launcher.
///
/// # Errors
/// With `--tag`, if the program is no launcher that has such an option.
pub fn labelled(args: &JobLaunchArgs) -> Result<Vec<OsString>, Failure> {
    let mut words = args.command.clone();
    if args.tag && label_of(&words).is_none() {
        let options = runtime_of(&words[0]).and_then(RankLabel::option).ok_or_else(|| {
            let program = words[0].display();
            Failure::usage(format!(
                "--tag: {program} is no launcher whose option for labels is known: write its own \
                 option in its command line"
            ))
        })?;
        words.splice(1..1, options.iter().map(OsString::from));
    }
    Ok(words)
}

/// The form of the labels that a launcher writes, if its command line has the option.
pub fn label_of(words: &[OsString]) -> Option<RankLabel> {
    let runtime = runtime_of(words.first()?)?;
    let words: Vec<_> = words.iter().map(|it| it.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    RankLabel::of_command(runtime, &words)
}

/// The runtime of a launcher.
fn runtime_of(program: &OsStr) -> Option<Runtime> {
    let of = |path: &Path| Runtime::of_program(&path.file_name()?.to_string_lossy());
    let known = |path: &Path| of(path).map(|it| it.0).filter(|it| *it != Runtime::Unknown);
    let _launcher = of(Path::new(program))?;
    known(Path::new(program)).or_else(|| {
        let file = found(program)?.canonicalize().ok()?;
        known(&file).or_else(|| runtime_beside(|name| file.with_file_name(name).exists()))
    })
}

/// The file of a program, in the search path where the name is no path.
fn found(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(program.into());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|it| it.is_file())
}

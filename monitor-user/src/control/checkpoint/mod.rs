//! Processes that leave and come: dumped to files and restored from them by CRIU.
//!
//! In: nobody, for the check, or a process. Out: the version of a CRIU that passes its own check;
//! what ties a process to where it is; dumps and restores that go on. CRIU is a program, and its
//! library only talks to that program.

mod criu;
mod files;
mod moves;
mod outside;

use super::patience::Patience;
use super::subject::Subject;
use super::trouble::Trouble;
pub use moves::Moves;
use std::io::Read as _;
use std::process::Stdio;

/// The version of CRIU, if it works here.
pub fn check(patience: &mut Patience<'_>) -> Result<String, Trouble> {
    let (is_there, told) = run("--version", patience)?;
    let version = told.lines().find_map(|line| line.strip_prefix("Version: "));
    let version = version.filter(|_| is_there).unwrap_or("of an unknown version").to_owned();
    let (passes, told) = run("check", patience)?;
    if passes {
        return Ok(version);
    }
    let why = criu::reason(&told);
    Err(Trouble::Unsupported(format!(
        "CRIU {version} does not work on this kernel: {why}; a newer one may"
    )))
}

/// Whether nothing ties the process to where it is.
pub fn is_free(subject: &Subject) -> Result<(), Trouble> {
    without(outside::kin(subject)?)?;
    is_lossless(subject)
}

/// Whether nothing would be lost that is on its way to the process or from it.
pub fn is_lossless(subject: &Subject) -> Result<(), Trouble> {
    without(outside::tie(subject)?)
}

fn without(tie: Option<String>) -> Result<(), Trouble> {
    match tie {
        None => Ok(()),
        Some(tie) => Err(Trouble::Unsupported(tie)),
    }
}

/// Whether it went well, and what it said.
fn run(word: &str, patience: &mut Patience<'_>) -> Result<(bool, String), Trouble> {
    let mut command = criu::command();
    let command = command.arg(word).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| criu::not_started(&error))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {
                if let Err(trouble) = patience.wait("the check of CRIU") {
                    let _ended = child.kill();
                    let _status = child.wait();
                    return Err(trouble);
                }
            }
            Err(error) => return Err(Trouble::of("waiting for criu", &error)),
        }
    };
    let mut told = String::new();
    // A few lines, which found room in the pipes; what is not text is not shown.
    for pipe in [child.stdout.take().map(read), child.stderr.take().map(read)].into_iter().flatten()
    {
        told += &pipe;
    }
    Ok((status.success(), told))
}

fn read(mut pipe: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let _cut = pipe.by_ref().take(1 << 16).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

//! Whether processes can be dumped and restored here: what CRIU says of this kernel.
//!
//! In: nothing. Out: the version of a CRIU that passes its own check, or what is missing. Nothing
//! is dumped. CRIU is a program, and its library only talks to that program.

use super::patience::Patience;
use super::trouble::Trouble;
use std::io::{ErrorKind, Read as _};
use std::process::{Command, Stdio};

const PROGRAM: &str = "criu";

/// The version of CRIU, if it works here.
pub fn check(patience: &mut Patience<'_>) -> Result<String, Trouble> {
    let (is_there, told) = run("--version", patience)?;
    let version = told.lines().find_map(|line| line.strip_prefix("Version: "));
    let version = version.filter(|_| is_there).unwrap_or("of an unknown version").to_owned();
    let (passes, told) = run("check", patience)?;
    if passes {
        return Ok(version);
    }
    let why = told.lines().find(|line| line.starts_with("Error")).unwrap_or("it does not say why");
    Err(Trouble::Unsupported(format!(
        "CRIU {version} does not work on this kernel: {why}; a newer one may"
    )))
}

/// Whether it went well, and what it said.
fn run(word: &str, patience: &mut Patience<'_>) -> Result<(bool, String), Trouble> {
    let mut command = Command::new(PROGRAM);
    let command = command.arg(word).stdin(Stdio::null());
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Trouble::Unsupported("CRIU is not installed, see https://criu.org".to_owned())
        }
        _ => Trouble::of("starting criu", &error),
    })?;
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

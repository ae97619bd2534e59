//! Whether there is a CRIU that works on this kernel, by its own check.
//!
//! In: how long it may take. Out: its version, or why it does not. It may have been installed
//! since, or the kernel be another one, so what it has said is known for a moment: as long as many
//! processes are asked about at once.

use super::super::patience::Patience;
use super::super::trouble::Trouble;
use super::criu;
use std::io::Read as _;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long it is known what was said.
const KNOWN_FOR: Duration = Duration::from_secs(2);

type Said = Result<String, Trouble>;

/// What was said last, and when.
#[derive(Default)]
pub struct Check(Option<(Instant, Said)>);

impl Check {
    /// The version of CRIU, if it works here.
    pub fn version(&mut self, patience: &mut Patience<'_>) -> Said {
        match &self.0 {
            Some((at, said)) if at.elapsed() < KNOWN_FOR => said.clone(),
            _ => {
                let said = version(patience);
                self.0 = Some((Instant::now(), said.clone()));
                said
            }
        }
    }
}

fn version(patience: &mut Patience<'_>) -> Said {
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

/// Whether it went well, and what it said.
fn run(word: &str, patience: &mut Patience<'_>) -> Result<(bool, String), Trouble> {
    let mut command = criu::command();
    let command = command.arg(word).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| criu::not_started(&error))?;
    let status = wait(&mut child, patience)?;
    // A few lines, which found room in the pipes; what is not text is not shown.
    let pipes = [child.stdout.take().map(read), child.stderr.take().map(read)];
    Ok((status.success(), pipes.into_iter().flatten().collect()))
}

fn wait(child: &mut Child, patience: &mut Patience<'_>) -> Result<ExitStatus, Trouble> {
    loop {
        let ended = child.try_wait().map_err(|error| Trouble::of("waiting for criu", &error))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if let Err(trouble) = patience.wait("the check of CRIU") {
            let _ended = child.kill();
            let _status = child.wait();
            return Err(trouble);
        }
    }
}

fn read(mut pipe: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let _cut = pipe.by_ref().take(1 << 16).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

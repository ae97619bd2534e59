//! Starts a PVM virtual machine for a test: its daemon, and tasks that execute commands.

use super::fixture::Build;
use crate::deadline;
use crate::root::privilege::skip;
use crate::root::workload::Guarded;
use monitor_model::id::Pid;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const ROOT: &str = "/usr/lib/pvm3";

/// The PVM daemon of a test.
pub struct Pvm {
    folder: PathBuf,
    program: PathBuf,
    _daemon: Guarded,
}

/// A PVM task.
pub struct Task {
    process: Guarded,
    /// Its task id.
    pub tid: i64,
}

impl Pvm {
    /// Starts a daemon. Without PVM the test is skipped, or fails if skips are not allowed.
    pub fn start(test: &str) -> Option<Self> {
        let daemon = Path::new(ROOT).join("lib/pvmd");
        if !daemon.exists() {
            skip(test, "needs PVM 3.4 (apt install pvm pvm-dev)");
            return None;
        }
        let (source, words) = ("pvm.c", ["-O1", "-include", "stdlib.h"]);
        let build = Build { test, source, product: "task", words: &words };
        let program =
            Build { words: &[&words[..], &["-Wl,--no-as-needed", "-lpvm3"]].concat(), ..build };
        let program = program.done()?;
        // The path of a socket is limited to 107 bytes.
        let folder =
            std::env::temp_dir().join(format!("pvm{}{:x}", std::process::id(), hash(test)));
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(daemon);
        let daemon = Guarded::run(environment(&mut command, &folder).arg("-nlocalhost"));
        deadline::until(|| {
            let mut entries = std::fs::read_dir(&folder).unwrap().flatten();
            entries.find(|it| it.file_name().to_string_lossy().starts_with("pvmd."))
        });
        Some(Self { folder, program, _daemon: daemon })
    }

    /// Starts a task.
    pub fn task(&self) -> Task {
        let mut command = Command::new(&self.program);
        let mut process = Guarded::run(environment(&mut command, &self.folder));
        let tid = process.line().parse().unwrap();
        Task { process, tid }
    }
}

impl Task {
    /// The process of the task.
    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// Sends the task a command, and returns its reply.
    pub fn run(&mut self, command: &str) -> String {
        self.begin(command);
        self.reply()
    }

    /// Sends the task a command that may take long.
    pub fn begin(&mut self, command: &str) {
        self.process.send_line(command);
    }

    /// How its process has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.0.try_wait().unwrap()
    }

    /// Waits for the reply to the command.
    pub fn reply(&mut self) -> String {
        self.process.line()
    }
}

impl Drop for Pvm {
    fn drop(&mut self) {
        // It may not exist; another test has its own folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn environment<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    command
        .env("PVM_ROOT", ROOT)
        .env("PVM_ARCH", "LINUX64")
        .env("PVM_TMP", folder)
        .env("PVM_DPATH", "/usr/lib/pvm3/lib/pvmd")
        // Without it, PVM refuses to run as root.
        .env("PVM_ALLOW_ROOT", "1")
        .current_dir(folder)
}

/// Returns a hash of the name of a test.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

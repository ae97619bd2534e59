//! A virtual machine of PVM on this one, for a test: its daemon and tasks that do as they are told.

use super::fixture::Build;
use crate::deadline;
use crate::root::privilege::skip;
use crate::root::workload::Guarded;
use monitor_model::id::Pid;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = "/usr/lib/pvm3";

/// The daemon of a test.
pub struct Pvm {
    folder: PathBuf,
    program: PathBuf,
    _daemon: Guarded,
}

/// A task.
pub struct Task {
    process: Guarded,
    /// Its number in PVM.
    pub tid: i64,
}

impl Pvm {
    /// Starts one; says why not where there is no PVM, or fails where a skip is not allowed.
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
        // The path of a socket has little room.
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
    /// Its process.
    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// Tells it to do something, and gives its answer.
    pub fn does(&mut self, what: &str) -> String {
        self.begins(what);
        self.answers()
    }

    /// Tells it to do something that may take long.
    pub fn begins(&mut self, what: &str) {
        self.process.tell(what);
    }

    /// What it says when that is done.
    pub fn answers(&mut self) -> String {
        self.process.line()
    }
}

impl Drop for Pvm {
    fn drop(&mut self) {
        // It may be gone; a later test has another one.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn environment<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    command
        .env("PVM_ROOT", ROOT)
        .env("PVM_ARCH", "LINUX64")
        .env("PVM_TMP", folder)
        .env("PVM_DPATH", "/usr/lib/pvm3/lib/pvmd")
        // It refuses root otherwise.
        .env("PVM_ALLOW_ROOT", "1")
        .current_dir(folder)
}

/// A short name of a test.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

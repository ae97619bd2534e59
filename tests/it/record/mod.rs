//! Recordings from outside: the same numbers as live, and what survives a crash or a full disk.

mod command;
mod crash;
mod flight;
#[cfg(feature = "parquet")]
mod parquet;
mod report;
mod same;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of a test, taken away when it is over.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "monitor-record-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the program.
pub fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.args(words).env_remove("MONITOR_BACKEND").stdin(Stdio::null()).output().unwrap()
}

/// Runs it to a good end, and gives what it printed.
#[track_caller]
pub fn printed(words: &[&str]) -> String {
    let got = run(words);
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(got.status.success(), "{words:?}: {said}");
    String::from_utf8(got.stdout).unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

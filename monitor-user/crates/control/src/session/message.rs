//! What the service asks a launcher, and what that answers: frames on a socket.
//!
//! The answer to each command comes in the order of the commands; [`LaunchAnswer::Ended`] comes by
//! itself, once.

use super::error::SessionError;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a launcher does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchCommand {
    /// Begin, with this directory of the session. The streams of the program come with it, as three
    /// descriptors. It has no answer.
    Begin(PathBuf),
    /// Execute the program.
    Exec(LaunchedProgram),
    /// Send a signal to the program.
    Signal(i32),
    /// End all descendants, remove the directory, and exit. It has no answer.
    Wipe,
}

/// A program to be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchedProgram {
    /// Its file: the first of these that exists.
    pub files: Vec<PathBuf>,
    /// Its arguments, its own name first.
    pub arguments: Vec<Vec<u8>>,
    /// Its whole environment.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its working directory; absent, that of the session.
    pub folder: Option<PathBuf>,
    /// For each stream, the path below the directory of the session that it is instead.
    pub redirects: [Option<Vec<u8>>; 3],
}

/// What a launcher answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchAnswer {
    /// The program is executed: its process.
    Started(u32),
    /// It is done.
    Done,
    /// It is not done.
    Refused(SessionError),
    /// The program has ended.
    Ended(Ending),
}

/// How a program has ended, and what it and the children that it had reaped have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit code, if it has exited.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Time in user mode, in milliseconds.
    pub user_ms: u64,
    /// Time in the kernel, in milliseconds.
    pub system_ms: u64,
    /// Time from its start to its end, in milliseconds.
    pub real_ms: u64,
    /// Largest resident size, in KiB.
    pub max_rss_kib: u64,
}

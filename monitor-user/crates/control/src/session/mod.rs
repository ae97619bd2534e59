//! Sessions: one program of a user, launched for a tool that is no child of this service.
//!
//! ```text
//!  service                                      | launcher: a process of the session's user
//!  SessionRecord, OutputLog <-- pipes ------------- the program and its descendants
//!  LaunchCommand --- frames on a socket ----------> launcher::run: exec, signal, wait, wipe
//! ```
//!
//! In: the texts of `argv` and `env`, lines of `ctl`. Out: what the program writes, kept and
//! bounded; how it ended, and what it used. The launcher has the rights of its user and no others,
//! is the reaper of all descendants, and ends them when the socket closes. Which files show a
//! session is not known here.

mod cgroup;
mod control_line;
pub mod copy_target;
mod descendants;
mod environment;
mod error;
mod job_socket;
pub mod launcher;
mod message;
mod record;
mod start;
mod stored_files;
mod words;

pub use cgroup::SessionCgroups;
pub use control_line::{ControlLine, Lifetime, Limit, Redirect};
pub use environment::SessionPlace;
pub use error::{Refusal, SessionError};
pub use job_socket::JobSocket;
pub use message::{Ending, LaunchAnswer, LaunchCommand, LaunchedProgram};
pub use record::{Phase, ProcessEnd, Remaining, SessionHold, SessionRecord, TextFile};
pub use start::{Launcher, LauncherPipes, LauncherProcess, launcher_gone};
pub use stored_files::{StoredAccess, StoredFiles, StoredStat};
pub use words::{Assignment, assignments, quoted, text_words, words};

/// Most bytes of `argv`, and of `env`: each is an argument list of execve(2).
pub const MAX_TEXT: usize = 128 << 10;
/// Most bytes of each stream that are kept.
pub const KEPT_OUTPUT: usize = 1 << 20;
/// Most open files of a session: each may need a descriptor, and holds up the program.
pub const MAX_OPEN: usize = 64;
/// Most bytes of the texts `state` and `id`.
pub const MAX_LABEL: usize = 4 << 10;

/// A standard stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its input.
    Input,
    /// Its output.
    Output,
    /// Its error output.
    Error,
}

impl Stream {
    /// That with a name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"stdin" => Some(Self::Input),
            b"stdout" => Some(Self::Output),
            b"stderr" => Some(Self::Error),
            _ => None,
        }
    }
}

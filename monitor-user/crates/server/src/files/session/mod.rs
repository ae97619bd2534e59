//! Sessions as files: which users may open one, and the files of each.
//!
//! In: the user of an attach, reads and writes. Out: what the crate `control` knows of the session.
//! What a session is, and what its program gets, is decided there; here are its pipes and its
//! socket, as tasks of the listener, and its files.

mod command;
mod control_file;
mod control_lines;
pub mod copy;
mod events;
mod input;
mod job_host;
mod live;
mod open_file;
mod session_file;
mod slot;
mod table;
mod task;
pub mod tree;

pub use control_lines::ControlLines;
pub use live::LiveSession;
pub use open_file::{OpenSessionFile, SessionContent};
pub use session_file::SessionFile;
pub use table::{SessionPolicy, SessionTable};

use monitor_control::session::{Refusal, SessionError};
use monitor_ninep::{Errno, FileError};

/// A refusal, as the text that Linux knows.
pub fn file_error(error: SessionError) -> FileError {
    let errno = match error.refusal {
        Refusal::Invalid => Errno::Invalid,
        Refusal::NotPermitted => Errno::NotPermitted,
        Refusal::Denied => Errno::Denied,
        Refusal::Busy => Errno::Busy,
        Refusal::NoProcess => Errno::NoProcess,
        Refusal::TryAgain => Errno::TryAgain,
        Refusal::TooLarge => Errno::TooLarge,
        Refusal::Closed => Errno::BrokenPipe,
        Refusal::Incomplete | Refusal::Io => Errno::Io,
        Refusal::Kernel(number) => Errno::from_number(number),
    };
    FileError::new(errno, error.why)
}

//! What a user worker is for, and the limits that follow.

use super::frame::Inbox;
use std::time::Duration;

/// The longest request takes 7 s (call stacks of ranks); a user worker that has not replied to
/// anything for this long is replaced.
pub const MAX_REPLY_TIME: Duration = Duration::from_secs(10);
/// The same for one that reads files: less than a service has for its reply.
const MAX_READ_TIME: Duration = Duration::from_secs(8);
/// Most bytes of a message of one that reads files: a message queue with its contents.
const MAX_READER_FRAME: usize = 8 << 20;

/// What a user worker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerRole {
    /// It acts on processes.
    Actor,
    /// It reads files that its user names, within limits, and holds nothing.
    Reader,
    /// It starts the program of a session, and ends it.
    Launcher,
}

impl WorkerRole {
    /// Time after which one that has replied to nothing is replaced.
    pub const fn reply_time(self) -> Duration {
        match self {
            Self::Actor | Self::Launcher => MAX_REPLY_TIME,
            Self::Reader => MAX_READ_TIME,
        }
    }

    /// Where its messages arrive.
    pub fn inbox(self) -> Inbox {
        match self {
            Self::Actor | Self::Launcher => Inbox::default(),
            Self::Reader => Inbox::with_limit(MAX_READER_FRAME),
        }
    }
}

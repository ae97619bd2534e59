//! The node that a process comes to.
//!
//! In: a state and what has happened. Out: the next state, and what is to be done once it is
//! written down.

use super::TargetReply;
use serde::{Deserialize, Serialize};

/// What the target has written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetState {
    /// Nothing of this migration.
    Unknown,
    /// The images are verified, and CRIU restores them: the copy comes stopped.
    Restoring,
    /// The copy is there, stopped.
    Restored,
    /// The commit was executed: the copy runs.
    Running,
    /// There is no copy, and never will be one.
    Dropped,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetInput {
    /// All images are there, with their size and SHA-256.
    Received,
    /// CRIU has restored the process, stopped.
    Restored,
    /// CRIU, or a limit, has failed.
    Failed,
    /// The commit, from the order.
    Commit,
    /// The abort, from the order.
    Abort,
    /// The service was started.
    Started,
}

/// What is to be done. Each may be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetEffect {
    /// Restore the process, stopped.
    Restore,
    /// Resume the copy.
    Resume,
    /// Kill the copy and what restores it, and remove the images.
    Drop,
    /// Say this to the source.
    Reply(TargetReply),
}

impl TargetState {
    /// The next state, and its effects; `None` if nothing changes.
    pub const fn next(self, input: TargetInput) -> Option<(Self, &'static [TargetEffect])> {
        use TargetEffect as Effect;
        use TargetInput as Input;
        const RESTORED: TargetEffect = Effect::Reply(TargetReply::Restored);
        const RUNNING: TargetEffect = Effect::Reply(TargetReply::Running);
        const DROPPED: TargetEffect = Effect::Reply(TargetReply::Dropped);
        Some(match (self, input) {
            (Self::Unknown, Input::Received) => (Self::Restoring, &[Effect::Restore]),
            (Self::Restoring, Input::Restored) => (Self::Restored, &[RESTORED]),
            // What CRIU has made when the service was killed is not known.
            (Self::Restoring, Input::Failed | Input::Started | Input::Abort | Input::Commit)
            | (Self::Restored, Input::Abort)
            // A later commit, or images that come late, find this state.
            | (Self::Unknown, Input::Abort | Input::Commit)
            | (Self::Dropped, Input::Received | Input::Commit | Input::Abort | Input::Started) => {
                (Self::Dropped, &[Effect::Drop, DROPPED])
            }
            (Self::Restored, Input::Commit)
            | (Self::Running, Input::Commit | Input::Abort | Input::Started) => {
                (Self::Running, &[Effect::Resume, RUNNING])
            }
            (Self::Restored, Input::Started) => (Self::Restored, &[RESTORED]),
            _ => return None,
        })
    }
}

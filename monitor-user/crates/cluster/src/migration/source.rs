//! The node that a process leaves.
//!
//! In: a state and what has happened. Out: the next state, and what is to be done once it is
//! written down.

use super::TargetReply;
use serde::{Deserialize, Serialize};

/// What the source has written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// CRIU dumps the process, which is frozen. Nothing has left this node.
    Dumping,
    /// The target may have images and a stopped copy. No commit was sent.
    Sent,
    /// A commit may be in the order: the outcome is not known until the target says it.
    Deciding,
    /// No commit will be sent any more, and none was.
    Aborting,
    /// The copy of the target runs, or ran.
    Committed,
    /// The process is here alone.
    Aborted,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceInput {
    /// The dump is complete.
    Dumped,
    /// Something has failed, or the user has given up.
    Failed,
    /// The target has said this.
    Replied(TargetReply),
    /// It is surely not executed: the commit has expired, or was refused.
    NotExecuted,
    /// It is time to ask again.
    Retry,
    /// The service was started.
    Started,
}

/// What is to be done. Each may be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceEffect {
    /// Send the images, and let the target restore them.
    SendImages,
    /// Send the commit into the order.
    SendCommit,
    /// Send the abort into the order: a target that has not executed a commit drops its copy.
    SendAbort,
    /// Resume the frozen process.
    Resume,
    /// Kill the frozen process.
    Kill,
}

impl SourceState {
    /// The next state, and its effects; `None` if nothing changes.
    pub const fn next(self, input: SourceInput) -> Option<(Self, &'static [SourceEffect])> {
        use SourceEffect as Effect;
        use SourceInput as Input;
        use TargetReply as Reply;
        Some(match (self, input) {
            (Self::Dumping, Input::Dumped) => (Self::Sent, &[Effect::SendImages]),
            // Nothing has left, so nothing runs elsewhere.
            (Self::Dumping, Input::Failed | Input::Started) => (Self::Aborted, &[Effect::Resume]),
            (Self::Sent, Input::Replied(Reply::Restored)) => {
                (Self::Deciding, &[Effect::SendCommit])
            }
            // Without a commit the target never resumes its copy.
            (Self::Sent, Input::Failed | Input::Started | Input::Replied(Reply::Dropped)) => {
                (Self::Aborting, &[Effect::Resume, Effect::SendAbort])
            }
            (Self::Deciding, Input::Replied(Reply::Running)) => (Self::Committed, &[Effect::Kill]),
            (Self::Deciding, Input::Replied(Reply::Dropped)) => (Self::Aborted, &[Effect::Resume]),
            // One commit is sent once, so this one has no copy on its way.
            (Self::Deciding, Input::NotExecuted) => {
                (Self::Aborting, &[Effect::Resume, Effect::SendAbort])
            }
            // Whether the commit is in the order is not known: the target decides.
            (Self::Deciding, Input::Failed | Input::Started | Input::Retry) => {
                (Self::Deciding, &[Effect::SendAbort])
            }
            (Self::Aborting, Input::Replied(Reply::Dropped)) => (Self::Aborted, &[]),
            (Self::Aborting, Input::Started | Input::Retry) => {
                (Self::Aborting, &[Effect::Resume, Effect::SendAbort])
            }
            (Self::Committed, Input::Started) => (Self::Committed, &[Effect::Kill]),
            (Self::Aborted, Input::Started) => (Self::Aborted, &[Effect::Resume]),
            _ => return None,
        })
    }
}

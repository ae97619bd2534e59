//! Who holds a thread or process, why, and for how long at most.

use super::act::Mark;
use std::time::Duration;

/// How long an event may hold somebody before he is let go and that is told.
pub const HELD_AT_MOST: Duration = Duration::from_secs(2);

/// Why a tool holds somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It stopped it.
    Stop,
    /// What was called so happened.
    Event(Mark),
}

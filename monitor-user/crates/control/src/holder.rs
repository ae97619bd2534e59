//! Who holds a thread or process, why, and for how long at most.

use super::act::Mark;
use monitor_event::thread::Target;
use std::time::Duration;

/// How long an event may hold somebody before he is let go and that is told.
pub const HELD_AT_MOST: Duration = Duration::from_secs(2);

/// Why a tool holds somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It stopped it.
    Stop,
    /// What was called so happened to the thread that is held.
    Event(Mark),
    /// A thread of the process that is held met what was called so. Several may before all stand
    /// still, and it stands until the last of them is let go.
    Met(Mark, Target),
}

//! Why a tool holds a process or thread, and for how long an event may hold it.

use super::RequestTag;
use monitor_event::Target;
use std::time::Duration;

/// How long an event may hold a target; then it is released and `HoldExpired` is reported.
pub const MAX_EVENT_HOLD: Duration = Duration::from_secs(2);

/// Why a tool holds a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopReason {
    /// The tool requested the stop.
    Requested,
    /// The event with this tag occurred in the held thread.
    ThreadEvent(RequestTag),
    /// The event with this tag occurred in this thread, and the whole process is held for it.
    /// Several threads may reach the event before all are stopped; the last release resumes the
    /// process.
    ProcessEvent(RequestTag, Target),
}

//! Quantities and identities that must not be confused with bare numbers.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A span of time, or a point on a clock that the name of the variable tells.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub struct Ns(pub u64);

impl Ns {
    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span since `earlier`, zero if the clock did not advance.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Ns {
    /// The longest span that there is, if it is longer than 584 years.
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Process id in the initial pid namespace.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub struct Pid(pub u32);

/// A process or a thread, for ever: an id is reused, the pair with its start is not.
///
/// The order is that of the kernel's task list, so that two samples can be merged.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub struct Identity {
    /// The process id, or the thread id of a thread's row.
    pub pid: Pid,
    /// When it started, on `CLOCK_BOOTTIME`, as precisely as the backend knows.
    pub start: Ns,
}

/// What `/proc` rounds start times to; two backends may tell one start differently by as much.
const TICK: Ns = Ns(10_000_000);

/// Whether two backends mean the same process.
pub fn is_same(one: Identity, other: Identity) -> bool {
    one.pid == other.pid && one.start.0.abs_diff(other.start.0) <= TICK.0
}

//! Quantities and identities as types of their own, so that they are not confused with bare
//! integers.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

/// A span of time, or a point on the clock that the variable is named after, in nanoseconds.
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
    /// Saturates at `u64::MAX` nanoseconds (584 years).
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Process id in the initial pid namespace.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub struct Pid(pub u32);

/// A unique identity of a process or thread: the id is reused, id and start time together are not.
///
/// Ordered as the kernel lists tasks, so that two samples can be merged.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub struct Identity {
    /// The process id, or the thread id of a thread's row.
    pub pid: Pid,
    /// Start time on `CLOCK_BOOTTIME`, as precise as the backend knows it.
    pub start: Ns,
}

/// Granularity of start times in `/proc`: two backends may differ by this much for one process.
const TICK: Ns = Ns(10_000_000);

/// Whether two identities from different backends are the same process.
pub fn is_same(one: Identity, other: Identity) -> bool {
    one.pid == other.pid && one.start.0.abs_diff(other.start.0) <= TICK.0
}

/// Whether a process is in a set, also as another backend knows it.
pub fn is_among(these: &BTreeSet<Identity>, id: Identity) -> bool {
    these.contains(&id) || these.range(of_pid(id.pid)).any(|it| is_same(*it, id))
}

/// All identities with a pid, for a look-up in a sorted set or map.
pub fn of_pid(pid: Pid) -> RangeInclusive<Identity> {
    let at = |start| Identity { pid, start: Ns(start) };
    at(0)..=at(u64::MAX)
}

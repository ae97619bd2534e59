//! What the larger things hold that lists count in: levels, spreads, traces.

use monitor_model::id::Ns;

/// What lists have done to a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// What it is now, whoever has changed it.
    pub level: i64,
    /// How often lists have changed it.
    pub count: u64,
    /// By how much together.
    pub changed: i64,
    /// Each change times its moment on `CLOCK_BOOTTIME`, together.
    pub moments: i128,
}

impl Area {
    /// The area below what lists have changed until then, in units of the level times nanoseconds.
    pub fn until(&self, at: Ns) -> i128 {
        i128::from(at.0) * i128::from(self.changed) - self.moments
    }
}

/// Numbers by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// What they add up to.
    pub sum: i64,
    /// The smallest.
    pub least: Option<i64>,
    /// The largest.
    pub most: Option<i64>,
    /// How many more were negative, and are counted nowhere else.
    pub n_refused: u64,
    /// The largest number of each size that there is, and how many have the size.
    pub sizes: Vec<(u64, u64)>,
}

/// Records of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// How many there were until the last of these; what follows it is told the next time.
    pub n_made: u64,
    /// How many of them were overwritten before anybody looked.
    pub n_lost: u64,
    /// The others, in order.
    pub records: Vec<Record>,
}

/// A record of a trace: when it was made on `CLOCK_BOOTTIME`, and its values.
pub type Record = (Ns, Vec<i64>);

//! Groups of processes by a common property: job, user, command name, cgroup or container.
//!
//! Pure data; `monitor_sampling::group` adds processes up.

use super::{Category, GroupRow, Latencies, ProcessField, ProcessRow, Role, UnknownName, name};
use std::sync::Arc;

/// The property that the processes of a group have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupBy {
    /// The job they belong to.
    #[default]
    Job,
    /// Their real user.
    User,
    /// Their command name.
    Comm,
    /// Their cgroup.
    Cgroup,
    /// Their container, from the path of their cgroup.
    Container,
    /// The first configured rule that they match; it cannot be requested by name.
    Rule,
}

impl GroupBy {
    /// Names that can be requested, in the order of the enum.
    pub const NAMES: [&str; 5] = ["job", "user", "comm", "cgroup", "container"];

    /// Name in `--group-by` and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            asked => Self::NAMES[asked as usize],
        }
    }

    /// The field that determines the group of a process.
    pub const fn field(self) -> ProcessField {
        match self {
            Self::Job => ProcessField::Job,
            Self::User => ProcessField::User,
            Self::Comm | Self::Rule => ProcessField::Comm,
            Self::Cgroup | Self::Container => ProcessField::Cgroup,
        }
    }
}

impl std::str::FromStr for GroupBy {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        const ALL: [GroupBy; 5] =
            [GroupBy::Job, GroupBy::User, GroupBy::Comm, GroupBy::Cgroup, GroupBy::Container];
        Ok(ALL[name::position("group", Self::NAMES.into_iter(), text)?])
    }
}

/// Name of the group of processes without the property. No job, user, command or cgroup has it.
pub const NONE: &str = "(none)";
/// Name of the group of processes beyond the maximum number of groups.
pub const OTHER: &str = "(other)";

/// A group of processes and what they used, ended ones included.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// What the groups are formed by.
    pub by: GroupBy,
    /// Name of the group, [`NONE`] or [`OTHER`].
    pub name: Arc<str>,
    /// Number of processes, and since when.
    pub head: GroupRow,
    /// Sums of counters, sums of gauges of live processes where meaningful, and rates.
    pub row: ProcessRow,
    /// Latencies of their block requests and waits for a CPU, where counted.
    pub latencies: Latencies,
}

/// The groups of a sample.
#[derive(Clone, Debug, Default)]
pub struct Grouped {
    /// What the groups are formed by.
    pub by: GroupBy,
    /// Groups, in display order.
    pub groups: Vec<Group>,
    /// Groups reported for the last time: their last process ended long enough ago.
    pub finished: Vec<Group>,
}

/// Gauges that are summed. Shared memory counts once per process, except in `pss_bytes`.
pub const SUMMED_GAUGES: [ProcessField; 9] = [
    ProcessField::Threads,
    ProcessField::Rss,
    ProcessField::RssAnon,
    ProcessField::RssFile,
    ProcessField::RssShmem,
    ProcessField::Swap,
    ProcessField::Pss,
    ProcessField::Vsize,
    ProcessField::TcpSockets,
];

/// The gauge of which a group has the maximum.
pub const MAX_GAUGE: ProcessField = ProcessField::PeakRss;

/// How the value of a group is computed from those of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Sum over all processes, including ended ones.
    Total,
    /// Sum over live processes.
    Now,
    /// Maximum over all processes, including ended ones.
    Largest,
    /// Rate of a total.
    Rate,
}

/// How a field of a group is computed; none for fields that only apply to a single process.
pub fn aggregation(field: ProcessField) -> Option<Aggregation> {
    match field.field().role {
        Role::Counter => Some(Aggregation::Total),
        Role::RateOf(_) => Some(Aggregation::Rate),
        Role::Gauge if field == MAX_GAUGE => Some(Aggregation::Largest),
        Role::Gauge if SUMMED_GAUGES.contains(&field) => Some(Aggregation::Now),
        Role::Gauge | Role::Label => None,
    }
}

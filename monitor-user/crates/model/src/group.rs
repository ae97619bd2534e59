//! Processes by what they have in common: a job, a user, a command name, a cgroup.
//!
//! Pure data. How processes are added up stands in `meter/group`.

use super::field::ProcessField;
use super::field::group::GroupRow;
use super::field::process::ProcessRow;
use super::field::{Category, Role};
use super::histogram::Latencies;
use super::name::{self, Unknown};
use std::sync::Arc;

/// What the processes of a group have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// The job they belong to.
    #[default]
    Job,
    /// Their real user.
    User,
    /// Their command name.
    Comm,
    /// Their cgroup.
    Cgroup,
    /// Their container, as the path of their cgroup tells it.
    Container,
    /// The first rule that they fit. Nobody asks for it by name: rules are configured.
    Rule,
}

impl By {
    /// The names that one can ask for, in the order of the enum.
    pub const NAMES: [&str; 5] = ["job", "user", "comm", "cgroup", "container"];

    /// Its name in `--group-by` and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            asked => Self::NAMES[asked as usize],
        }
    }

    /// The field that tells the group of a process.
    pub const fn field(self) -> ProcessField {
        match self {
            Self::Job => ProcessField::Job,
            Self::User => ProcessField::User,
            Self::Comm | Self::Rule => ProcessField::Comm,
            Self::Cgroup | Self::Container => ProcessField::Cgroup,
        }
    }
}

impl std::str::FromStr for By {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        const ALL: [By; 5] = [By::Job, By::User, By::Comm, By::Cgroup, By::Container];
        Ok(ALL[name::position("group", Self::NAMES.into_iter(), text)?])
    }
}

/// Those without what the groups are made by. No job, user, command or cgroup is called so.
pub const NONE: &str = "(none)";
/// Those for whose group there was no room.
pub const OTHER: &str = "(other)";

/// A group of processes and what they used, ended ones included.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// What they have in common.
    pub by: By,
    /// Which one: its name, [`NONE`] or [`OTHER`].
    pub name: Arc<str>,
    /// How many, and since when.
    pub head: GroupRow,
    /// Counters added up, gauges of the living where a sum makes sense, and rates.
    pub row: ProcessRow,
    /// How long the block requests of all of them took and how long they waited for a processor,
    /// where that was counted.
    pub latencies: Latencies,
}

/// The groups of a sample.
#[derive(Clone, Debug, Default)]
pub struct Grouped {
    /// What they are made by.
    pub by: By,
    /// In the order in which they are shown.
    pub groups: Vec<Group>,
    /// Those that are told for the last time: their last process ended long enough ago.
    pub finished: Vec<Group>,
}

/// Gauges that add up. Memory that processes share counts once for each, but for `pss_bytes`.
pub const ADDED: [ProcessField; 9] = [
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

/// The gauge of which the largest is told.
pub const LARGEST: ProcessField = ProcessField::PeakRss;

/// How the values of processes make that of their group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// All that was ever used.
    Total,
    /// What the living have now.
    Now,
    /// The largest of any one, ended ones included.
    Largest,
    /// The growth of a total.
    Rate,
}

/// How a field is made of those of the processes; absent for what makes no sense of many.
pub fn sum(field: ProcessField) -> Option<Sum> {
    match field.field().role {
        Role::Counter => Some(Sum::Total),
        Role::RateOf(_) => Some(Sum::Rate),
        Role::Gauge if field == LARGEST => Some(Sum::Largest),
        Role::Gauge if ADDED.contains(&field) => Some(Sum::Now),
        Role::Gauge | Role::Label => None,
    }
}

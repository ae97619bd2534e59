//! What of a cluster is shown: which list, in which order, which job; of recordings, how fast.
//!
//! In: nothing. Out: the choices of the user as data, for the rows and for the state.

use std::time::Duration;

/// A list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterList {
    /// Nodes.
    #[default]
    Nodes,
    /// Jobs, or the nodes of the open one.
    Jobs,
    /// Users.
    Users,
}

impl ClusterList {
    /// All lists, in their order on the screen.
    pub const ALL: [Self; 3] = [Self::Nodes, Self::Jobs, Self::Users];
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterOrder {
    /// By name.
    #[default]
    Name,
    /// Most CPU use first.
    Cpu,
    /// Most memory first.
    Memory,
    /// Most processes first.
    Processes,
}

impl ClusterOrder {
    /// The next one.
    pub const fn next(self) -> Self {
        match self {
            Self::Name => Self::Cpu,
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Processes,
            Self::Processes => Self::Name,
        }
    }

    /// Its name on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Processes => "processes",
        }
    }
}

/// How recordings are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaybackSpeed {
    /// Time between two roll-ups.
    pub every: Duration,
    /// Whether they stand still.
    pub is_frozen: bool,
}

/// A job: its name and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenJob {
    /// Its name.
    pub name: String,
    /// Its user.
    pub uid: Option<u32>,
}

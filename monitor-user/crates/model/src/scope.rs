//! Which part of a node is asked for: its categories, and which of them go together.

use super::name::{self, Unknown};

/// A part of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Processes.
    #[default]
    Processes,
    /// The node, with its processors, disks and interfaces.
    Node,
    /// Disks.
    Disks,
    /// Interfaces.
    Nets,
    /// Processes and the node.
    All,
}

impl Scope {
    /// Their names, in the order of the enum.
    pub const NAMES: [&str; 5] = ["proc", "node", "disk", "net", "all"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether processes are part of it.
    pub const fn processes(self) -> bool {
        matches!(self, Self::Processes | Self::All)
    }

    /// Whether the node's own numbers are part of it.
    pub const fn node(self) -> bool {
        matches!(self, Self::Node | Self::All)
    }

    /// Whether disks are part of it.
    pub const fn disks(self) -> bool {
        matches!(self, Self::Node | Self::Disks | Self::All)
    }

    /// Whether interfaces are part of it.
    pub const fn nets(self) -> bool {
        matches!(self, Self::Node | Self::Nets | Self::All)
    }
}

impl std::str::FromStr for Scope {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        const ALL: [Scope; 5] =
            [Scope::Processes, Scope::Node, Scope::Disks, Scope::Nets, Scope::All];
        Ok(ALL[name::position("part", Self::NAMES.into_iter(), text)?])
    }
}

//! The part of a node that is requested, and the categories that belong to it.

use super::{UnknownName, name};

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
    /// Names, in the order of the enum.
    pub const NAMES: [&str; 5] = ["proc", "node", "disk", "net", "all"];

    /// Name of the scope.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether it includes processes.
    pub const fn processes(self) -> bool {
        matches!(self, Self::Processes | Self::All)
    }

    /// Whether it includes the node's own fields.
    pub const fn node(self) -> bool {
        matches!(self, Self::Node | Self::All)
    }

    /// Whether it includes disks.
    pub const fn disks(self) -> bool {
        matches!(self, Self::Node | Self::Disks | Self::All)
    }

    /// Whether it includes interfaces.
    pub const fn nets(self) -> bool {
        matches!(self, Self::Node | Self::Nets | Self::All)
    }
}

impl std::str::FromStr for Scope {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        const ALL: [Scope; 5] =
            [Scope::Processes, Scope::Node, Scope::Disks, Scope::Nets, Scope::All];
        Ok(ALL[name::position("part", Self::NAMES.into_iter(), text)?])
    }
}

//! What a run is like: how large, and what fails in it.

/// One of two that no promise covers together: a command that was executed before a node was
/// rebooted is not in its ledger, should the server lose its entry and get a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Failures {
    /// Nodes are rebooted.
    Reboots,
    /// The server loses entries.
    LossOfEntries,
}

/// How large a run is.
#[derive(Clone, Copy)]
pub struct Size {
    pub n_nodes: u64,
    /// Number of commands, at least, and of random steps.
    pub n_commands: u64,
}

/// As large as a test.
pub const SMALL: Size = Size { n_nodes: 12, n_commands: 100 };

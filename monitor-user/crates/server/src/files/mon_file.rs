//! The names of the files in `mon/`, of the node and of a session, that wait for what happens.

/// Which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonFile {
    /// The next events, once for each open.
    Event,
    /// The events that are kept, and those that follow.
    Log,
    /// Samples as they are made.
    Push,
}

impl MonFile {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Log => "log",
            Self::Push => "push",
        }
    }

    /// Its permission bits, where all users may read.
    pub const fn permissions(self) -> u32 {
        match self {
            Self::Event | Self::Log => 0o444,
            // A filter is of the open that it is written to.
            Self::Push => 0o666,
        }
    }
}

//! Health of the data plane as data: for `doctor`, metrics and the terminal UI.

use super::Capability;

/// How one capability is provided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// By its best implementation.
    Active,
    /// By another implementation, as exact or less exact.
    Fallback {
        /// Why the best implementation is not used.
        why: String,
        /// Whether the values are as exact.
        exact: bool,
    },
    /// Not available on this host.
    Unsupported {
        /// What is missing.
        why: String,
        /// What would make it work.
        fix: String,
    },
    /// It should work but failed.
    Failed {
        /// The error.
        error: String,
    },
    /// Not requested.
    Off,
}

/// State and cost of one capability.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The capability.
    pub capability: Capability,
    /// How it is provided.
    pub health: Health,
    /// The capability provided by the same programs, whose numbers count for both.
    pub with: Option<Capability>,
    /// The hooks in use, such as `tp_btf/sched_process_free`, or the files read instead.
    pub hooks: Vec<String>,
    /// Events seen since it was attached; absent if its programs count none.
    pub events: Option<u64>,
    /// Run time for each event, if known.
    pub cost: Option<Cost>,
    /// Records lost since it was attached.
    pub lost: u64,
    /// Bytes of BPF maps.
    pub map_bytes: u64,
}

/// Run time of BPF programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Nanoseconds for each event.
    pub ns_per_event: f64,
    /// Whether it is the calibrated cost of such a hook, not measured by the kernel.
    pub estimated: bool,
}

impl Probe {
    /// A capability that is not requested.
    pub const fn off(capability: Capability) -> Self {
        Self {
            capability,
            health: Health::Off,
            with: None,
            hooks: Vec::new(),
            events: None,
            cost: None,
            lost: 0,
            map_bytes: 0,
        }
    }

    /// The same state without its numbers.
    pub fn without_numbers(self) -> Self {
        let Self { capability, health, hooks, .. } = self;
        Self { health, hooks, ..Self::off(capability) }
    }

    /// Whether a requested capability is not provided exactly.
    pub const fn degraded(&self) -> bool {
        matches!(
            self.health,
            Health::Unsupported { .. }
                | Health::Failed { .. }
                | Health::Fallback { exact: false, .. }
        )
    }
}

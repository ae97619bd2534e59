//! Health of the data plane as data: for `doctor`, for metrics, for a corner of the screen.

use super::want::Capability;

/// How one capability is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// By the best way there is on this kernel.
    Active,
    /// By another way, that is as exact or less exact as its text says.
    Fallback {
        /// Why not the best way.
        why: String,
        /// Whether the numbers are as good.
        exact: bool,
    },
    /// This host cannot.
    Unsupported {
        /// What is missing.
        why: String,
        /// What would make it work.
        fix: String,
    },
    /// It should work and did not.
    Failed {
        /// The error.
        error: String,
    },
    /// Nobody asked for it.
    Off,
}

/// One capability and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Which.
    pub capability: Capability,
    /// How it is served.
    pub health: Health,
    /// The capability that is served by the same programs, and whose numbers are for both.
    pub with: Option<Capability>,
    /// The hooks in use, such as `tp_btf/sched_process_free`, or the files read instead.
    pub hooks: Vec<String>,
    /// Events seen since it was attached.
    pub events: u64,
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
    /// Measured by the kernel, or the calibrated cost of such a hook.
    pub estimated: bool,
}

impl Probe {
    /// A capability that nobody asked for.
    pub const fn off(capability: Capability) -> Self {
        Self {
            capability,
            health: Health::Off,
            with: None,
            hooks: Vec::new(),
            events: 0,
            cost: None,
            lost: 0,
            map_bytes: 0,
        }
    }

    /// The same without what is counted for it.
    pub fn without_numbers(self) -> Self {
        let Self { capability, health, hooks, .. } = self;
        Self { health, hooks, ..Self::off(capability) }
    }

    /// Whether something asked for is not served as well as it could be.
    pub const fn degraded(&self) -> bool {
        matches!(
            self.health,
            Health::Unsupported { .. }
                | Health::Failed { .. }
                | Health::Fallback { exact: false, .. }
        )
    }
}

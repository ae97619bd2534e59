//! Who calls, and how much he may ask for at once.

use monitor_model::status::Refusal;
use monitor_protocol::Conn;
use monitor_sampling::veil::Veil;

/// Who is at the other end of a connection; the kernel says so (`SO_PEERCRED` of unix(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// His connection.
    pub conn: Conn,
    /// His user.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// His process.
    pub pid: u32,
    /// What he may see.
    pub veil: Veil,
}

impl Caller {
    /// Whether nothing is kept from him.
    pub const fn root(&self) -> bool {
        self.uid == 0
    }
}

/// What one user may have at once, and how often. A refusal names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Monitors.
    pub monitors: usize,
    /// Nanoseconds from one sample to the next, at least.
    pub period_ns: u64,
    /// The same where page tables must be walked (`pss_bytes`).
    pub costly_period_ns: u64,
    /// Samples of all his monitors in a second.
    pub samples_per_second: u64,
    /// Longest lease.
    pub lease_ns: u64,
    /// Monitors that add processes up: each keeps books of all of them.
    pub groups: usize,
    /// Registrations of ranks that wait.
    pub registrations: usize,
    /// Events that a monitor keeps while nobody listens.
    pub kept_events: usize,
    /// The only user whose files can be watched, if the service may not act as others.
    pub files_of: Option<u32>,
}

impl Limits {
    /// Whether somebody may be looked after so often.
    pub fn slowest(&self, every_ns: u64) -> Result<(), Refusal> {
        pace(every_ns, self.period_ns, "period")
    }

    /// The same, where page tables must be walked.
    pub fn slowest_costly(&self, every_ns: u64) -> Result<(), Refusal> {
        pace(every_ns, self.costly_period_ns, "costly_period")
    }
}

fn pace(every_ns: u64, least: u64, name: &str) -> Result<(), Refusal> {
    if every_ns >= least {
        return Ok(());
    }
    let ms = least / 1_000_000;
    Err(Refusal::limit(format!("every_ns: the shortest is {ms} ms, the limit {name:?}")))
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            monitors: 2048,
            period_ns: 10_000_000,
            costly_period_ns: 100_000_000,
            samples_per_second: 20_000,
            lease_ns: 7 * 24 * 3600 * 1_000_000_000,
            groups: 16,
            registrations: 4096,
            kept_events: 1024,
            files_of: None,
        }
    }
}

//! The client of a connection, and the limits per user.

use monitor_model::Refusal;
use monitor_protocol::{Conn, call::Tag};
use monitor_sampling::visibility::Visibility;

/// The client of a connection, from `SO_PEERCRED` of unix(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The connection.
    pub conn: Conn,
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The process id.
    pub pid: u32,
    /// The processes and fields that it may see.
    pub visibility: Visibility,
}

impl Caller {
    /// Whether it may list and cancel the monitors of this user.
    pub const fn may_manage(&self, uid: u32) -> bool {
        self.is_root() || self.uid == uid
    }

    /// Whether it is root.
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// The caller and the tag of its call.
pub type TaggedCaller<'a> = (&'a Caller, Option<Tag>);

/// Limits per user. A refusal names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimits {
    /// Maximum number of monitors.
    pub monitors: usize,
    /// Minimum interval between samples, in nanoseconds.
    pub period_ns: u64,
    /// The same for `pss_bytes`, which walks page tables.
    pub costly_period_ns: u64,
    /// Maximum samples per second of all monitors of a user.
    pub samples_per_second: u64,
    /// Maximum checks per second of all heartbeat and file watches of a user.
    pub checks_per_second: u64,
    /// Maximum lease, in nanoseconds.
    pub lease_ns: u64,
    /// Maximum number of monitors with groups: each one tracks all processes.
    pub groups: usize,
    /// Maximum number of pending registrations.
    pub registrations: usize,
    /// Maximum number of events that a detached monitor keeps.
    pub kept_events: usize,
    /// Maximum bytes that the monitors of a user keep: their calls, events while detached, and the
    /// counters of earlier readings for rates.
    pub kept_bytes: usize,
    /// The only user whose files can be watched, if the service cannot switch users.
    pub only_files_of: Option<u32>,
}

impl UserLimits {
    /// Checks an interval against `period_ns`.
    pub fn check_period(&self, every_ns: u64) -> Result<(), Refusal> {
        check_interval(every_ns, self.period_ns, "period")
    }

    /// Checks an interval against `costly_period_ns`.
    pub fn check_costly_period(&self, every_ns: u64) -> Result<(), Refusal> {
        check_interval(every_ns, self.costly_period_ns, "costly_period")
    }
}

fn check_interval(every_ns: u64, least: u64, name: &str) -> Result<(), Refusal> {
    if every_ns >= least {
        return Ok(());
    }
    let ms = least / 1_000_000;
    Err(Refusal::limit(format!("every_ns: the shortest is {ms} ms, the limit {name:?}")))
}

impl Default for UserLimits {
    fn default() -> Self {
        Self {
            monitors: 2048,
            period_ns: 10_000_000,
            costly_period_ns: 100_000_000,
            samples_per_second: 20_000,
            checks_per_second: 1000,
            lease_ns: 7 * 24 * 3600 * 1_000_000_000,
            groups: 16,
            registrations: 4096,
            kept_events: 1024,
            kept_bytes: 16 << 20,
            only_files_of: None,
        }
    }
}

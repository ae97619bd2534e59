//! Processes that migrate to other nodes: the calls `migrate_process`, `migration_step` and
//! `migrations`.
//!
//! In: JSON. Out: their parameters and results. A migration is known on both nodes by its id.

use serde::{Deserialize, Serialize};

/// Parameters of `migrate_process`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrateProcess {
    /// The process on this node.
    pub pid: u32,
    /// The node that it goes to.
    pub to: String,
    /// How long the copy may take to be ready, in nanoseconds; 120 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<u64>,
}

/// Where a process runs after `migrate_process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationOutcome {
    /// On the other node.
    Migrated,
    /// On this node, as before.
    Stayed,
    /// On neither: both copies are frozen until the other node says what it has decided.
    Unknown,
}

/// The result of `migrate_process`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigratedProcess {
    /// The migration.
    pub id: String,
    /// Where the process runs.
    pub outcome: MigrationOutcome,
    /// Why it has not migrated, or is not known to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How long it was frozen, in nanoseconds; absent while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_ns: Option<u64>,
    /// Bytes of its images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A step of a migration, for the node that the process comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationStepKind {
    /// Can a process with this pid be restored here?
    Check,
    /// Restore it from its images, frozen; says also whether that is done.
    Restore,
    /// Let the copy run, unless it was dropped.
    Commit,
    /// Drop the copy, unless it runs.
    Abort,
    /// The other node knows that the copy runs.
    Forget,
}

/// Parameters of `migration_step`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrationStep {
    /// The migration.
    pub id: String,
    /// What to do.
    pub step: MigrationStepKind,
    /// The process.
    pub pid: u32,
    /// Its name, as `comm` has it.
    pub name: String,
    /// The node that it leaves.
    pub from: String,
}

/// What has become of the copy of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    /// There was none yet.
    Absent,
    /// CRIU restores it.
    Restoring,
    /// It is there, frozen.
    Restored,
    /// It runs.
    Running,
    /// There is none, and never will be.
    Dropped,
}

/// The result of `migration_step`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationStepResult {
    /// The copy.
    pub copy: CopyState,
    /// Why it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// which end of a migration a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationEnd {
    /// The process leaves this node.
    Source,
    /// It comes to this node.
    Target,
}

/// A migration that a node knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMigration {
    /// The migration.
    pub id: String,
    /// The process, by its pid on both nodes.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Which end this node is.
    pub end: MigrationEnd,
    /// The other node.
    pub peer: String,
    /// What this node has written down last.
    pub state: String,
    /// Whether the copy of this node is frozen.
    pub frozen: bool,
    /// When it began, in nanoseconds since 1970.
    pub begun_unix_ns: u64,
    /// Why it has failed, or goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The result of `migrations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMigrations {
    /// By their beginning.
    pub migrations: Vec<ListedMigration>,
}

//! The calls `migrate_process`, `migration_step` and `migrations`.
//!
//! In: calls of root, of this node and of others. Out: where a process runs. A migration goes on
//! when its caller has gone.

use super::DaemonLoop;
use super::cluster_bridge::{alone, reply_later};
use crate::migrations::Migrations;
use monitor_model::{Refusal, Status};
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::migration::{MigrateProcess, MigrationStep};
use std::sync::Arc;

impl DaemonLoop {
    /// Answers `migrate_process` when it is known where the process runs.
    pub(super) fn migrate_process(&mut self, to: Conn, tag: Tag, params: MigrateProcess) {
        let (migrations, sender) = (self.of_root(to), self.file_sender(to));
        let Some(viewer) = self.clients.viewer(to) else { return };
        reply_later(viewer, tag, async move { migrations?.migrate(params, sender?).await });
    }

    /// Answers `migration_step`, of the node that a process leaves.
    pub(super) fn migration_step(&self, to: Conn, tag: Tag, step: MigrationStep) {
        let migrations = self.of_root(to);
        let Some(viewer) = self.clients.viewer(to) else { return };
        reply_later(viewer, tag, async move { migrations?.step(step).await });
    }

    /// Answers `migrations`.
    pub(super) fn list_migrations(&self, to: Conn, tag: Tag) {
        let migrations = self.of_root(to);
        let Some(viewer) = self.clients.viewer(to) else { return };
        reply_later(viewer, tag, async move { migrations?.list().await });
    }

    /// The migrations of this node, for a caller that is root.
    fn of_root(&self, to: Conn) -> Result<Arc<Migrations>, Refusal> {
        match self.clients.viewer(to).map(|it| it.uid) {
            Some(0) => Ok(Arc::clone(self.migrations.as_ref().ok_or_else(alone)?)),
            Some(uid) => {
                let why = format!(
                    "user {uid} migrates no processes: CRIU needs root, and opens the files of a \
                     process with the rights of root"
                );
                Err(Refusal::denied(why))
            }
            None => Err(Refusal::new(Status::NotAvailable, "the client has gone")),
        }
    }
}

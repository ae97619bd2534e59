//! The calls `members` and `gather`: a node alone has no members, and refuses to gather.

use super::DaemonLoop;
use super::cluster_bridge::reply_later;
use crate::cluster::{GatherCall, answered};
use monitor_model::{Refusal, Status};
use monitor_protocol::cluster::{Gather, Members};
use monitor_protocol::{Conn, call::Tag, reply};

impl DaemonLoop {
    /// Answers `members`.
    pub(super) fn members(&self, to: Conn, tag: Tag) {
        let Some(viewer) = self.clients.viewer(to) else { return };
        match self.cluster_bridge.members() {
            Some(members) => reply_later(viewer, tag, answered(members)),
            None => {
                let node = self.cluster_bridge.node().to_owned();
                let alone = Members { node, ..Members::default() };
                viewer.outbox.reply(reply::result_line(&tag, alone));
            }
        }
    }

    /// Answers `gather` when all nodes have replied, or their time is over.
    pub(super) fn gather(&self, to: Conn, tag: Tag, params: Gather) {
        let Some(viewer) = self.clients.viewer(to) else { return };
        match self.cluster_bridge.gather(GatherCall { uid: viewer.uid, params }) {
            Some(gathered) => reply_later(viewer, tag, async { answered(gathered).await? }),
            None => {
                let why = "this node is in no cluster: see cluster.servers in the configuration";
                let refusal = Refusal::new(Status::NotSupported, why);
                viewer.outbox.reply(reply::refusal_line(&tag, &refusal));
            }
        }
    }
}

//! The calls `members`, `gather` and `follow`: a node alone has no members, and refuses the others.

use super::DaemonLoop;
use super::cluster_bridge::reply_later;
use crate::cluster::{FollowCall, GatherCall, answered};
use monitor_model::{Refusal, Status};
use monitor_protocol::cluster::{Follow, Gather, Members};
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
            None => viewer.outbox.reply(reply::refusal_line(&tag, &alone())),
        }
    }

    /// Answers `follow` at once; notices of the nodes come after the answer.
    pub(super) fn follow(&mut self, to: Conn, tag: Tag, params: Follow) {
        let Some(viewer) = self.clients.viewer(to) else { return };
        let (conn, outbox, uid) = (to, viewer.outbox, viewer.uid);
        let call = FollowCall { conn, outbox, tag, uid, params };
        if let Err(call) = self.cluster_bridge.follow(call) {
            call.outbox.reply(reply::refusal_line(&call.tag, &alone()));
        }
    }
}

/// The refusal of a node alone.
fn alone() -> Refusal {
    let why = "this node is in no cluster: see cluster.servers in the configuration";
    Refusal::new(Status::NotSupported, why)
}

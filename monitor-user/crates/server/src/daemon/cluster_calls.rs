//! The calls `members`, `gather`, `follow` and `rollup`: a node alone has no members, and refuses
//! the others.

use super::DaemonLoop;
use super::cluster_bridge::{alone, reply_later};
use super::rule_listing::Viewer;
use crate::cluster::{FollowCall, GatherCall, LastRollup, RollupViewer, answered, rollup_for};
use monitor_model::{Ns, Refusal, Status};
use monitor_protocol::cluster::{ClusterSession, Follow, Gather, Members};
use monitor_protocol::rollup::{ClusterRollup, RollupQuery};
use monitor_protocol::{Conn, call::Tag, reply};
use monitor_sampling::visibility::Visibility;
use monitor_sys::users;
use std::time::Duration;
use tokio::time::timeout;

/// How long roll-ups are wanted after a call: a viewer calls once a second.
const WANTED: Ns = Ns(10_000_000_000);
/// How long the first roll-up is awaited.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

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

    /// Answers `cluster_session`: requests that follow are those of the cluster.
    pub(super) fn begin_cluster_session(&mut self, to: Conn, tag: &Tag) {
        let begun = self.cluster_bridge.requests().and_then(|(node, requests)| {
            self.clients.begin_cluster_session(to, node.0)?;
            self.cluster_bridge.begin_session(to, requests);
            Ok(ClusterSession { node: self.cluster_bridge.node().to_owned(), number: node.0 })
        });
        self.clients.reply(to, tag, begun);
    }

    /// Answers `rollup`; the first time when nodes had a second for their records.
    pub(super) fn rollup(&self, to: Conn, tag: Tag, query: RollupQuery) {
        let Some(viewer) = self.clients.viewer(to) else { return };
        match self.cluster_bridge.rollup(WANTED) {
            Some(last) => {
                let (visibility, uid) = (viewer.visibility, viewer.uid);
                reply_later(viewer, tag, part_of(last, (visibility, uid), query));
            }
            None => refuse_rollup(&viewer, &tag),
        }
    }
}

fn refuse_rollup(viewer: &Viewer, tag: &Tag) {
    let why = "this node is no gateway: set cluster.gateway in its configuration, or ask a node \
               that has it";
    let refusal = Refusal::new(Status::NotSupported, why);
    viewer.outbox.reply(reply::refusal_line(tag, &refusal));
}

/// The part of the last roll-up that a user sees.
async fn part_of(
    mut last: LastRollup,
    (visibility, uid): (Visibility, u32),
    query: RollupQuery,
) -> Result<ClusterRollup, Refusal> {
    let none = |why| Refusal::new(Status::NotAvailable, why);
    let first = timeout(FIRST_WITHIN, last.wait_for(Option::is_some)).await;
    let first = first.map_err(|_| none("there are no roll-ups: this node is not connected"))?;
    let rollup = first.map_err(|_| none("the daemon is stopping"))?.clone();
    let viewer = match visibility {
        Visibility::All => RollupViewer::All,
        // The lookup of a user may wait for a name service.
        _ => RollupViewer::User(uid, user_name(uid).await),
    };
    rollup.map(|it| rollup_for(&viewer, &query, &it)).ok_or_else(|| none("there are no roll-ups"))
}

async fn user_name(uid: u32) -> Option<String> {
    tokio::task::spawn_blocking(move || users::name(uid)).await.ok()?
}

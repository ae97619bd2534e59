//! The loop's end of the thread of the cluster, and replies that come from elsewhere than the loop.
//!
//! A node alone has no thread.

use super::request_thread::Viewer;
use super::settings::Settings;
use crate::cluster::{
    ClusterJob, ClusterSettings, ClusterThread, FollowCall, GatherCall, LastRollup,
};
use crate::http::DaemonRequest;
use monitor_model::{Ns, Refusal};
use monitor_protocol::cluster::{Gathered, Members};
use monitor_protocol::{Conn, call::Tag, reply};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io;
use tokio::sync::mpsc::Sender;
use tokio::sync::{oneshot, watch};

/// The loop's end of the thread.
pub struct ClusterBridge {
    /// The name of this node.
    node: String,
    thread: Option<ClusterThread>,
    /// Connections that follow nodes.
    following: BTreeSet<Conn>,
    /// The roll-up of the cluster, on a gateway.
    rollup: Option<LastRollup>,
}

impl ClusterBridge {
    /// Starts the thread, if a cluster is configured; `requests` opens connections in the daemon.
    pub fn open(settings: &mut Settings, requests: Sender<DaemonRequest>) -> io::Result<Self> {
        let config = settings.loaded.config.cluster.clone();
        let node = match config.node.as_str() {
            "" => settings.node.name.clone(),
            name => name.to_owned(),
        };
        if config.servers.is_empty() {
            return Ok(Self { node, thread: None, following: BTreeSet::new(), rollup: None });
        }
        let connector = settings.connector.take().ok_or_else(|| {
            let why = "cluster.servers: this program is built without the feature nats";
            io::Error::new(io::ErrorKind::Unsupported, why)
        })?;
        let (sender, receiver) = watch::channel(None);
        let rollup = config.gateway.then_some(receiver);
        let settings = ClusterSettings {
            rollup: config.gateway.then_some(sender),
            config,
            node: node.clone(),
            connector,
            requests,
        };
        let thread = Some(ClusterThread::start(settings)?);
        Ok(Self { node, thread, following: BTreeSet::new(), rollup })
    }

    /// The members as the thread knows them; `None` for a node alone.
    pub fn members(&self) -> Option<oneshot::Receiver<Members>> {
        let thread = self.thread.as_ref()?;
        let (answer, members) = oneshot::channel();
        thread.send(ClusterJob::Members(answer));
        Some(members)
    }

    /// Lets nodes execute a line; `None` for a node alone.
    pub fn gather(&self, call: GatherCall) -> Option<oneshot::Receiver<Result<Gathered, Refusal>>> {
        let thread = self.thread.as_ref()?;
        let (answer, gathered) = oneshot::channel();
        thread.send(ClusterJob::Gather(call, answer));
        Some(gathered)
    }

    /// Follows nodes for a tool.
    ///
    /// # Errors
    /// This node is alone; returns the call.
    pub fn follow(&mut self, call: FollowCall) -> Result<(), FollowCall> {
        let Some(thread) = &self.thread else { return Err(call) };
        self.following.insert(call.conn);
        thread.send(ClusterJob::Follow(call));
        Ok(())
    }

    /// Ends what a connection follows, because it is closed.
    pub fn closed(&mut self, conn: Conn) {
        if self.following.remove(&conn)
            && let Some(thread) = &self.thread
        {
            thread.send(ClusterJob::Unfollow(conn));
        }
    }

    /// The last roll-up of the cluster, which is wanted for this long from now on; `None` if this
    /// node is no gateway.
    pub fn rollup(&self, lasts: Ns) -> Option<LastRollup> {
        let rollup = self.rollup.clone()?;
        self.thread.as_ref()?.send(ClusterJob::WantRollups(lasts));
        Some(rollup)
    }

    /// Whether this node shows the whole cluster.
    pub const fn is_gateway(&self) -> bool {
        self.rollup.is_some()
    }

    /// The name of this node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Leaves the cluster.
    pub fn stop(&mut self) {
        self.thread = None;
    }
}

/// Replies to a call when the answer is there.
pub fn reply_later<T: Serialize>(
    viewer: Viewer,
    tag: Tag,
    answer: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) {
    drop(tokio::spawn(async move {
        let line = match answer.await {
            Ok(answer) => reply::result_line(&tag, answer),
            Err(refusal) => reply::refusal_line(&tag, &refusal),
        };
        viewer.outbox.reply(line);
    }));
}

//! What the thread is started with, and what it is given to do.

use super::connector::BusConnector;
use super::language::ClusterLanguage;
use crate::daemon::config::ClusterConfig;
use crate::http::DaemonRequest;
use crate::outbox::Outbox;
use monitor_cluster::message::Message;
use monitor_cluster::request::RequestOutput;
use monitor_model::{Ns, Refusal, Status};
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::cluster::{Follow, Gather, Gathered, Members};
use monitor_protocol::rollup::ClusterRollup;
use std::sync::Arc;
use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio::sync::{oneshot, watch};

/// What the thread is started with.
pub struct ClusterSettings {
    /// The configuration.
    pub config: ClusterConfig,
    /// The name of this node.
    pub node: String,
    /// Connects to the bus.
    pub connector: Box<dyn BusConnector>,
    /// Where connections inside the daemon are opened.
    pub requests: Sender<DaemonRequest>,
    /// The requests of the cluster, and what they have for other nodes.
    pub language: (ClusterLanguage, UnboundedReceiver<RequestOutput>),
    /// Where the roll-up of the cluster goes, on a gateway.
    pub rollup: Option<watch::Sender<Option<Arc<ClusterRollup>>>>,
}

/// A user of this node that lets nodes execute a line.
#[derive(Clone, Debug)]
pub struct GatherCall {
    /// The user.
    pub uid: u32,
    /// The nodes, the line and the time.
    pub params: Gather,
}

/// A tool of this node that follows what nodes send.
pub struct FollowCall {
    /// Its connection.
    pub conn: Conn,
    /// Where the reply and the notices go.
    pub outbox: Arc<Outbox>,
    /// The tag of the call.
    pub tag: Tag,
    /// The user.
    pub uid: u32,
    /// The nodes, the lines and the time.
    pub params: Follow,
}

/// A job of the thread.
pub enum ClusterJob {
    /// Let nodes execute a line.
    Gather(GatherCall, oneshot::Sender<Result<Gathered, Refusal>>),
    /// Let nodes execute lines, and send what they go on to send to the tool.
    Follow(FollowCall),
    /// A connection that followed nodes is closed.
    Unfollow(Conn),
    /// List the members.
    Members(oneshot::Sender<Members>),
    /// Send a message about a monitor to a node.
    Peer(String, Box<Message>),
    /// A viewer wants roll-ups for this long.
    WantRollups(Ns),
    /// Leave the cluster, and end.
    Stop,
}

/// Waits for the answer of the thread.
///
/// # Errors
/// The thread has ended.
pub async fn answered<T>(answer: oneshot::Receiver<T>) -> Result<T, Refusal> {
    let ended = |_| Refusal::new(Status::NotAvailable, "the daemon is stopping");
    answer.await.map_err(ended)
}

//! The loop's end of the thread of the cluster, and replies that come from elsewhere than the loop.
//!
//! A node alone has no thread.

use super::request_thread::{PlatformLinks, RequestThread};
use super::rule_listing::Viewer;
use super::settings::Settings;
use crate::cluster::{
    ClusterJob, ClusterJobs, ClusterLanguage, ClusterSettings, ClusterThread, FollowCall,
    GatherCall, LastRollup,
};
use crate::http::DaemonRequest;
use monitor_backend::Opener;
use monitor_cluster::message::Message;
use monitor_cluster::scope;
use monitor_model::{Ns, Refusal, Status};
use monitor_omis::Node;
use monitor_protocol::cluster::{Gathered, Members};
use monitor_protocol::{Conn, call::Tag, reply};
use monitor_services::context::ClusterMember;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::{Sender, unbounded_channel};
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
    /// The requests of the cluster.
    language: ClusterLanguage,
    /// Connections whose requests are those of the cluster.
    sessions: HashMap<Conn, Arc<RequestThread>>,
}

impl ClusterBridge {
    /// Starts the thread, if a cluster is configured; `requests` opens connections in the daemon,
    /// and requests of the cluster read processes with `platform`.
    pub fn open(
        settings: &mut Settings,
        platform: (Opener, PlatformLinks),
        requests: Sender<DaemonRequest>,
    ) -> io::Result<Self> {
        let config = settings.loaded.config.cluster.clone();
        let node = config.node_name(&settings.node.name).to_owned();
        let (outgoing, outputs) = unbounded_channel();
        let start = move |own, outgoing| RequestThread::start(own, platform.clone(), outgoing);
        let language = ClusterLanguage::new(&node, Box::new(start), outgoing);
        let mut bridge = Self {
            node: node.clone(),
            thread: None,
            following: BTreeSet::new(),
            rollup: None,
            language: language.clone(),
            sessions: HashMap::new(),
        };
        if config.servers.is_empty() {
            return Ok(bridge);
        }
        let connector = settings.connector.take().ok_or_else(|| {
            let why = "cluster.servers: this program is built without the feature nats";
            io::Error::new(io::ErrorKind::Unsupported, why)
        })?;
        let (sender, receiver) = watch::channel(None);
        bridge.rollup = config.gateway.then_some(receiver);
        let settings = ClusterSettings {
            rollup: config.gateway.then_some(sender),
            config,
            node,
            connector,
            requests,
            language: (language, outputs),
        };
        bridge.thread = Some(ClusterThread::start(settings)?);
        Ok(bridge)
    }

    /// The thread of requests of the cluster, and the number of this node in them.
    ///
    /// # Errors
    /// This node is alone, or no member.
    pub fn requests(&self) -> Result<(Node, Arc<RequestThread>), Refusal> {
        if self.thread.is_none() {
            return Err(alone());
        }
        self.language.requests()
    }

    /// The thread of requests of the cluster, if it runs.
    pub fn running_requests(&self) -> Option<Arc<RequestThread>> {
        self.language.running()
    }

    /// Notes that requests of a connection are those of the cluster.
    pub fn begin_session(&mut self, conn: Conn, requests: Arc<RequestThread>) {
        drop(self.sessions.insert(conn, requests));
    }

    /// The thread of a connection whose requests are those of the cluster.
    pub fn session(&self, conn: Conn) -> Option<&RequestThread> {
        self.sessions.get(&conn).map(AsRef::as_ref)
    }

    /// Forgets such a connection, and returns its thread.
    pub fn end_session(&mut self, conn: Conn) -> Option<Arc<RequestThread>> {
        self.sessions.remove(&conn)
    }

    /// A thread of requests that has no room for more.
    pub fn full_thread(&self) -> Option<&RequestThread> {
        self.sessions.values().map(AsRef::as_ref).find(|it| !it.has_room())
    }

    /// The number and the name of this node, and the other members; `None` for a node that is no
    /// member.
    pub fn nodes(&self) -> Option<((u32, String), Vec<scope::Node>)> {
        let own = self.language.number(&self.node)?;
        let others = self.language.members().into_iter().filter(|it| it.node != own);
        let node = |it: ClusterMember| scope::Node {
            name: it.name,
            number: it.node.0,
            aliases: Vec::new(),
        };
        Some(((own.0, self.node.clone()), others.map(node).collect()))
    }

    /// Sends a message about a monitor to a node.
    ///
    /// # Errors
    /// It is no member; returns the message.
    pub fn send(&self, to: &str, message: Message) -> Result<(), Box<Message>> {
        match &self.thread {
            Some(thread) if self.language.number(to).is_some() => {
                thread.send(ClusterJob::Peer(to.to_owned(), Box::new(message)));
                Ok(())
            }
            _ => Err(Box::new(message)),
        }
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

    /// Queues further jobs, also after this call; `None` for a node alone.
    pub fn jobs(&self) -> Option<ClusterJobs> {
        self.thread.as_ref().map(ClusterThread::jobs)
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

    /// Leaves the cluster, and ends the sessions of its requests.
    pub fn stop(&mut self) {
        self.sessions.clear();
        self.language.stop();
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

/// The refusal of a node alone.
pub fn alone() -> Refusal {
    let why = "this node is in no cluster: see cluster.servers in the configuration";
    Refusal::new(Status::NotSupported, why)
}

//! The 9P listeners: the root of this node as files, on a Unix socket, and over TCP where that is
//! configured.
//!
//! In: connections. Out: texts of the node and of the sampling pipeline. A connection has the
//! rights of the process that made it, over TCP those of no user. The protocol itself is the crate
//! `ninep`; what outlives a connection is a session, until nothing keeps it.

mod address_shares;
mod aggregator;
mod client;
mod connection;
mod connection_slots;
mod counter_fields;
mod cpu_counters;
mod event_feed;
mod event_file;
mod event_log;
mod followed_event;
mod held_text;
mod identity;
mod kernel_log;
mod kernel_rights;
mod last_error;
mod listen;
mod mon_control;
mod mon_file;
mod mon_settings;
mod node;
mod node_control;
mod node_file;
mod node_root;
mod node_sample;
mod node_texts;
mod nodes;
mod open_file;
mod open_monitor;
mod process_table;
mod push_file;
mod reading;
mod sample_filter;
mod sample_queue;
mod sample_source;
mod served_connection;
mod session;
mod session_processes;
mod session_sample;
mod sexpr;
mod tcp_listener;
#[cfg_attr(not(feature = "tls"), path = "no_tls_acceptor.rs")]
mod tls_acceptor;
mod tree;
mod upload;

pub use aggregator::{AggregatorConfig, ChildAddress, parse_children};
pub use listen::{FilesListen, address_for_nodes};
pub use node::{DaemonFacts, NodeFiles};
pub use nodes::{NodeAddress, NodesSource, check_name, follow_members, parse_nodes};
pub use tcp_listener::TcpFilesListener;
pub use tls_acceptor::TlsAcceptor;
pub use upload::{FileSender, Spool, Uploads, free_bytes};

use crate::limits::ConnectionLimits;
use crate::policy::Peer;
use crate::socket::{SocketListener, peer_of};
use crate::user_shares::{UserShare, UserShares};
use client::FilesClient;
use connection_slots::{ConnectionSlot, ConnectionSlots, SlotOwner};
use monitor_sys::users;
use served_connection::{refused, serve};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections of all users except root.
const CONNECTIONS: usize = 1024;
/// How long the look-up of a name may take; then the user has its uid as name.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);
/// Most names that are looked up at a time: others use the same threads.
const MAX_LOOK_UPS: usize = 2;
/// Connections of one user.
const USER_CONNECTIONS: usize = 64;

/// Where the files are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FilesSocket {
    /// Beside the socket of the daemon, with `.9p` after its name.
    #[default]
    Beside,
    /// At this path.
    At(PathBuf),
    /// Nowhere.
    Off,
}

impl FromStr for FilesSocket {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        match written {
            "auto" => Ok(Self::Beside),
            "off" => Ok(Self::Off),
            path if path.starts_with('/') => Ok(Self::At(path.into())),
            _ => Err("expected auto, off, or a path that begins with a slash".to_owned()),
        }
    }
}

impl Display for FilesSocket {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beside => out.write_str("auto"),
            Self::Off => out.write_str("off"),
            Self::At(path) => path.display().fmt(out),
        }
    }
}

impl FilesSocket {
    /// The path, for a daemon with this socket.
    pub fn path(&self, socket: Option<&Path>) -> Option<PathBuf> {
        match (self, socket) {
            (Self::Off, _) | (Self::Beside, None) => None,
            (Self::At(path), _) => Some(path.clone()),
            (Self::Beside, Some(socket)) => {
                let mut name = socket.as_os_str().to_owned();
                name.push(".9p");
                Some(name.into())
            }
        }
    }
}

/// The listener.
pub struct FilesListener {
    socket: SocketListener,
    node: Arc<NodeFiles>,
    shares: UserShares,
    slots: ConnectionSlots,
}

impl FilesListener {
    /// Listens at this path.
    ///
    /// # Errors
    ///
    /// When the path is in use or not safe.
    pub async fn open(
        path: &Path,
        node: Arc<NodeFiles>,
        limits: ConnectionLimits,
    ) -> std::io::Result<Self> {
        let socket = SocketListener::bind(path, async || Ok(())).await?;
        let shares = UserShares::new(limits.of_user());
        Ok(Self {
            socket,
            node,
            shares,
            slots: ConnectionSlots::new(USER_CONNECTIONS, CONNECTIONS),
        })
    }

    /// Serves until the task is ended, which closes all connections and removes the socket.
    pub async fn run(mut self) {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.socket.listener.accept() => match accepted {
                    Ok((stream, _)) => self.accept(stream, &mut tasks),
                    // No descriptor is free: one is when a connection ends.
                    Err(why) => {
                        tracing::warn!("a connection to the files is not accepted: {why}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    fn accept(&mut self, stream: UnixStream, tasks: &mut JoinSet<()>) {
        // Without credentials, the peer has disconnected already.
        let Some(peer) = peer_of(&stream) else { return };
        let slot = match self.slots.take(SlotOwner::User(peer.uid)) {
            Ok(slot) => slot,
            Err(limit) => {
                let whose = format!("user {}, process {}", peer.uid, peer.pid);
                let _ = stream.try_write(&refused(&self.node, limit, &whose));
                return;
            }
        };
        let share = self.shares.share(peer.uid);
        tasks.spawn(serve_process(stream, (peer, slot), (Arc::clone(&self.node), share)));
    }
}

/// The name of a user, unless it takes long, or too many names are looked up already.
async fn name_in_time(uid: u32) -> Option<String> {
    static LOOK_UPS: Semaphore = Semaphore::const_new(MAX_LOOK_UPS);
    let permit = LOOK_UPS.try_acquire().ok()?;
    let look_up = spawn_blocking(move || {
        let name = users::name(uid);
        drop(permit);
        name
    });
    timeout(NAME_TIMEOUT, look_up).await.ok()?.ok()?
}

async fn serve_process(
    stream: UnixStream,
    (peer, slot): (Peer, ConnectionSlot),
    of_node: (Arc<NodeFiles>, Arc<UserShare>),
) {
    // The name may come from a server of the network, which may not answer.
    let name = name_in_time(peer.uid).await.unwrap_or_else(|| peer.uid.to_string());
    serve(stream, (FilesClient::process(peer, name), slot), of_node).await;
}

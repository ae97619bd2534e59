//! The 9P listener: the root of this node as files, on a Unix socket.
//!
//! In: connections. Out: texts of the node and of the sampling pipeline. A connection has the
//! rights of the process that made it. The protocol itself is the crate `ninep`; what outlives a
//! connection is a session, until nothing keeps it.

mod aggregator;
mod connection;
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
mod session;
mod session_processes;
mod session_sample;
mod sexpr;
mod tree;

pub use aggregator::{AggregatorConfig, ChildAddress, parse_children};
pub use node::{DaemonFacts, NodeFiles};
pub use nodes::{NodeAddress, check_name, parse_nodes};

use crate::limits::ConnectionLimits;
use crate::lock::lock;
use crate::policy::Peer;
use crate::socket::{SocketListener, peer_of};
use crate::user_shares::{UserShare, UserShares};
use monitor_ninep::limits::Limits;
use monitor_ninep::{Connection, Errno, NO_TAG, Reply};
use monitor_sys::users;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tree::NodeTree;

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
    open: Arc<Mutex<HashMap<u32, usize>>>,
}

/// A connection that counts until it is dropped.
struct Slot {
    uid: u32,
    open: Arc<Mutex<HashMap<u32, usize>>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.uid);
            }
        }
    }
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
        Ok(Self { socket, node, shares, open: Arc::default() })
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
        let Some(slot) = self.slot(&peer) else {
            let error = Reply::Error { text: Errno::TooManyUsers.text() };
            let mut bytes = Vec::new();
            // It is the reply to Tversion, the only message that a client sends unasked.
            error.put(NO_TAG, &mut bytes);
            let _ = stream.try_write(&bytes);
            return;
        };
        let share = self.shares.share(peer.uid);
        tasks.spawn(serve(stream, (peer, slot), (Arc::clone(&self.node), share)));
    }

    /// A slot for a connection, or `None` if there is none; that is logged and counted.
    fn slot(&self, peer: &Peer) -> Option<Slot> {
        let mut open = lock(&self.open);
        let own = open.get(&peer.uid).copied().unwrap_or(0);
        let others: usize = open.iter().filter(|it| *it.0 != 0).map(|it| it.1).sum();
        let (limit, most) = if own >= USER_CONNECTIONS {
            ("connections of a user", USER_CONNECTIONS)
        } else if peer.uid != 0 && others >= CONNECTIONS {
            ("connections", CONNECTIONS)
        } else {
            open.insert(peer.uid, own + 1);
            return Some(Slot { uid: peer.uid, open: Arc::clone(&self.open) });
        };
        let (uid, pid) = (peer.uid, peer.pid);
        tracing::warn!(uid, pid, "a connection to the files is refused: {most} {limit} are open");
        *lock(&self.node.refused).entry(format!("9P {limit}")).or_default() += 1;
        None
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

/// Serves a connection, and counts what was refused on it.
async fn serve(
    stream: UnixStream,
    (peer, slot): (Peer, Slot),
    (node, share): (Arc<NodeFiles>, Arc<UserShare>),
) {
    let &Peer { uid, pid, .. } = &peer;
    // The name may come from a server of the network, which may not answer.
    let name = name_in_time(uid).await.unwrap_or_else(|| uid.to_string());
    let tree = NodeTree::new(&node, (peer, name), Arc::clone(&share));
    let mut connection = Connection::new(tree, Limits::default());
    let served = connection::serve(&stream, &mut connection, &share).await;
    let mut refused = lock(&node.refused);
    for (kind, n) in connection.take_refused() {
        *refused.entry(format!("9P {kind}")).or_default() += n;
    }
    if let Err(why) = served {
        *refused.entry("9P connection closed".to_owned()).or_default() += 1;
        tracing::info!(uid, pid, "a connection to the files is closed: {why}");
    }
    drop(slot);
}

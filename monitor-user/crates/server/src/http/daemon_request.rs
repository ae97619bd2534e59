//! Requests to the daemon loop from inside the daemon: of the HTTP listener, of loopback
//! connections, and of the thread of the cluster.

use super::listen::AccessLevel;
use crate::{outbox::Outbox, policy::Peer};
use bytes::Bytes;
use monitor_cluster::message::Message;
use monitor_event::right::ControlGrant;
use monitor_format::exposition::Encoding;
use monitor_model::{Ns, Refusal};
use monitor_protocol::Conn;
use monitor_sampling::visibility::Visibility;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What a user of this machine may do on a loopback connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopbackRights {
    /// Observe only.
    Observe,
    /// Observe only: the user is one of a node that `cluster.control_from` does not name.
    OtherNode,
    /// What the policy grants the user.
    Control,
}

/// A request to the daemon loop.
pub enum DaemonRequest {
    /// Current metrics.
    Metrics {
        /// The access level of the client.
        access: AccessLevel,
        /// Their encoding.
        encoding: Encoding,
        /// Receives the metrics, or why there are none.
        reply: oneshot::Sender<Result<Vec<u8>, String>>,
    },
    /// Open a loopback connection.
    Connect {
        /// The access level of the client.
        access: AccessLevel,
        /// Receives its lines.
        outbox: Arc<Outbox>,
        /// Receives its number, or why it is refused.
        reply: oneshot::Sender<Result<Conn, String>>,
    },
    /// Open a loopback connection of a user of this machine.
    ConnectUser {
        /// The user.
        peer: Peer,
        /// Its rights.
        rights: LoopbackRights,
        /// Receives its lines.
        outbox: Arc<Outbox>,
        /// Receives its number, or why it is refused.
        reply: oneshot::Sender<Result<Conn, String>>,
    },
    /// Open a loopback connection of a user of this machine with its only line.
    Line(Box<LineRequest>),
    /// What a user of this machine may see and control here.
    UserRights {
        /// The user.
        peer: Peer,
        /// Its rights.
        rights: LoopbackRights,
        /// Receives what it may do, or why it may not even observe.
        reply: oneshot::Sender<Result<(Visibility, ControlGrant), Refusal>>,
    },
    /// A message of another node about a monitor; with the user, if it starts a part here.
    Peer {
        /// The node.
        from: String,
        /// The message.
        message: Box<Message>,
        /// The user.
        peer: Option<Peer>,
    },
    /// A call on a loopback connection.
    Call {
        /// The number of the connection.
        conn: Conn,
        /// The call.
        line: Bytes,
    },
    /// Close a loopback connection.
    Disconnect {
        /// The number of the connection.
        conn: Conn,
    },
}

/// A line for the daemon loop.
pub struct LineRequest {
    /// The user.
    pub peer: Peer,
    /// Its rights.
    pub rights: LoopbackRights,
    /// The line.
    pub line: Bytes,
    /// When it may no longer be handled, on the boot clock.
    pub until: Ns,
    /// Receives what is sent; closed if the line is refused.
    pub outbox: Arc<Outbox>,
    /// Receives the number of the connection, or why the line is refused.
    pub reply: oneshot::Sender<Result<Conn, LineRefusal>>,
}

/// Why a line was not handled.
#[derive(Debug, PartialEq, Eq)]
pub enum LineRefusal {
    /// Its time was over.
    Late,
    /// Its user may not connect, or the daemon is stopping.
    Refused(String),
}

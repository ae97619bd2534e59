//! The client of a connection: what is known of it, and how.

use crate::policy::Peer;

/// The user without a name: a uid that no process can have (setresuid(2)). 65534 is no such uid:
/// daemons and containers run as it.
pub const NONE_UID: u32 = u32::MAX;

/// How a client is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientOrigin {
    /// By the process that made the connection, as the kernel says.
    Process,
    /// Not at all: it has connected over TCP on this machine.
    Loopback,
    /// As another node, by its certificate.
    Node,
}

/// The client of a connection.
#[derive(Clone, Debug)]
pub struct FilesClient {
    /// How it is known.
    pub origin: ClientOrigin,
    /// Its process; for one that is no process of a user, one without rights.
    pub peer: Peer,
    /// The name of its user.
    pub name: String,
}

impl FilesClient {
    /// A process of this user.
    pub const fn process(peer: Peer, name: String) -> Self {
        Self { origin: ClientOrigin::Process, peer, name }
    }

    /// A client that is no user.
    pub fn without_user(origin: ClientOrigin) -> Self {
        let peer = Peer { uid: NONE_UID, gid: NONE_UID, ..Peer::default() };
        Self { origin, peer, name: "none".to_owned() }
    }
}

//! The files over TCP: on loopback without authentication, and with TLS for other nodes.
//!
//! In: connections. Out: the files as the user `none`, and for a node with a certificate the
//! sessions that it has a key of. A connection has a slot before its handshake, and the handshake a
//! deadline.

use super::address_shares::{AddressShares, charged};
use super::client::NONE_UID;
use super::client::{ClientOrigin, FilesClient};
use super::connection_slots::{ConnectionSlots, SlotOwner};
use super::node::NodeFiles;
use super::served_connection::{refused, serve};
use super::tls_acceptor::TlsAcceptor;
use crate::limits::ConnectionLimits;
use crate::user_shares::UserShares;
use monitor_sys::tcp_peer;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections that may wait for `accept`.
const BACKLOG: u32 = 1024;
/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections of a listener, and of one address or user.
const CONNECTIONS: usize = 512;
const CONNECTIONS_OF_ONE: usize = 64;
/// How long a handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// A listener.
pub struct TcpFilesListener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    node: Arc<NodeFiles>,
    slots: ConnectionSlots,
    shares: UserShares,
    /// For the handshakes of other machines.
    address_shares: AddressShares,
}

impl TcpFilesListener {
    /// Listens at an address, with TLS if there is an acceptor.
    ///
    /// # Errors
    ///
    /// When the address is in use, or is none of this machine.
    pub fn open(
        (address, key): (SocketAddr, &str),
        tls: Option<TlsAcceptor>,
        (node, limits): (Arc<NodeFiles>, ConnectionLimits),
    ) -> io::Result<Self> {
        let listener = bind(address).map_err(|why| {
            let text = format!("{key}: cannot listen on {address}: {why}");
            io::Error::new(why.kind(), text)
        })?;
        Ok(Self {
            listener,
            tls,
            node,
            slots: ConnectionSlots::new(CONNECTIONS_OF_ONE, CONNECTIONS),
            shares: UserShares::new(limits.of_user()),
            address_shares: AddressShares::new(limits.of_user()),
        })
    }

    /// The address, with the port that it has got if none was named.
    ///
    /// # Errors
    ///
    /// When the kernel does not say it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the task is ended, which closes all connections.
    pub async fn run(mut self) {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => self.accept((stream, from), &mut tasks),
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

    fn accept(&mut self, (stream, from): (TcpStream, SocketAddr), tasks: &mut JoinSet<()>) {
        // A process of this machine counts for its user.
        let own = stream.local_addr().ok().filter(|own| own.ip() == from.ip());
        let uid = own.and_then(|own| tcp_peer::user(own, from));
        let owner = uid.map_or_else(|| SlotOwner::at(from.ip()), SlotOwner::User);
        let slot = match self.slots.take(owner) {
            Ok(slot) => slot,
            Err(limit) => {
                let bytes = refused(&self.node, limit, &from.to_string());
                if self.tls.is_none() {
                    let _ = stream.try_write(&bytes);
                }
                return;
            }
        };
        // An answer is one small message, which Nagle's algorithm would delay.
        let _ = stream.set_nodelay(true);
        let share = self.shares.share(uid.unwrap_or(NONE_UID));
        let node = Arc::clone(&self.node);
        match self.tls.clone() {
            None => {
                let client = FilesClient::without_user(ClientOrigin::Loopback);
                tasks.spawn(serve(stream, (client, slot), (node, share)));
            }
            Some(tls) => {
                let client = FilesClient::without_user(ClientOrigin::Node);
                let payer = match owner {
                    SlotOwner::User(_) => Arc::clone(&share),
                    SlotOwner::Address(_) => self.address_shares.share(owner),
                };
                tasks.spawn(async move {
                    let handshake = charged(&payer, tls.accept(stream));
                    match timeout(HANDSHAKE_TIME, handshake).await {
                        Ok(Ok(stream)) => serve(stream, (client, slot), (node, share)).await,
                        // It ends for a client without the certificate of a node.
                        Ok(Err(why)) => refused_handshake(&node, from, &why.to_string()),
                        Err(_) => {
                            let why = format!("it took longer than {HANDSHAKE_TIME:?}");
                            refused_handshake(&node, from, &why);
                        }
                    }
                });
            }
        }
    }
}

/// Logs and counts a handshake that has failed.
fn refused_handshake(node: &NodeFiles, from: SocketAddr, why: &str) {
    tracing::info!("a TLS handshake with {from} for the files failed: {why}");
    node.count_refused("9P TLS handshake failed", 1);
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Sockets of a previous daemon in TIME_WAIT do not prevent the bind.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

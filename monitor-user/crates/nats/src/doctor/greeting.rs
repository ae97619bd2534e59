//! What a server says before it knows the client: its version, JetStream, TLS.
//!
//! In: an address. Out: findings. The line `INFO {…}` is the first of the protocol of NATS; after
//! it a connection with TLS begins its handshake.

use super::finding::Finding;
use super::{tls, version};
use crate::connection::{NatsConnection, TLS};
use crate::failure::TIMEOUT;
use serde::Deserialize;
use std::io;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest first line that is read.
const LINE_BYTES: usize = 64 << 10;

/// What a server says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerInfo {
    version: String,
    jetstream: bool,
    tls_required: bool,
    auth_required: bool,
    /// The name of the cluster of servers, if it is one of several.
    cluster: Option<String>,
}

/// Checks a server.
pub async fn examine(url: &str, connection: &NatsConnection) -> Vec<Finding> {
    let is_tls = url.starts_with(TLS);
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let connected = timeout(TIMEOUT, greet(address)).await;
    let connected = connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)));
    let (stream, info) = match connected {
        Ok(connected) => connected,
        Err(why) => {
            let fix = "start nats-server there, open its port, or correct cluster.servers";
            return vec![Finding::failed(url, "reachable", why, fix).blocking()];
        }
    };
    let mut findings = Vec::new();
    let peer = stream.peer_addr().map(|peer| peer.ip());
    match peer {
        Ok(peer) => {
            findings.push(Finding::ok(url, "reachable", peer));
            findings.push(version::check(url, &info.version, peer));
        }
        Err(ref why) => findings.push(Finding::warning(url, "reachable", why, "try again")),
    }
    // The server of a rack has a name of a cluster too, and no copy.
    if info.jetstream && info.cluster.is_some() {
        findings.extend(version::check_copies(url, &info.version));
    }
    findings.push(match info.jetstream {
        true => Finding::ok(url, "jetstream", "on"),
        false => {
            let fix = "add jetstream { store_dir: \"/var/lib/nats\" } to its configuration";
            // The server of a rack has none, and passes questions on.
            Finding::failed(url, "jetstream", "off: the order of commands needs it", fix)
        }
    });
    if !info.auth_required {
        let fix = "use accounts with users, as monitor cluster init writes them";
        let found = "a client without a key has access";
        findings.push(Finding::failed(url, "access", found, fix));
    }
    let is_loopback = peer.is_ok_and(|peer| peer.is_loopback());
    findings.push(match (is_tls, info.tls_required) {
        (true, _) => tls::check(url, address, stream, connection.ca.as_deref()).await,
        (false, true) => {
            let fix = format!("write tls://{address} to cluster.servers");
            Finding::warning(url, "tls", "the server wants TLS, and the address does not", fix)
        }
        (false, false) if is_loopback => Finding::ok(url, "tls", "off, on loopback"),
        (false, false) => {
            let fix = "configure tls {} there, and write tls:// to cluster.servers";
            Finding::failed(url, "tls", "off: the network carries all in the clear", fix)
        }
    });
    findings
}

/// Connects, and reads the first line.
async fn greet(address: &str) -> io::Result<(TcpStream, ServerInfo)> {
    let mut stream = TcpStream::connect(address).await?;
    let mut line = Vec::new();
    // Byte by byte: what follows the line belongs to the handshake.
    loop {
        let byte = stream.read_u8().await?;
        if byte == b'\n' {
            break;
        }
        line.push(byte);
        if line.len() > LINE_BYTES {
            return Err(io::Error::other("its first line is too long: it is no nats-server"));
        }
    }
    let no_server = || io::Error::other("it is no nats-server: it does not begin with INFO");
    let info = line.strip_prefix(b"INFO ").ok_or_else(no_server)?;
    let info = serde_json::from_slice(info).map_err(|_| no_server())?;
    Ok((stream, info))
}

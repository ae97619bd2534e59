//! What connects a node to the bus: the program knows which carriers it is built with.

use monitor_cluster::bus::Bus;
use monitor_cluster::bus::entry::Seq;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

/// How the bus is reached.
#[derive(Clone, Debug)]
pub struct BusAddress {
    /// Addresses of servers.
    pub servers: Vec<String>,
    /// The file with the user and the password of this node.
    pub credentials: Option<PathBuf>,
    /// The name of this node.
    pub node: String,
}

/// A connection that is being made; or why it failed.
pub type BusConnection = Pin<Box<dyn Future<Output = Result<Box<dyn Bus>, String>>>>;

/// Connects to the bus.
pub trait BusConnector: Send {
    /// Connects on the runtime of the caller, which also carries the bus. Entries come from the
    /// next one on, or from an earlier position.
    fn connect(&self, address: BusAddress, from: Option<Seq>) -> BusConnection;
}

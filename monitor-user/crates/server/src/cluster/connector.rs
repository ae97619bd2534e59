//! What connects a node to the bus: the program knows which carriers it is built with.

use crate::daemon::config::ClusterConfig;
use monitor_cluster::bus::Bus;
use monitor_cluster::bus::entry::Seq;
use monitor_cluster::bus::local::LocalBus;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

/// How the bus is reached.
#[derive(Clone, Debug)]
pub struct BusAddress {
    /// The name of the cluster; empty if any is right.
    pub cluster: String,
    /// Addresses of servers.
    pub servers: Vec<String>,
    /// The file with the user of this node.
    pub credentials: Option<PathBuf>,
    /// The file with the certificates of those that sign certificates of servers.
    pub ca: Option<PathBuf>,
    /// The name of this node.
    pub node: String,
    /// Whether this node makes what the bus needs on the servers.
    pub is_service: bool,
}

impl BusAddress {
    /// The address of a configuration, for the node of this name.
    pub fn new(config: &ClusterConfig, node: &str) -> Self {
        Self {
            cluster: config.name.clone(),
            servers: config.servers.clone(),
            credentials: config.credentials.clone(),
            ca: config.ca.clone(),
            node: node.to_owned(),
            is_service: config.removes_dead,
        }
    }
}

/// A connection that is being made; or why it failed.
pub type BusConnection = Pin<Box<dyn Future<Output = Result<Box<dyn Bus>, String>> + Send>>;

/// Connects to the bus.
pub trait BusConnector: Send + Sync {
    /// Connects on the runtime of the caller, which also carries the bus. Entries come from the
    /// next one on, or from an earlier position.
    fn connect(&self, address: BusAddress, from: Option<Seq>) -> BusConnection;
}

/// Daemons of one process, on a bus in memory.
impl BusConnector for LocalBus {
    fn connect(&self, address: BusAddress, from: Option<Seq>) -> BusConnection {
        let port = Box::new(LocalBus::connect(self, &address.node, from));
        Box::pin(std::future::ready(Ok(port as Box<dyn Bus>)))
    }
}

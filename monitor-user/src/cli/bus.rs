//! The bus of a cluster over NATS, for `monitor serve`.
//!
//! In: the addresses of the configuration. Out: the bus. Knows what the crates `server` and `nats`
//! do not know of each other.

use monitor_cluster::bus::{Bus, entry::Seq};
use monitor_nats::{NatsBus, NatsOptions, NatsUser};
use monitor_server::cluster::{BusAddress, BusConnection, BusConnector};

/// On how many servers the order is kept: one at most where there are fewer than three.
const fn n_replicas(n_servers: usize) -> usize {
    if n_servers < 3 { 1 } else { 3 }
}

/// Connects over NATS.
pub struct NatsConnector;

impl BusConnector for NatsConnector {
    fn connect(&self, address: BusAddress, from: Option<Seq>) -> BusConnection {
        Box::pin(async move {
            // Read each time: a new password needs no restart.
            let user = address.credentials.as_deref().map(NatsUser::read).transpose();
            let options = NatsOptions {
                n_replicas: n_replicas(address.servers.len()),
                servers: address.servers.join(","),
                user: user.map_err(|why| why.to_string())?,
                node: address.node,
            };
            let bus = NatsBus::connect(options, from).await.map_err(|why| why.to_string())?;
            Ok(Box::new(bus) as Box<dyn Bus>)
        })
    }
}

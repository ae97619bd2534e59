//! The bus of a cluster over NATS, for `monitor serve`.
//!
//! In: the addresses of the configuration. Out: the bus. Knows what the crates `server` and `nats`
//! do not know of each other.

use monitor_cluster::bus::{Bus, entry::Seq};
use monitor_nats::{NatsBus, NatsConnection, NatsOptions, NatsUser, Streams};
use monitor_server::cluster::{BusAddress, BusConnection, BusConnector};

/// On how many servers the order is kept: one at most where there are fewer than three.
const fn n_replicas(n_servers: usize) -> usize {
    if n_servers < 3 { 1 } else { 3 }
}

/// The options of an address.
///
/// # Errors
/// The file with the user of this node cannot be read.
pub fn options(address: BusAddress) -> Result<NatsOptions, String> {
    let BusAddress { cluster, servers, credentials, ca, node, is_service } = address;
    // Read each time: another user needs no restart.
    let user = credentials.as_deref().map(NatsUser::read).transpose();
    let user = user.map_err(|why| why.to_string())?;
    let n_replicas = n_replicas(servers.len());
    Ok(NatsOptions {
        connection: NatsConnection { servers, user, ca, node },
        streams: Streams { n_replicas, makes: is_service, cluster },
    })
}

/// Connects over NATS.
pub struct NatsConnector;

impl BusConnector for NatsConnector {
    fn connect(&self, address: BusAddress, from: Option<Seq>) -> BusConnection {
        Box::pin(async move {
            let bus = NatsBus::connect(options(address)?, from).await;
            Ok(Box::new(bus.map_err(|why| why.to_string())?) as Box<dyn Bus>)
        })
    }
}

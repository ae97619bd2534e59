//! Real servers with the configuration of `cluster init`, on loopback.
//!
//! In: nodes, and how many servers. Out: servers that may be started, and how their users connect.

use super::agent::{Agent, AgentOptions};
use super::servers::{ServerProcess, own_address};
use crate::connection::NatsConnection;
use crate::credentials::NatsUser;
use crate::site::{Rack, ServerAddress, SiteRequest, write_site};
use crate::streams::{STREAM, Streams};
use crate::{NatsBus, NatsOptions};
use async_nats::{Client, Event};
use futures_util::StreamExt as _;
use monitor_cluster::bus::{Bus as _, BusEvent};
use monitor_cluster::node_set::expand;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// How long signs of life and events are awaited.
const SIGNS: Duration = Duration::from_secs(60);
/// How long the name of the leader is awaited.
const LEADER: Duration = Duration::from_secs(5);

/// The next event of a bus that is wanted.
pub async fn bus_event<T>(bus: &mut NatsBus, mut select: impl FnMut(BusEvent) -> Option<T>) -> T {
    let found = async {
        loop {
            let event = poll_fn(|context| bus.poll_event(context)).await;
            if let Some(found) = select(event) {
                return found;
            }
        }
    };
    timeout(SIGNS, found).await.expect("an event in time")
}

/// A site whose servers may be started; its folder is removed at the end.
pub struct TestSite {
    /// Its folder.
    pub folder: PathBuf,
    /// Its servers.
    pub servers: Vec<ServerProcess>,
    services: BTreeSet<String>,
    /// The nodes of racks, whose servers are the last ones.
    racks: Vec<BTreeSet<String>>,
}

impl TestSite {
    /// Writes a site of the nodes n1 to n4, of which n1 serves the cluster, and the gateway web.
    pub fn small() -> Self {
        Self::write(1, "n[1-4]", "n1")
    }

    /// Writes a site of these nodes and services, with the gateway web.
    ///
    /// # Panics
    /// The sets are none, or the folder for temporary files cannot be written.
    pub fn write(n_servers: usize, nodes: &str, services: &str) -> Self {
        Self::write_with_racks(n_servers, nodes, services, &[])
    }

    /// The same, with racks of these nodes. The first two of each are its aggregators.
    ///
    /// # Panics
    /// The sets are none, or the folder for temporary files cannot be written.
    pub fn write_with_racks(
        n_servers: usize,
        nodes: &str,
        services: &str,
        racks: &[String],
    ) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("monitor-test-site-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let addresses: Vec<SocketAddr> = (0..n_servers).map(|_| own_address()).collect();
        let set = |text: &str| expand(text, &BTreeSet::new()).expect("a set of nodes");
        let server = |it: &SocketAddr| ServerAddress::parse(&it.to_string()).expect("an address");
        let leaves: Vec<SocketAddr> = racks.iter().map(|_| own_address()).collect();
        let racks: Vec<BTreeSet<String>> = racks.iter().map(|it| set(it)).collect();
        let rack = |(leaf, nodes): (&SocketAddr, &BTreeSet<String>)| Rack {
            server: server(leaf),
            nodes: nodes.clone(),
            aggregators: aggregators_of(nodes),
        };
        let request = SiteRequest {
            folder: folder.clone(),
            nodes: set(nodes),
            gateways: set("web"),
            services: set(services),
            servers: addresses.iter().map(server).collect(),
            racks: leaves.iter().zip(&racks).map(rack).collect(),
            in_place: true,
            ..SiteRequest::default()
        };
        write_site(&request).expect("the folder can be written");
        let process = |address: &SocketAddr| {
            let config = folder.join("servers").join(address.ip().to_string());
            ServerProcess::new(*address, config.join("nats-server.conf"))
        };
        let servers = addresses.iter().chain(&leaves).map(process).collect();
        Self { folder, servers, services: request.services, racks }
    }

    /// A file of the first server.
    pub fn server_file(&self, name: &str) -> PathBuf {
        self.servers[0].config().with_file_name(name)
    }

    /// Starts all servers, and waits until they listen.
    pub fn start(&mut self) {
        self.servers.iter_mut().for_each(ServerProcess::begin);
        self.servers.iter_mut().for_each(ServerProcess::wait);
    }

    /// How a user connects.
    ///
    /// # Panics
    /// The site has no such user.
    pub fn connection(&self, user: &str) -> NatsConnection {
        let place = match user {
            "admin" | "system" => self.folder.join(user),
            node => self.folder.join("nodes").join(node),
        };
        let user_of = NatsUser::read(&place.join("cluster.seed"));
        let (cluster, leaves) = self.servers.split_at(self.n_of_cluster());
        let rack = self.racks.iter().position(|nodes| nodes.contains(user));
        let servers = rack.map_or(cluster, |rack| &leaves[rack..=rack]);
        NatsConnection {
            servers: servers.iter().map(|it| format!("tls://{}", it.address)).collect(),
            user: Some(user_of.expect("a user of the site")),
            ca: Some(self.folder.join("ca/ca.crt")),
            node: user.to_owned(),
        }
    }

    /// Number of servers that are not of a rack.
    fn n_of_cluster(&self) -> usize {
        self.servers.len() - self.racks.len()
    }

    /// The options of a node of the cluster.
    pub fn options(&self, node: &str) -> NatsOptions {
        let n_replicas = if self.n_of_cluster() < 3 { 1 } else { 3 };
        let makes = self.services.contains(node);
        let streams = Streams { n_replicas, makes, cluster: "monitor".to_owned() };
        NatsOptions { connection: self.connection(node), streams }
    }

    /// The aggregators of the rack of a node, as a set; empty if it is in no rack.
    pub fn aggregators(&self, node: &str) -> String {
        let rack = self.racks.iter().find(|nodes| nodes.contains(node));
        rack.map(|nodes| Vec::from_iter(aggregators_of(nodes)).join(",")).unwrap_or_default()
    }

    /// The file of the ledger of a node.
    pub fn ledger(&self, node: &str) -> PathBuf {
        self.folder.join("nodes").join(node).join("ledger")
    }

    /// Starts an agent.
    pub fn agent(&self, node: &str) -> Agent {
        Agent::start(
            node,
            AgentOptions {
                removes_dead: self.services.contains(node),
                ..AgentOptions::new(self.options(node), self.ledger(node))
            },
        )
    }

    /// Connects a node to the bus.
    ///
    /// # Panics
    /// It cannot be connected.
    pub async fn bus(&self, node: &str) -> NatsBus {
        NatsBus::connect(self.options(node), None).await.expect("the server runs")
    }

    /// Waits until this number of nodes has named their connections in signs of life.
    ///
    /// # Panics
    /// They give none.
    pub async fn signs_of_life(&self, n_nodes: usize) {
        let (client, _errors) = self.client("web").await;
        let mut signs = client.subscribe("mon.hb.*").await.expect("a gateway may");
        let mut nodes = BTreeSet::new();
        while nodes.len() < n_nodes {
            let sign = timeout(SIGNS, signs.next()).await;
            nodes.insert(sign.expect("a sign of life").expect("a connection").subject.to_string());
        }
    }

    /// The server that leads the stream of the order; the first if none does.
    pub async fn leader(&self) -> usize {
        let asked = async {
            let (client, _errors) = self.client("admin").await;
            let context = async_nats::jetstream::new(client);
            let stream = context.get_stream(STREAM).await.ok()?;
            stream.cached_info().cluster.as_ref()?.leader.clone()
        };
        let name = timeout(LEADER, asked).await.ok().flatten();
        let is_leader = |it: &ServerProcess| name.as_ref() == Some(&it.address.ip().to_string());
        self.servers.iter().position(is_leader).unwrap_or(0)
    }

    /// Connects a user, and returns what the server denies it.
    ///
    /// # Panics
    /// It cannot be connected.
    pub async fn client(&self, user: &str) -> (Client, UnboundedReceiver<String>) {
        let (sender, errors) = unbounded_channel();
        let connection = self.connection(user);
        let connected = connection.connect(move |event| {
            if let Event::ServerError(error) = event {
                // Fails when the test is over.
                let _ = sender.send(error.to_string());
            }
        });
        (connected.await.expect("the server runs"), errors)
    }
}

/// The nodes of a rack that publish for it.
fn aggregators_of(nodes: &BTreeSet<String>) -> BTreeSet<String> {
    nodes.iter().take(2).cloned().collect()
}

impl Drop for TestSite {
    fn drop(&mut self) {
        self.servers.clear();
        // It is of no use for another test.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

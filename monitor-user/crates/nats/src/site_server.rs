//! A real server with the configuration of `cluster init`, for tests.
//!
//! In: what is changed in the configuration. Out: a server on loopback with its users.

use crate::connection::NatsConnection;
use crate::credentials::NatsUser;
use crate::failure::Failed;
use crate::site::{ServerAddress, SiteRequest, write_site};
use crate::streams::Streams;
use crate::tests::{free_address, spawn};
use crate::{NatsBus, NatsOptions};
use async_nats::{Client, Event};
use monitor_cluster::node_set::expand;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A site whose server may be started.
pub struct Site {
    /// Its folder.
    pub folder: PathBuf,
    /// The address of its server.
    pub address: std::net::SocketAddr,
    server: Option<Child>,
}

impl Site {
    /// Writes a site of the nodes n1 to n4, of which n1 serves the cluster, and the gateway web.
    pub fn write() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("monitor-site-server-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let address = free_address();
        let set = |text: &str| expand(text, &BTreeSet::new()).unwrap();
        let request = SiteRequest {
            folder: folder.clone(),
            nodes: set("n[1-4]"),
            gateways: set("web"),
            services: set("n1"),
            servers: vec![ServerAddress::parse(&address.to_string()).unwrap()],
            in_place: true,
            ..SiteRequest::default()
        };
        write_site(&request).unwrap();
        Self { folder, address, server: None }
    }

    /// A file of the server.
    pub fn server_file(&self, name: &str) -> PathBuf {
        self.folder.join("servers/127.0.0.1").join(name)
    }

    /// Starts the server.
    pub fn start(&mut self) {
        let mut command = Command::new("nats-server");
        command.arg("--config").arg(self.server_file("nats-server.conf"));
        self.server = Some(spawn(command, self.address));
    }

    /// How a user connects.
    pub fn connection(&self, user: &str) -> NatsConnection {
        let place = match user {
            "admin" | "system" => self.folder.join(user),
            node => self.folder.join("nodes").join(node),
        };
        NatsConnection {
            servers: vec![format!("tls://{}", self.address)],
            user: Some(NatsUser::read(&place.join("cluster.seed")).unwrap()),
            ca: Some(self.folder.join("ca/ca.crt")),
            node: user.to_owned(),
        }
    }

    /// The options of a node of the cluster.
    pub fn options(&self, node: &str) -> NatsOptions {
        let cluster = "monitor".to_owned();
        let streams = Streams { n_replicas: 1, makes: node == "n1", cluster };
        NatsOptions { connection: self.connection(node), streams }
    }

    /// Connects a node to the bus.
    pub async fn bus(&self, node: &str) -> NatsBus {
        NatsBus::connect(self.options(node), None).await.unwrap()
    }

    /// Connects a user, and returns what the server denies it.
    pub async fn client(&self, user: &str) -> (Client, UnboundedReceiver<String>) {
        let (sender, errors) = unbounded_channel();
        let connection = self.connection(user);
        let connected: Result<_, Failed> = connection
            .connect(move |event| {
                if let Event::ServerError(error) = event {
                    // Fails when the test is over.
                    let _ = sender.send(error.to_string());
                }
            })
            .await;
        (connected.unwrap(), errors)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It may have ended by itself.
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

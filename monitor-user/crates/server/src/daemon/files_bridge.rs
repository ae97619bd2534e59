//! The loop's end of the 9P listeners: their tasks, and what it has refused.

use super::settings::Settings;
use crate::files::{
    DaemonFacts, FilesListener, NodeFiles, TcpFilesListener, TlsAcceptor, address_for_nodes,
    follow_members,
};
use crate::lock::lock;
use crate::socket::SocketListener;
use monitor_remote::{Address, Connector};
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::task::JoinSet;

/// The loop's end of the 9P listeners.
#[derive(Default)]
pub struct FilesBridge {
    node: Option<Arc<NodeFiles>>,
    tasks: JoinSet<()>,
}

impl FilesBridge {
    /// Starts to serve the files, where that is configured.
    async fn open(&mut self, settings: &Settings, mut facts: DaemonFacts) -> io::Result<()> {
        let config = &settings.loaded.config;
        let listen = &config.files_listen;
        let certificate = listen.check().map_err(io::Error::other)?;
        if let Some(files) = &certificate {
            facts.connector = Connector::with_certificate(files)?;
        }
        let path = config.files.path(settings.endpoint.socket());
        if path.is_none() && listen.plain.is_none() && listen.tls.is_none() {
            return Ok(());
        }
        let node = Arc::new(NodeFiles::new(facts));
        self.node = Some(Arc::clone(&node));
        if let Some(path) = path {
            let listener = FilesListener::open(&path, Arc::clone(&node), config.connections).await;
            let listener = listener.map_err(|why| {
                let path = path.display();
                io::Error::new(why.kind(), format!("cannot serve files on {path}: {why}"))
            })?;
            tracing::info!("serving files on {}", path.display());
            node.set_address(Address::unix(path));
            self.tasks.spawn(listener.run());
        }
        let of_node = || (Arc::clone(&node), config.connections);
        if let Some(address) = listen.plain {
            let it = TcpFilesListener::open((address, "files.listen"), None, of_node())?;
            tracing::info!("serving files on {}, as none", it.address()?);
            self.tasks.spawn(it.run());
        }
        if let (Some(address), Some(files)) = (listen.tls, &certificate) {
            let tls = Some(TlsAcceptor::load(files)?);
            let it = TcpFilesListener::open((address, "files.tls"), tls, of_node())?;
            let bound = it.address()?;
            tracing::info!("serving files on {bound}, with TLS");
            let name = config.cluster.node_name(&settings.node.name);
            node.set_address(address_for_nodes(name, bound));
            self.tasks.spawn(it.run());
        }
        if node.others.are_members() {
            let (others, requests) = (Arc::clone(&node.others), node.requests.clone());
            self.tasks.spawn(follow_members(others, requests, move || node.address()));
        }
        Ok(())
    }

    /// Where other nodes find the files of this one, as it is written; `None` if they are served on
    /// this machine alone.
    pub fn address_for_nodes(&self) -> Option<String> {
        let address = self.node.as_ref()?.address()?;
        matches!(address, Address::Tls(_)).then(|| address.to_string())
    }

    /// The files of this node, if they are served.
    pub const fn node(&self) -> Option<&Arc<NodeFiles>> {
        self.node.as_ref()
    }

    /// What was refused since the start, by kind.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        self.node.as_ref().map(|it| lock(&it.refused).clone()).unwrap_or_default()
    }

    /// Closes all connections and sessions, and removes the socket.
    pub async fn close(&mut self) {
        self.tasks.shutdown().await;
        if let Some(node) = &self.node {
            node.monitor.set_watch(None);
            node.others.close();
            node.aggregator.close();
            node.sessions.close().await;
        }
    }
}

/// Opens the socket and, before clients can connect to it, that of the files.
pub async fn open_sockets(
    settings: &Settings,
    facts: DaemonFacts,
    undo: impl FnOnce() -> io::Result<()>,
) -> io::Result<(Option<SocketListener>, FilesBridge)> {
    let mut files = FilesBridge::default();
    let Some(path) = settings.endpoint.socket() else {
        files.open(settings, facts).await?;
        return Ok((None, files));
    };
    let before = async || {
        undo()?;
        files.open(settings, facts).await
    };
    let socket = SocketListener::bind(path, before).await?;
    Ok((Some(socket), files))
}

//! The loop's end of the 9P listener: its task, and what it has refused.

use super::settings::Settings;
use crate::files::{DaemonFacts, FilesListener, NodeFiles};
use crate::lock::lock;
use crate::socket::SocketListener;
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::task::JoinHandle;

/// The loop's end of the 9P listener.
#[derive(Default)]
pub struct FilesBridge {
    node: Option<Arc<NodeFiles>>,
    task: Option<JoinHandle<()>>,
}

impl FilesBridge {
    /// Starts to serve the files, if that is configured.
    async fn open(&mut self, settings: &Settings, facts: DaemonFacts) -> io::Result<()> {
        let config = &settings.loaded.config;
        let Some(path) = config.files.path(settings.endpoint.socket()) else { return Ok(()) };
        let node = Arc::new(NodeFiles::new(facts));
        let listener = FilesListener::open(&path, Arc::clone(&node), config.connections).await;
        let listener = listener.map_err(|why| {
            let path = path.display();
            io::Error::new(why.kind(), format!("cannot serve files on {path}: {why}"))
        })?;
        tracing::info!("serving files on {}", path.display());
        self.node = Some(node);
        self.task = Some(tokio::spawn(listener.run()));
        Ok(())
    }

    /// What was refused since the start, by kind.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        self.node.as_ref().map(|it| lock(&it.refused).clone()).unwrap_or_default()
    }

    /// Closes all connections and sessions, and removes the socket.
    pub async fn close(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
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

//! The loop's end of the 9P listener: its task, and what it has refused.

use super::DaemonLoop;
use crate::files::{DaemonFacts, FilesListener, NodeFiles};
use crate::lock::lock;
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::JoinHandle;

/// The loop's end of the 9P listener.
#[derive(Default)]
pub struct FilesBridge {
    node: Option<Arc<NodeFiles>>,
    task: Option<JoinHandle<()>>,
}

impl FilesBridge {
    /// What was refused since the start, by kind.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        self.node.as_ref().map(|it| lock(&it.refused).clone()).unwrap_or_default()
    }

    /// Closes all connections and removes the socket.
    pub async fn close(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }
}

impl DaemonLoop {
    /// Starts to serve the files, if that is configured.
    pub(super) async fn open_files(&mut self, backend: &'static str) -> std::io::Result<()> {
        let config = &self.settings.loaded.config;
        let Some(path) = config.files.path(self.settings.endpoint.socket()) else { return Ok(()) };
        let facts = DaemonFacts { backend, requests: self.http.requests() };
        let node = Arc::new(NodeFiles::new(facts));
        let listener = FilesListener::open(&path, Arc::clone(&node), config.connections).await;
        let listener = listener.map_err(|why| {
            let path = path.display();
            std::io::Error::new(why.kind(), format!("cannot serve files on {path}: {why}"))
        })?;
        tracing::info!("serving files on {}", path.display());
        self.files_bridge.node = Some(node);
        self.files_bridge.task = Some(tokio::spawn(listener.run()));
        Ok(())
    }
}

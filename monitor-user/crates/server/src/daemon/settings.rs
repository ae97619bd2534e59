//! What the daemon is started with.

use super::{config::LoadedConfig, reload::Reload};
use crate::{cluster::BusConnector, http::PlaybackClock, policy::Hidden};
use monitor_backend::Opener;
use monitor_cluster::scope::Node;
use monitor_control::user_worker::SELF_EXE;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where clients reach the daemon.
pub enum Endpoint {
    /// At this socket, which every user may connect to.
    Socket(PathBuf),
    /// Over HTTP only: no file is created, so none is left behind. The function receives the
    /// address of the page, including the token that gives full access.
    Page(fn(&str)),
}

impl Endpoint {
    /// The path of the socket, if there is one.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Socket(path) => Some(path),
            Self::Page(_) => None,
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(out),
            Self::Page(_) => out.write_str("HTTP only"),
        }
    }
}

/// What the daemon is started with.
pub struct Settings {
    /// Where clients reach it.
    pub endpoint: Endpoint,
    /// Its configuration.
    pub loaded: LoadedConfig,
    /// What requests read processes with.
    pub opener: Opener,
    /// What `/proc` hides from users.
    pub hidden: Hidden,
    /// The name and number of this node.
    pub node: Node,
    /// Connects to the bus of the cluster, if one is configured.
    pub connector: Option<Box<dyn BusConnector>>,
    /// The program that is started as user worker: usually this one.
    pub worker_program: PathBuf,
    /// The playback position, if the backend plays a recording.
    pub playback: Option<Arc<PlaybackClock>>,
    /// Reads the configuration again.
    pub reload: Reload,
    /// Sets the log level to its argument.
    pub log: Box<dyn Fn(&str)>,
}

impl Settings {
    /// The defaults without a configuration, for a single node.
    pub fn new(endpoint: Endpoint, node: Node, opener: Opener) -> Self {
        Self {
            endpoint,
            loaded: LoadedConfig::default(),
            opener,
            hidden: Hidden::Nothing,
            node,
            connector: None,
            worker_program: SELF_EXE.into(),
            playback: None,
            reload: Box::new(|| Ok(LoadedConfig::default())),
            log: Box::new(|_| {}),
        }
    }
}

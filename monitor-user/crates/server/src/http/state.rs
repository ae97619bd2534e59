//! The state that all connections of the listener share.

use super::{
    admission::Admission, daemon_request::DaemonRequest, feed::PageFeed, listen::Listen,
    playback::PlaybackClock, rank_feed::RankFeeds, token::AccessToken,
};
use monitor_protocol::status::HttpStatus;
use std::{net::SocketAddr, sync::Arc};
use tokio::sync::{Semaphore, mpsc};

/// State that all connections share.
pub struct ListenerState {
    /// The configuration.
    pub listen: Listen,
    /// The address in use.
    pub address: SocketAddr,
    /// The token that gives full access.
    pub token: AccessToken,
    /// Requests to the daemon loop.
    pub requests: mpsc::Sender<DaemonRequest>,
    /// The connections.
    pub admission: Admission,
    /// Histories are read one at a time.
    pub history_slot: Semaphore,
    /// The playback position; absent for live data.
    pub playback: Option<Arc<PlaybackClock>>,
    /// The feed of each access level.
    pub feeds: [PageFeed; 2],
    /// The ranks of open jobs, of each access level.
    pub ranks: [RankFeeds; 2],
}

impl ListenerState {
    /// The status of the listener.
    pub fn status(&self) -> HttpStatus {
        let token = self.token.path().map_or_else(String::new, |it| it.display().to_string());
        HttpStatus { address: self.origin(), token, ..self.admission.counts() }
    }

    /// The address of the page, with the token that gives full access.
    pub fn page(&self) -> String {
        format!("{}/#token={}", self.origin(), self.token.text())
    }

    fn origin(&self) -> String {
        let scheme = if self.listen.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

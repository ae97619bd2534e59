//! The events of the processes of a session.

use super::super::event_feed::{EventFeed, FeedSource};
use super::super::followed_event::SESSION_EVENTS;
use super::{LiveSession, file_error};
use crate::http::DaemonRequest;
use crate::policy::Peer;
use crate::user_shares::UserShare;
use monitor_control::session::{Refusal, SessionError};
use monitor_ninep::FileError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep};

/// How long the last events of a session may take: without eBPF, ends are found by readings.
const LAST_EVENTS: Duration = Duration::from_secs(3);
/// The pause between checks of that.
const LOOK: Duration = Duration::from_millis(20);

impl LiveSession {
    /// The events, which are followed from the first call on, with the rights of the user of the
    /// session.
    ///
    /// # Errors
    ///
    /// When the session ends, or its user may not observe.
    pub async fn events(
        &self,
        requests: Sender<DaemonRequest>,
        (node, share): (u32, Arc<UserShare>),
    ) -> Result<&EventFeed, FileError> {
        if self.record.is_ending() && !self.feed.initialized() {
            let error = SessionError::new(Refusal::NoProcess, "the session is wiped");
            return Err(file_error(error));
        }
        let user = &self.record.user;
        let (launcher, groups) = (self.launcher.0, user.groups.clone());
        let peer = Peer { uid: user.uid, gid: user.gid, pid: launcher, groups };
        let (events, launcher) = (SESSION_EVENTS, Some(launcher));
        let source = FeedSource { requests, node, peer, share, events, launcher };
        self.feed.get_or_try_init(|| EventFeed::start(source)).await
    }

    /// Keeps the events of the end, and follows no others.
    pub async fn finish_events(&self) {
        let Some(feed) = self.feed.get() else { return };
        let until = Instant::now() + LAST_EVENTS;
        while !feed.has_ended() && Instant::now() < until {
            sleep(LOOK).await;
        }
        feed.end();
    }

    /// Follows no events any longer: the service ends, and nothing arrives.
    pub fn end_events(&self) {
        if let Some(feed) = self.feed.get() {
            feed.end();
        }
    }
}

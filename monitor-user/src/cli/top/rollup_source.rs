//! Roll-ups of a cluster from the service of a gateway, for the screen.
//!
//! In: the job that is open. Out: a roll-up a second. A task of its own calls the service, so that
//! a key never interrupts a call. While nothing is taken from it, it calls nothing, and after ten
//! seconds the nodes publish nothing.

use monitor_client::{Client, Error, RollupQuery};
use monitor_tui::cluster::{ClusterFeed, ClusterFeedEvent, OpenJob};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// Time between two roll-ups.
const PERIOD: Duration = Duration::from_secs(1);

/// A source of roll-ups.
pub struct RollupSource {
    job: watch::Sender<RollupQuery>,
    events: mpsc::Receiver<ClusterFeedEvent>,
}

impl RollupSource {
    /// Starts the task. Needs a running event loop.
    pub fn new(client: Client) -> Self {
        let (job, queries) = watch::channel(RollupQuery::default());
        // One that waits is as old as the screen that did not take it.
        let (sender, events) = mpsc::channel(1);
        drop(tokio::spawn(call(client, queries, sender)));
        Self { job, events }
    }
}

impl ClusterFeed for RollupSource {
    fn set_job(&mut self, job: Option<&OpenJob>) {
        let _ = self.job.send_replace(RollupQuery { job: job.map(|job| job.name.clone()) });
    }

    async fn next(&mut self) -> ClusterFeedEvent {
        let over = || ClusterFeedEvent::Ended("the service does not answer".into());
        self.events.recv().await.unwrap_or_else(over)
    }
}

async fn call(
    client: Client,
    mut queries: watch::Receiver<RollupQuery>,
    sender: mpsc::Sender<ClusterFeedEvent>,
) {
    loop {
        // Taken before the call: an answer is not older than the screen that takes it.
        let Ok(room) = sender.reserve().await else { return };
        let query = queries.borrow_and_update().clone();
        match client.rollup(&query).await {
            Ok(rollup) => room.send(ClusterFeedEvent::Rollup(Arc::new(rollup))),
            Err(Error::Refused(refusal))
                if refusal.status == monitor_client::Status::NotAvailable =>
            {
                room.send(ClusterFeedEvent::Message(refusal.message));
            }
            Err(error) => return room.send(ClusterFeedEvent::Ended(error.to_string())),
        }
        tokio::select! {
            () = sleep(PERIOD) => {}
            // The rows of another job are read at once.
            changed = queries.changed() => if changed.is_err() { return },
        }
    }
}

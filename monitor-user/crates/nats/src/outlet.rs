//! The queue of events between the tasks of a bus and its port.

use monitor_cluster::bus::BusEvent;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Where tasks put events.
#[derive(Clone)]
pub struct EventOutlet {
    events: mpsc::Sender<BusEvent>,
    n_lost: Arc<AtomicU64>,
}

impl EventOutlet {
    /// Puts events into this queue.
    pub fn new(events: mpsc::Sender<BusEvent>) -> Self {
        Self { events, n_lost: Arc::default() }
    }

    /// Number of events that were lost.
    pub fn n_lost(&self) -> u64 {
        self.n_lost.load(Ordering::Relaxed)
    }

    /// Counts an event that was lost.
    pub fn count_lost(&self) {
        self.n_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts an event that must not be lost.
    pub async fn put(&self, event: BusEvent) {
        // The bus is gone, and so is this task soon.
        let _ = self.events.send(event).await;
    }

    /// Puts an event, or counts it as lost.
    pub fn put_or_lose(&self, event: BusEvent) {
        if self.events.try_send(event).is_err() {
            self.count_lost();
        }
    }
}

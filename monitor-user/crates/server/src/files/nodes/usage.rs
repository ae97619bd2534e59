//! Whether a client uses `nodes/`: it has a file of it open, or had one a minute ago.

use crate::lock::lock;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long `nodes/` counts as used when its last file was closed: a shell opens it again.
const USED_TIME: Duration = Duration::from_secs(60);

/// The use of `nodes/`.
#[derive(Default)]
pub struct NodesUsage {
    /// Each open file has another one.
    open: Arc<()>,
    last: Mutex<Option<Instant>>,
    begun: Notify,
}

/// Held by an open file.
pub struct NodesUse(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl NodesUsage {
    /// A file is opened, or a directory listed.
    pub fn begin(&self) -> NodesUse {
        *lock(&self.last) = Some(Instant::now());
        self.begun.notify_one();
        NodesUse(Arc::clone(&self.open))
    }

    /// Whether it is used.
    pub fn is_used(&self) -> bool {
        let mut last = lock(&self.last);
        if Arc::strong_count(&self.open) > 1 {
            *last = Some(Instant::now());
        }
        last.is_some_and(|it| it.elapsed() < USED_TIME)
    }

    /// Waits for this time, or for its use to begin.
    pub async fn wait(&self, is_used: bool, pause: Duration) {
        if is_used {
            tokio::time::sleep(pause).await;
            return;
        }
        // Used or not, the time is over then.
        let _begun = timeout(pause, self.begun.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_open_file_is_a_use_and_begins_it_at_once() {
        let it = NodesUsage::default();
        assert!(!it.is_used());
        let file = it.begin();
        it.wait(false, Duration::from_secs(3600)).await;
        assert!(it.is_used());
        let long_ago = || Instant::now().checked_sub(USED_TIME);
        *lock(&it.last) = long_ago();
        assert!(it.is_used());
        drop(file);
        *lock(&it.last) = long_ago();
        assert!(!it.is_used());
    }
}

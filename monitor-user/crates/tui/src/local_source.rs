//! Updates from a local backend, read periodically on the thread of the screen.
//!
//! While the screen is frozen nothing is read, but the ring buffers are still drained, so that no
//! record is lost.

use super::feed_source::{FeedEvent, FeedSource};
use super::{reader::ViewReader, view_query::ViewQuery};
use monitor_backend::Backend;
use monitor_backend::Opened;
use monitor_sys::readable;
use std::{io, os::fd::OwnedFd, time::Duration};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// Shortest time from a reading to the one for a new query: rates over shorter intervals are noise.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

/// A backend and its period.
pub struct LocalSource {
    reader: ViewReader<dyn Backend>,
    wake: Option<AsyncFd<OwnedFd>>,
    every: Duration,
    frozen: bool,
    last: Option<Instant>,
    due: Instant,
    ended: bool,
}

impl LocalSource {
    /// A source that reads from an opened backend. Needs a running event loop.
    ///
    /// # Errors
    ///
    /// When the descriptor of the backend cannot be duplicated or polled.
    pub fn new(opened: Opened, query: ViewQuery) -> io::Result<Self> {
        let (every, frozen) = (query.every, query.frozen);
        let reader = ViewReader::live(opened, &query);
        let wake = reader.wake()?.map(readable::readable).transpose()?;
        Ok(Self { reader, wake, every, frozen, last: None, due: Instant::now(), ended: false })
    }

    /// Waits until it is time to read.
    async fn wait(&mut self) {
        loop {
            let pause = async {
                match self.frozen || self.ended {
                    true => std::future::pending().await,
                    false => sleep_until(self.due).await,
                }
            };
            tokio::select! {
                biased;
                () = wait_readable(self.wake.as_ref()) => self.reader.drain(),
                () = pause => return,
            }
        }
    }

    fn read(&mut self) -> FeedEvent {
        let now = Instant::now();
        self.last = Some(now);
        // At multiples of the period, so that the readings do not drift; missed ones are skipped.
        self.due += self.every;
        if self.due <= now {
            self.due = now + self.every;
        }
        match self.reader.read() {
            Ok(update) => FeedEvent::Update(update),
            Err(error) => {
                self.ended = true;
                FeedEvent::Ended(error.to_string())
            }
        }
    }
}

impl FeedSource for LocalSource {
    fn set_query(&mut self, query: &ViewQuery) {
        self.reader.set_query(query);
        let soon = self.last.map_or_else(Instant::now, |last| last + MIN_INTERVAL.min(query.every));
        (self.every, self.frozen) = (query.every, query.frozen);
        self.due = soon.max(Instant::now());
    }

    async fn next(&mut self) -> FeedEvent {
        self.wait().await;
        self.read()
    }
}

/// Waits until the descriptor is readable; forever, if there is none.
async fn wait_readable(wake: Option<&AsyncFd<OwnedFd>>) {
    let Some(wake) = wake else { return std::future::pending().await };
    if let Ok(mut ready) = wake.readable().await {
        ready.clear_ready();
    }
}

//! News from a backend in this program: read at a steady pace, on the thread of the screen.
//!
//! While the screen stands still nothing is read; records of the kernel are fetched all the same,
//! so that none is lost.

use super::demand::Demand;
use super::feed::{Feed, Told};
use super::reader::Reader;
use monitor_backend::Backend;
use monitor_backends::select::Opened;
use monitor_sys::readable;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// From one reading to the one that a new demand asks for, at least: a shorter interval makes
/// rates of nothing.
const SOONEST: Duration = Duration::from_millis(250);

/// A backend and its pace.
pub struct Local {
    reader: Reader<dyn Backend>,
    wake: Option<AsyncFd<OwnedFd>>,
    every: Duration,
    frozen: bool,
    last: Option<Instant>,
    due: Instant,
    over: bool,
}

impl Local {
    /// Of a backend that was opened for this. Needs a running event loop.
    pub fn new(opened: Opened, demand: Demand) -> io::Result<Self> {
        let (every, frozen) = (demand.every, demand.frozen);
        let reader = Reader::live(opened, &demand);
        let wake = reader.wake()?.map(readable::readable).transpose()?;
        Ok(Self { reader, wake, every, frozen, last: None, due: Instant::now(), over: false })
    }

    /// Waits until it is time to read.
    async fn wait(&mut self) {
        loop {
            let pause = async {
                match self.frozen || self.over {
                    true => std::future::pending().await,
                    false => sleep_until(self.due).await,
                }
            };
            tokio::select! {
                biased;
                () = records(self.wake.as_ref()) => self.reader.drain(),
                () = pause => return,
            }
        }
    }

    fn read(&mut self) -> Told {
        let now = Instant::now();
        self.last = Some(now);
        // At whole multiples, so that nothing drifts; those that were missed are left out.
        self.due += self.every;
        if self.due <= now {
            self.due = now + self.every;
        }
        match self.reader.read() {
            Ok(news) => Told::News(news),
            Err(error) => {
                self.over = true;
                Told::Ended(error.to_string())
            }
        }
    }
}

impl Feed for Local {
    fn demand(&mut self, demand: &Demand) {
        self.reader.demand(demand);
        let soon = self.last.map_or_else(Instant::now, |last| last + SOONEST.min(demand.every));
        (self.every, self.frozen) = (demand.every, demand.frozen);
        self.due = soon.max(Instant::now());
    }

    async fn next(&mut self) -> Told {
        self.wait().await;
        self.read()
    }
}

/// Waits for records; for ever, where there is no ring buffer.
async fn records(wake: Option<&AsyncFd<OwnedFd>>) {
    let Some(wake) = wake else { return std::future::pending().await };
    if let Ok(mut ready) = wake.readable().await {
        ready.clear_ready();
    }
}

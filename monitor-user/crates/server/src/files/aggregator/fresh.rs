//! Open files whose text is made for each read from 0: `fresh`, which asks all children now, and
//! `pull` and the others, which wait for none.
//!
//! In: reads. Out: texts, which count for the user of the connection while the file is open.

use super::super::held_text::HeldText;
use super::table::Aggregator;
use super::text::records_of_round;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_model::Ns;
use monitor_ninep::{Errno, FileError};
use monitor_sys::clock;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// A text that counts for a user while it is open.
pub struct CountedText {
    share: Arc<UserShare>,
    text: Option<HeldText>,
}

impl CountedText {
    /// None yet.
    pub const fn new(share: Arc<UserShare>) -> Self {
        Self { share, text: None }
    }

    /// The text for a read at this offset: a new one from 0.
    ///
    /// # Errors
    ///
    /// When the user keeps too much.
    pub fn read(&mut self, offset: u64, make: impl FnOnce() -> Bytes) -> Result<Bytes, FileError> {
        if offset == 0 || self.text.is_none() {
            self.text = None;
            self.set(make())?;
        }
        Ok(self.text.as_ref().map(HeldText::text).unwrap_or_default())
    }

    fn set(&mut self, text: Bytes) -> Result<(), FileError> {
        if self.share.is_over() {
            return Err(FileError::new(Errno::TryAgain, self.share.refusal()));
        }
        self.text = Some(HeldText::new(text, &self.share));
        Ok(())
    }
}

/// A round that ends when its result is not awaited any longer.
struct RoundTask(JoinHandle<String>);

impl Drop for RoundTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An open `fresh`.
pub struct FreshFile {
    aggregator: Arc<Aggregator>,
    text: CountedText,
    /// A round that is awaited.
    round: Option<RoundTask>,
}

impl FreshFile {
    /// Opened; nothing is asked yet.
    pub const fn new(aggregator: Arc<Aggregator>, share: Arc<UserShare>) -> Self {
        Self { aggregator, text: CountedText::new(share), round: None }
    }

    /// The text for a read at this offset. A read from 0 asks all children.
    pub fn poll(
        &mut self,
        offset: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        if offset != 0 && self.round.is_none() {
            return Poll::Ready(self.text.read(offset, Bytes::new));
        }
        let round = self.round.get_or_insert_with(|| {
            let share = Arc::clone(&self.text.share);
            RoundTask(tokio::spawn(ask(Arc::clone(&self.aggregator), share)))
        });
        let Poll::Ready(text) = std::pin::Pin::new(&mut round.0).poll(context) else {
            return Poll::Pending;
        };
        self.round = None;
        let ended = |_| FileError::new(Errno::Io, "the daemon ends");
        Poll::Ready(text.map_err(ended).and_then(|it| self.text.read(0, || it.into())))
    }

    /// Gives up a round that no request waits for.
    pub fn abandon(&mut self) {
        self.round = None;
    }
}

/// Asks all children, and returns at the deadline with what has arrived.
async fn ask(aggregator: Arc<Aggregator>, share: Arc<UserShare>) -> String {
    // A round costs its user as much as a message of its own.
    drop(share.admit_line(|| false).await);
    let mut complete = aggregator.complete();
    let round = aggregator.begin_round().await;
    let deadline = Instant::now() + aggregator.settings().deadline;
    // At the deadline, with what has arrived.
    let _all = timeout_at(deadline, complete.wait_for(|it| *it >= round)).await;
    let began = clock::thread_cpu();
    let text = records_of_round(&aggregator, round);
    share.charge(Ns(clock::thread_cpu().since(began).0));
    text
}

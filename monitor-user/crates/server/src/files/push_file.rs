//! An open `mon/push`, of the node or of a session: samples as they are made, with a filter and a
//! period of its own.
//!
//! In: the filter, and samples of a periodic monitor of the user. Out: lines. A task, not a thread,
//! moves them to a queue with a limit, so that a slow reader delays no other; it begins with the
//! first read, and ends with the file.

use super::sample_filter::{CategoryFields, SampleFilter};
use super::sample_queue::SampleQueue;
use super::sample_source::SampleSource;
use bytes::Bytes;
use monitor_control::session::SessionHold;
use monitor_ninep::FileError;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::task::AbortHandle;

/// An open file.
pub struct PushFile {
    source: SampleSource,
    /// What a filter can name.
    known: &'static [CategoryFields],
    /// What each filter begins with.
    unfiltered: SampleFilter,
    filter: SampleFilter,
    queue: Arc<SampleQueue>,
    /// Makes the samples.
    task: Option<AbortHandle>,
    /// What keeps its session.
    _hold: Option<SessionHold>,
}

impl Drop for PushFile {
    fn drop(&mut self) {
        self.stop();
    }
}

impl PushFile {
    /// Opened, for samples with these categories; nothing is sampled yet.
    pub fn new(
        source: SampleSource,
        (known, unfiltered): (&'static [CategoryFields], SampleFilter),
        hold: Option<SessionHold>,
    ) -> Self {
        let (filter, queue) = (unfiltered.clone(), Arc::default());
        Self { source, known, unfiltered, filter, queue, task: None, _hold: hold }
    }

    /// Samples that are there, or the next one.
    pub fn poll_read(
        &mut self,
        most: usize,
        context: &Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        if self.task.is_none() {
            self.begin();
        }
        self.queue.poll(most, context)
    }

    /// Sets the filter: a write is one. What waits of the previous one is not dropped.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        self.filter = self.unfiltered.clone().with(content, self.known)?;
        if self.task.is_some() {
            self.stop();
            self.begin();
        }
        Ok(content.len())
    }

    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    fn begin(&mut self) {
        let (source, filter) = (self.source.clone(), self.filter.clone());
        // One of its own: a task that was aborted may still run.
        self.queue = Arc::new(self.queue.continued());
        let queue = Arc::clone(&self.queue);
        let task = async move {
            let mut number = 0;
            let followed = source.follow(filter.period, |sample| {
                number += 1;
                match source.text(sample, (number, &filter))? {
                    Some(text) => queue.add(text, sample.dropped),
                    None => queue.lose(sample.dropped),
                }
                Ok(())
            });
            queue.end(followed.await.err());
        };
        self.task = Some(tokio::spawn(task).abort_handle());
    }
}

//! A connection to another service: what may be in flight on it, and the task that carries it.

use super::call_table::{CallTable, Permits};
use super::error::RemoteError;
use super::link;
use monitor_ninep::Request;
use monitor_ninep::limits::MESSAGE_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Calls in flight; further ones wait for one of them. A server of ours accepts 256.
pub const CALLS: usize = 128;
/// Bytes of writes in flight; a server of ours accepts 1 MiB that wait.
pub const WRITE_BYTES: usize = 512 << 10;

/// A connection. It is closed when the last handle, file and call of it is dropped.
#[derive(Debug)]
pub struct Connection {
    /// Its calls.
    pub table: Arc<CallTable>,
    calls: Arc<Semaphore>,
    write_bytes: Arc<Semaphore>,
    message_bytes: AtomicU32,
    deadline: Duration,
    task: AbortHandle,
}

impl Connection {
    /// A connection over a stream, without a message yet. `deadline` is that of each call but
    /// reads and writes.
    pub fn over<S>(stream: S, deadline: Duration) -> Arc<Self>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let table = Arc::<CallTable>::default();
        let task = tokio::spawn(link::carry(stream, Arc::clone(&table))).abort_handle();
        Arc::new(Self {
            table,
            calls: Arc::new(Semaphore::new(CALLS)),
            write_bytes: Arc::new(Semaphore::new(WRITE_BYTES)),
            message_bytes: AtomicU32::new(MESSAGE_BYTES),
            deadline,
            task,
        })
    }

    /// Sets the size of the largest message, as both have agreed on it.
    pub fn agree_message_bytes(&self, bytes: u32) {
        self.message_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the largest message.
    pub fn message_bytes(&self) -> u32 {
        self.message_bytes.load(Ordering::Relaxed)
    }

    /// The result of a future that must end within the deadline of calls.
    ///
    /// # Errors
    ///
    /// Its own, and [`RemoteError::TimedOut`].
    pub async fn within<T>(
        &self,
        what: &str,
        future: impl Future<Output = Result<T, RemoteError>>,
    ) -> Result<T, RemoteError> {
        let after = self.deadline;
        let late = |_| Err(RemoteError::TimedOut { what: what.to_owned(), after });
        timeout(after, future).await.unwrap_or_else(late)
    }

    /// Waits until there is room for a request.
    ///
    /// # Errors
    ///
    /// When the client has ended.
    pub async fn permits(&self, request: &Request<'_>) -> Result<Permits, RemoteError> {
        let closed = |_| RemoteError::Lost { why: "the client has ended".to_owned() };
        let call = Arc::clone(&self.calls).acquire_owned().await.map_err(closed)?;
        let bytes = match request {
            Request::Write { content, .. } => {
                let count = u32::try_from(content.len().min(WRITE_BYTES)).unwrap_or(u32::MAX);
                let bytes = Arc::clone(&self.write_bytes).acquire_many_owned(count);
                Some(bytes.await.map_err(closed)?)
            }
            _ => None,
        };
        Ok((call, bytes))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! A connection to another service: what may be in flight on it, and the task that carries it.

use super::call::Call;
use super::call_table::{CallTable, NewFid, Permits};
use super::error::RemoteError;
use super::link;
use monitor_ninep::limits::MESSAGE_BYTES;
use monitor_ninep::{Reply, Request, VERSION};
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
    /// Agrees on the version over a stream. `deadline` is that of each call but reads and writes.
    ///
    /// # Errors
    ///
    /// When the stream ends, the server does not follow the protocol, or takes too long.
    pub async fn over<S>(stream: S, deadline: Duration) -> Result<Arc<Self>, RemoteError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let table = Arc::<CallTable>::default();
        let task = tokio::spawn(link::carry(stream, Arc::clone(&table))).abort_handle();
        let it = Arc::new(Self {
            table,
            calls: Arc::new(Semaphore::new(CALLS)),
            write_bytes: Arc::new(Semaphore::new(WRITE_BYTES)),
            message_bytes: AtomicU32::new(MESSAGE_BYTES),
            deadline,
            task,
        });
        let request = Request::Version { msize: MESSAGE_BYTES, version: VERSION };
        let replied = it.within("Tversion", async { it.call(&request).await?.await }).await?;
        match replied.reply()? {
            Reply::Version { msize, version } if version == VERSION && msize <= MESSAGE_BYTES => {
                it.message_bytes.store(msize, Ordering::Relaxed);
                Ok(it)
            }
            _ => Err(replied.unexpected()),
        }
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

    /// Sends a request when there is room for it.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub async fn call(self: &Arc<Self>, request: &Request<'_>) -> Result<Call, RemoteError> {
        let permits = self.permits(request).await?;
        self.begin(request, None, permits)
    }

    /// Sends a request that makes a fid, with the number that it gets.
    ///
    /// # Errors
    ///
    /// When the connection has ended, or has too many fids.
    pub async fn call_for_fid<'r>(
        self: &Arc<Self>,
        names: usize,
        request: impl FnOnce(u32) -> Request<'r>,
    ) -> Result<Call, RemoteError> {
        let permits = self.permits(&Request::Flush { old: 0 }).await?;
        let fid = self.table.new_fid()?;
        let begun = self.begin(&request(fid), Some(NewFid { fid, names }), permits);
        begun.inspect_err(|_| self.table.release(fid))
    }

    fn begin(
        self: &Arc<Self>,
        request: &Request<'_>,
        makes: Option<NewFid>,
        permits: Permits,
    ) -> Result<Call, RemoteError> {
        let tag = self.table.begin(request, makes, permits)?;
        Ok(Call::new(Arc::clone(self), tag))
    }

    async fn permits(&self, request: &Request<'_>) -> Result<Permits, RemoteError> {
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

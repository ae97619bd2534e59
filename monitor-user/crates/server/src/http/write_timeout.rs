//! A stream whose writes time out.
//!
//! In: a stream. Out: the same stream, on which a write fails after a time without progress. A
//! client that does not read therefore holds its buffers only for a limited time.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::{pin::Pin, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a write may make no progress.
const STALL_LIMIT: Duration = Duration::from_secs(30);

/// The stream.
pub struct WriteTimeout<S> {
    inner: S,
    stall_timer: Option<Pin<Box<Sleep>>>,
    stalled: Arc<AtomicBool>,
    limit: Duration,
}

impl<S> WriteTimeout<S> {
    /// The stream with the default limit.
    pub fn new(inner: S) -> Self {
        Self { inner, stall_timer: None, stalled: Arc::default(), limit: STALL_LIMIT }
    }

    /// Whether a write timed out; readable after the stream is gone.
    pub fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    fn check_progress<T>(
        &mut self,
        done: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stall_timer = None;
            return done;
        }
        let still = self.limit;
        let waiting = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(still)));
        if waiting.as_mut().poll(cx).is_ready() {
            self.stalled.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_progress(done, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(cx);
        self.check_progress(done, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn a_stalled_reader_times_out_and_a_slow_one_does_not() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("a loop");
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(4);
            let mut ours =
                WriteTimeout { limit: Duration::from_millis(20), ..WriteTimeout::new(ours) };
            let stalled = ours.stalled();
            let slow = async {
                let mut four = [0; 4];
                theirs.read_exact(&mut four).await.expect("the first four");
            };
            let (written, ()) = tokio::join!(ours.write_all(b"12345678"), slow);
            assert!(written.is_ok() && !stalled.load(Ordering::Relaxed));
            let why = ours.write_all(b"9").await.expect_err("a timeout");
            assert_eq!(why.kind(), ErrorKind::TimedOut);
            assert!(stalled.load(Ordering::Relaxed));
        });
    }
}

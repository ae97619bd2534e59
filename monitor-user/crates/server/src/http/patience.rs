//! A stream that gives up on a reader who takes nothing.
//!
//! In: a stream. Out: the same, but that a write which makes no progress for too long fails. So a
//! browser that never reads holds a few buffers, and not for ever.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a write may stand still.
const STILL: Duration = Duration::from_secs(30);

/// The stream.
pub struct Patient<S> {
    inner: S,
    waiting: Option<Pin<Box<Sleep>>>,
    stalled: Arc<AtomicBool>,
    still: Duration,
}

impl<S> Patient<S> {
    /// With all its patience.
    pub fn new(inner: S) -> Self {
        Self { inner, waiting: None, stalled: Arc::default(), still: STILL }
    }

    /// Whether it has given up; can be asked when the stream is gone.
    pub fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    fn judge<T>(&mut self, done: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.waiting = None;
            return done;
        }
        let still = self.still;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(still)));
        if waiting.as_mut().poll(cx).is_ready() {
            self.stalled.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(done, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(done, cx)
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
    fn who_takes_nothing_is_given_up_and_who_is_slow_is_not() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("a loop");
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(4);
            let mut ours = Patient { still: Duration::from_millis(20), ..Patient::new(ours) };
            let stalled = ours.stalled();
            let slow = async {
                let mut four = [0; 4];
                theirs.read_exact(&mut four).await.expect("the first four");
            };
            let (written, ()) = tokio::join!(ours.write_all(b"12345678"), slow);
            assert!(written.is_ok() && !stalled.load(Ordering::Relaxed));
            let why = ours.write_all(b"9").await.expect_err("nobody reads");
            assert_eq!(why.kind(), ErrorKind::TimedOut);
            assert!(stalled.load(Ordering::Relaxed));
        });
    }
}

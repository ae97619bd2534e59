//! What is answered: a text as a whole, or events as they come.
//!
//! In: bytes, or the far end of a queue. Out: a body for hyper, which asks for as much as the
//! connection takes.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::Receiver;

/// A body.
pub enum Content {
    /// All of it.
    Whole(Bytes),
    /// As it comes.
    Live(Live),
}

/// Events as they come.
pub struct Live {
    queue: Receiver<Bytes>,
    /// What of the last one has not been taken.
    rest: Bytes,
}

/// Most that is handed on at once: hyper copies what it is given, and a reader who takes nothing
/// shall hold no more.
const PIECE: usize = 64 << 10;

impl Live {
    /// What comes there.
    pub fn new(queue: Receiver<Bytes>) -> Self {
        Self { queue, rest: Bytes::new() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.rest.is_empty() {
            match ready!(self.queue.poll_recv(cx)) {
                Some(event) => self.rest = event,
                None => return Poll::Ready(None),
            }
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(self.rest.split_to(piece)))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Live(live) => live.poll(cx).map(|it| it.map(|it| Ok(Frame::data(it)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Live(_) => SizeHint::default(),
        }
    }
}

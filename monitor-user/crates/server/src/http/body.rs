//! Responses and their bodies: complete bytes, or a stream of events.
//!
//! In: bytes, or the receiving end of a queue. Out: a body for hyper, which polls for as much as
//! the connection takes.

use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::task::{Context, Poll, ready};
use std::{convert::Infallible, pin::Pin};
use tokio::sync::mpsc::Receiver;

/// A response, without its headers.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its media type.
    pub media: &'static str,
    /// Its body.
    pub content: Content,
}

impl Answer {
    /// A response whose body is complete.
    pub fn whole(media: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, media, content: Content::Whole(bytes.into()) }
    }

    /// A refusal, as a line of text.
    pub fn refused((status, why): (StatusCode, &str)) -> Self {
        let text = format!("{why}\n");
        Self { status, ..Self::whole("text/plain; charset=utf-8", text) }
    }
}

/// A body.
pub enum Content {
    /// Complete bytes.
    Whole(Bytes),
    /// A stream of events.
    Live(Live),
}

/// A stream of events.
pub struct Live {
    queue: Receiver<Bytes>,
    /// The part of the last event that was not polled.
    remainder: Bytes,
}

/// Largest frame: hyper buffers a frame, so this bounds the memory of a client that does not read.
const FRAME_BYTES: usize = 64 << 10;

impl Live {
    /// The events of a queue.
    pub fn new(queue: Receiver<Bytes>) -> Self {
        Self { queue, remainder: Bytes::new() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.remainder.is_empty() {
            match ready!(self.queue.poll_recv(cx)) {
                Some(event) => self.remainder = event,
                None => return Poll::Ready(None),
            }
        }
        let piece = self.remainder.len().min(FRAME_BYTES);
        Poll::Ready(Some(self.remainder.split_to(piece)))
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

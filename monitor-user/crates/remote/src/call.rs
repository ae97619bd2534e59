//! A request that waits for its reply. Dropping it sends Tflush.

use super::connection::Connection;
use super::error::RemoteError;
use super::node::Fid;
use monitor_ninep::Reply;
use monitor_ninep::frame::Frame;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A call in flight: a future of its reply.
#[derive(Debug)]
pub struct Call {
    connection: Arc<Connection>,
    tag: u16,
    has_ended: bool,
}

/// The reply of a call; Rerror is an error instead.
#[derive(Debug)]
pub struct Replied {
    frame: Frame,
    /// The fid that the call has made.
    pub fid: Option<Fid>,
}

impl Call {
    /// The call with this tag.
    pub const fn new(connection: Arc<Connection>, tag: u16) -> Self {
        Self { connection, tag, has_ended: false }
    }
}

impl Future for Call {
    type Output = Result<Replied, RemoteError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let it = &mut *self;
        let Poll::Ready(result) = it.connection.table.poll_reply(it.tag, context) else {
            return Poll::Pending;
        };
        it.has_ended = true;
        let (frame, made) = result?;
        let fid = made.map(|number| Fid::new(Arc::clone(&it.connection), number));
        let replied = Replied { frame, fid };
        Poll::Ready(match replied.reply()? {
            Reply::Error { text } => Err(RemoteError::refused(text)),
            _ => Ok(replied),
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.has_ended {
            self.connection.table.abandon(self.tag);
        }
    }
}

impl Replied {
    /// The reply.
    ///
    /// # Errors
    ///
    /// When it does not have the form of its type.
    pub fn reply(&self) -> Result<Reply<'_>, RemoteError> {
        Reply::decode(self.frame.kind, &self.frame.body).map_err(RemoteError::protocol)
    }

    /// The error of a reply of another type than the request.
    pub fn unexpected(&self) -> RemoteError {
        RemoteError::unexpected(self.frame.kind)
    }

    /// The content of Rread, which is not copied.
    ///
    /// # Errors
    ///
    /// When the reply is another.
    pub fn content(self) -> Result<bytes::Bytes, RemoteError> {
        match self.reply()? {
            Reply::Read { content } => Ok(self.frame.body.slice_ref(content)),
            _ => Err(self.unexpected()),
        }
    }
}

//! A request that waits for its reply. Dropping it sends Tflush.

use super::call_table::{NewFid, Permits};
use super::connection::Connection;
use super::error::RemoteError;
use super::fid::Fid;
use monitor_ninep::frame::Frame;
use monitor_ninep::limits::MESSAGE_BYTES;
use monitor_ninep::{Reply, Request, VERSION};
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

/// Sends a request when there is room for it.
///
/// # Errors
///
/// When the connection has ended.
pub async fn call(
    connection: &Arc<Connection>,
    request: &Request<'_>,
) -> Result<Call, RemoteError> {
    let permits = connection.permits(request).await?;
    begin(connection, request, (None, permits))
}

/// Sends a request that makes a fid, with the number that it gets. `names` is that of a walk.
///
/// # Errors
///
/// When the connection has ended, or has too many fids.
pub async fn call_for_fid<'r>(
    connection: &Arc<Connection>,
    names: usize,
    request: impl FnOnce(u32) -> Request<'r>,
) -> Result<Call, RemoteError> {
    let permits = connection.permits(&Request::Flush { old: 0 }).await?;
    let fid = connection.table.new_fid()?;
    let begun = begin(connection, &request(fid), (Some(NewFid { fid, names }), permits));
    begun.inspect_err(|_| connection.table.release(fid))
}

/// Agrees on the version, as the first message of a connection does.
///
/// # Errors
///
/// When the stream ends, the server does not follow the protocol, or takes too long.
pub async fn agree_version(connection: &Arc<Connection>) -> Result<(), RemoteError> {
    let request = Request::Version { msize: MESSAGE_BYTES, version: VERSION };
    let asked = async { call(connection, &request).await?.await };
    let replied = connection.within("Tversion", asked).await?;
    match replied.reply()? {
        Reply::Version { msize, version } if version == VERSION && msize <= MESSAGE_BYTES => {
            connection.agree_message_bytes(msize);
            Ok(())
        }
        _ => Err(replied.unexpected()),
    }
}

fn begin(
    connection: &Arc<Connection>,
    request: &Request<'_>,
    (makes, permits): (Option<NewFid>, Permits),
) -> Result<Call, RemoteError> {
    let tag = connection.table.begin(request, makes, permits)?;
    Ok(Call { connection: Arc::clone(connection), tag, has_ended: false })
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

//! One connection: bytes between a socket and the state machine of 9P.
//!
//! A task that waits for what the socket brings, what it takes, and what a file has; it has no
//! timer once the client has attached. A frame that arrives in pieces stays in the buffer, whatever
//! happens between.

use crate::user_shares::UserShare;
use monitor_ninep::frame::FrameBuffer;
use monitor_ninep::{Connection, Tree};
use monitor_sys::clock;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;

/// How long a client may take to attach.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages that are handled at once; other connections are served between.
const BATCH: usize = 64;
/// Bytes that are read from the socket at once: those of the largest message.
const CHUNK: usize = 64 << 10;

/// Serves a client until it closes the connection, or breaks the protocol, which is the error.
pub async fn serve<T: Tree, S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    connection: &mut Connection<T>,
    share: &Arc<UserShare>,
) -> Result<(), String> {
    let mut frames = FrameBuffer::default();
    let mut is_flushed = true;
    let mut attach = pin!(sleep(ATTACH_TIMEOUT));
    loop {
        let write = poll_fn(|context| {
            let output = connection.output();
            while poll_write(&mut stream, (&mut *output, &mut is_flushed), context)?.is_ready() {}
            Poll::Ready(Ok::<_, io::Error>(()))
        });
        write.await.map_err(|why| why.to_string())?;
        if execute(connection, &mut frames, share).await? {
            // There may be more; others first.
            tokio::task::yield_now().await;
            continue;
        }
        let next = poll_fn(|context| {
            let written = poll_write(&mut stream, (connection.output(), &mut is_flushed), context);
            if written?.is_ready() {
                return Poll::Ready(Ok(Next::Continue));
            }
            if connection.wants_input() {
                if let Poll::Ready(count) = poll_read(&mut stream, &mut frames, context)? {
                    let end = if count == 0 { Next::End } else { Next::Continue };
                    return Poll::Ready(Ok(end));
                }
                if connection.poll_woken(context).is_ready() {
                    return Poll::Ready(Ok(Next::Continue));
                }
            }
            if !connection.is_attached() && attach.as_mut().poll(context).is_ready() {
                let why = format!("nothing was attached within {ATTACH_TIMEOUT:?}");
                return Poll::Ready(Err(io::Error::other(why)));
            }
            Poll::Pending
        });
        match next.await.map_err(|why| why.to_string())? {
            Next::Continue => {}
            Next::End => return Ok(()),
        }
    }
}

/// What follows when a connection is woken.
enum Next {
    /// There may be messages, or room for answers.
    Continue,
    /// The client has closed the stream.
    End,
}

/// Executes messages that have arrived; true if there was one.
async fn execute<T: Tree>(
    connection: &mut Connection<T>,
    frames: &mut FrameBuffer,
    share: &Arc<UserShare>,
) -> Result<bool, String> {
    let mut next = |connection: &Connection<T>| {
        if !connection.wants_input() {
            return Ok(None);
        }
        frames.next(connection.message_bytes()).map_err(|why| why.to_string())
    };
    let Some(first) = next(connection)? else { return Ok(false) };
    let permit = share.admit_line(|| false).await;
    let began = clock::thread_cpu();
    let mut frame = Some(first);
    for _ in 0..BATCH {
        let Some(it) = frame else { break };
        connection.receive(&it).map_err(|why| why.to_string())?;
        frame = next(connection)?;
    }
    if let Some(last) = frame {
        connection.receive(&last).map_err(|why| why.to_string())?;
    }
    share.charge_socket(began);
    drop(permit);
    Ok(true)
}

/// Reads what is there; no bytes at the end of the stream.
fn poll_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    frames: &mut FrameBuffer,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut bytes = [MaybeUninit::uninit(); CHUNK];
    let mut bytes = ReadBuf::uninit(&mut bytes);
    match ready!(Pin::new(stream).poll_read(context, &mut bytes)) {
        // A client that was killed does not end TLS.
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => return Poll::Ready(Ok(0)),
        read => read?,
    }
    frames.extend(bytes.filled());
    Poll::Ready(Ok(bytes.filled().len()))
}

/// Writes what the stream takes; ready when it has taken some, as there may be room for more.
fn poll_write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    (output, is_flushed): (&mut Vec<u8>, &mut bool),
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    if !output.is_empty() {
        *is_flushed = false;
        let count = ready!(Pin::new(&mut *stream).poll_write(context, output))?;
        if count == 0 {
            return Poll::Ready(Err(ErrorKind::WriteZero.into()));
        }
        output.drain(..count);
        if output.is_empty() {
            // A long reply leaves a long buffer.
            *output = Vec::new();
        }
        return Poll::Ready(Ok(()));
    }
    if !*is_flushed {
        // With TLS, what was written may not be sent yet.
        ready!(Pin::new(stream).poll_flush(context))?;
        *is_flushed = true;
    }
    Poll::Pending
}

#[cfg(test)]
mod tests;

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
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until};

/// How long a client may take to attach.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages that are handled at once; other connections are served between.
const BATCH: usize = 64;
/// Bytes that are read from the socket at once.
const CHUNK: usize = 16 << 10;

/// Serves a client until it closes the connection, or breaks the protocol, which is the error.
pub async fn serve<T: Tree>(
    stream: &UnixStream,
    connection: &mut Connection<T>,
    share: &Arc<UserShare>,
) -> Result<(), String> {
    let mut frames = FrameBuffer::default();
    let deadline = Instant::now() + ATTACH_TIMEOUT;
    loop {
        while write(stream, connection.output()).map_err(|why| why.to_string())? {}
        if execute(connection, &mut frames, share).await? {
            // There may be more; others first.
            tokio::task::yield_now().await;
            continue;
        }
        let wants_input = connection.wants_input();
        let has_output = !connection.output().is_empty();
        tokio::select! {
            ready = stream.readable(), if wants_input => {
                ready.map_err(|why| why.to_string())?;
                if !read(stream, &mut frames).map_err(|why| why.to_string())? {
                    return Ok(());
                }
            }
            ready = stream.writable(), if has_output => ready.map_err(|why| why.to_string())?,
            () = poll_fn(|context| connection.poll_woken(context)), if wants_input => {}
            () = sleep_until(deadline), if !connection.is_attached() => {
                return Err(format!("nothing was attached within {ATTACH_TIMEOUT:?}"));
            }
        }
    }
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

/// Reads what is there; false at the end of the stream.
fn read(stream: &UnixStream, frames: &mut FrameBuffer) -> io::Result<bool> {
    let mut bytes = [0; CHUNK];
    match stream.try_read(&mut bytes) {
        Ok(0) => Ok(false),
        Ok(n) => {
            frames.extend(&bytes[..n]);
            Ok(true)
        }
        Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(why) => Err(why),
    }
}

/// Writes what the socket takes; true if there is more, and it may take more.
fn write(stream: &UnixStream, output: &mut Vec<u8>) -> io::Result<bool> {
    if output.is_empty() {
        return Ok(false);
    }
    match stream.try_write(output) {
        Ok(n) => {
            output.drain(..n);
            if output.is_empty() {
                // A long reply leaves a long buffer.
                *output = Vec::new();
            }
            Ok(!output.is_empty())
        }
        Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests;

//! The bytes of one connection, between a stream and its table of calls.

use super::call_table::CallTable;
use super::error::RemoteError;
use monitor_ninep::frame::FrameBuffer;
use monitor_ninep::limits::MESSAGE_BYTES;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

/// Bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// Carries bytes until the stream ends, and closes the table then.
pub async fn carry<S: AsyncRead + AsyncWrite>(stream: S, table: Arc<CallTable>) {
    let (input, output) = split(stream);
    let Err(why) = tokio::select! {
        read = read(input, &table) => read,
        written = write(output, &table) => written,
    };
    table.close(why);
}

/// What never succeeds: it ends with its error.
enum Never {}

async fn read(mut input: impl AsyncRead + Unpin, table: &CallTable) -> Result<Never, RemoteError> {
    let mut frames = FrameBuffer::default();
    let mut bytes = vec![0; CHUNK];
    loop {
        match input.read(&mut bytes).await.map_err(lost)? {
            0 => return Err(RemoteError::Lost { why: "the server has closed it".to_owned() }),
            n => frames.extend(&bytes[..n]),
        }
        while let Some(frame) = frames.next(MESSAGE_BYTES).map_err(RemoteError::protocol)? {
            table.receive(frame)?;
        }
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    table: &CallTable,
) -> Result<Never, RemoteError> {
    loop {
        let bytes = table.output().await;
        output.write_all(&bytes).await.map_err(lost)?;
        output.flush().await.map_err(lost)?;
    }
}

fn lost(why: std::io::Error) -> RemoteError {
    RemoteError::Lost { why: why.to_string() }
}

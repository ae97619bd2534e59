//! A connection: lines in, lines out, until either side closes it.
//!
//! In: a stream, an outbox and a limit. Out: arrivals, one for each line. A line over the limit is
//! answered and ends the connection; nothing longer than the limit is buffered.

use super::outbox::Outbox;
use bytes::{Bytes, BytesMut};
use monitor_omis::{Status, Value};
use monitor_protocol::call::{Fault, INVALID_REQUEST};
use monitor_protocol::{Conn, reply};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::Sender;
use tokio_util::codec::{AnyDelimiterCodec, Decoder};

/// A line, without its line break.
pub type Line = Bytes;

/// An input from a connection.
pub enum Arrival {
    /// A line.
    Line(Conn, Line),
    /// It has closed.
    Closed(Conn),
}

/// Reads and writes until the other end closes, or the outbox is closed.
pub async fn serve_lines<S: AsyncRead + AsyncWrite>(
    conn: Conn,
    stream: S,
    (outbox, request_bytes): (Arc<Outbox>, usize),
    arrivals: Sender<Arrival>,
) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let read = async {
        read_lines(conn, &mut reader, (&outbox, request_bytes), &arrivals).await;
        // A client that has closed its sending side may still read the pending replies.
        outbox.finish_input();
    };
    let write = async {
        while let Some(chunk) = outbox.next().await {
            if writer.write_all(&chunk).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    let mut write = std::pin::pin!(write);
    tokio::select! {
        () = &mut write => {}
        () = read => write.await,
    }
    // Fails only if the daemon is shutting down.
    let _ = arrivals.send(Arrival::Closed(conn)).await;
}

async fn read_lines(
    conn: Conn,
    reader: &mut (impl AsyncRead + Unpin),
    (outbox, max): (&Outbox, usize),
    arrivals: &Sender<Arrival>,
) {
    let mut codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), max);
    let mut buffer = BytesMut::new();
    loop {
        match codec.decode(&mut buffer) {
            Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Some(line)) => {
                outbox.wait_for_room().await;
                outbox.reserve_reply();
                if arrivals.send(Arrival::Line(conn, line)).await.is_err() {
                    return;
                }
            }
            Ok(None) => match reader.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            Err(_) => {
                outbox.reserve_reply();
                return outbox.reply(too_long(&buffer, max));
            }
        }
    }
}

/// Whether a line is a request of the request language, not a call.
pub fn is_request(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|&first| first != b'{')
}

/// The answer to a line over the limit: a JSON error for a call, an OMIS reply for a request.
fn too_long(begin: &[u8], max: usize) -> Vec<u8> {
    let message = format!("a line is longer than {max} bytes, the limit \"request_bytes\"");
    if !is_request(begin) {
        return reply::fault_line(&Fault { tag: None, code: INVALID_REQUEST, message });
    }
    let (Status(limit), text) = (Status::LIMIT, Value::from(message.as_str()));
    format!("0 [] error({limit},{max},{text})\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::LINE_BYTES;
    use tokio::sync::mpsc::channel;

    fn exchange(bytes: &[u8]) -> (Vec<String>, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let (sender, mut arrivals) = channel(4);
            let outbox = Arc::new(Outbox::new(1 << 20));
            let receiver = Arc::clone(&outbox);
            let client = async {
                let _ = theirs.write_all(bytes).await;
                let _ = theirs.shutdown().await;
                let mut answer = String::new();
                let _ = theirs.read_to_string(&mut answer).await;
                answer
            };
            let server = async {
                let mut lines = Vec::new();
                while let Some(Arrival::Line(_, line)) = arrivals.recv().await {
                    receiver.cancel_reply();
                    lines.push(String::from_utf8_lossy(&line).into_owned());
                }
                lines
            };
            let ((), answer, lines) =
                tokio::join!(serve_lines(7, ours, (outbox, LINE_BYTES), sender), client, server);
            (lines, answer)
        })
    }

    #[test]
    fn complete_lines_arrive_and_empty_ones_do_not() {
        assert_eq!(exchange(b"a\n\n \nbc\nhalf").0, ["a", "bc"]);
    }

    #[test]
    fn a_line_over_the_limit_is_answered_and_ends_the_connection() {
        for (first, begin) in [(b'{', "{\"jsonrpc\""), (b'1', "0 [] error(109,1048576,")] {
            let (lines, answer) = exchange(&[first; LINE_BYTES + 2]);
            assert!(lines.is_empty());
            assert!(answer.starts_with(begin), "{answer}");
            assert!(answer.contains("a line is longer than 1048576 bytes"), "{answer}");
        }
    }
}

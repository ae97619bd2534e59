//! A connection: lines in, lines out, until either side has enough.
//!
//! In: a stream, an outbox and a limit. Out: arrivals, one for each line. A line that is too long
//! is answered and ends the connection; nothing longer than the limit is ever kept.

use super::outbox::Outbox;
use bytes::{Bytes, BytesMut};
use monitor_omis::{Status, Value};
use monitor_protocol::Conn;
use monitor_protocol::call::{Fault, INVALID_REQUEST};
use monitor_protocol::reply;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::Sender;
use tokio_util::codec::{AnyDelimiterCodec, Decoder};

/// A line, without its end.
pub type Line = Bytes;

/// What a connection has to say.
pub enum Arrival {
    /// A line.
    Line(Conn, Line),
    /// It has closed.
    Closed(Conn),
}

/// Reads and writes until the other end closes, or the outbox is closed.
pub async fn converse<S: AsyncRead + AsyncWrite>(
    conn: Conn,
    stream: S,
    (outbox, request_bytes): (Arc<Outbox>, usize),
    arrivals: Sender<Arrival>,
) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let read = async {
        listen(conn, &mut reader, (&outbox, request_bytes), &arrivals).await;
        // Whoever only stops writing may still read what he asked for.
        outbox.leave();
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
    // The loop may be gone already: then there is nobody to tell.
    let _ = arrivals.send(Arrival::Closed(conn)).await;
}

async fn listen(
    conn: Conn,
    reader: &mut (impl AsyncRead + Unpin),
    (outbox, most): (&Outbox, usize),
    arrivals: &Sender<Arrival>,
) {
    let mut codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), most);
    let mut buffer = BytesMut::new();
    loop {
        match codec.decode(&mut buffer) {
            Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Some(line)) => {
                outbox.room().await;
                outbox.owe();
                if arrivals.send(Arrival::Line(conn, line)).await.is_err() {
                    return;
                }
            }
            Ok(None) => match reader.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            Err(_) => {
                outbox.owe();
                return outbox.reply(too_long(&buffer, most));
            }
        }
    }
}

/// Whether it is a line of the request language, and no call.
pub fn is_request(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|&first| first != b'{')
}

/// The answer to a line over the limit, in the language that it began in.
fn too_long(begin: &[u8], most: usize) -> Vec<u8> {
    let message = format!("a line is longer than {most} bytes, the limit \"request_bytes\"");
    if !is_request(begin) {
        return reply::faulty(&Fault { tag: None, code: INVALID_REQUEST, message });
    }
    let (Status(limit), text) = (Status::LIMIT, Value::from(message.as_str()));
    format!("0 [] error({limit},{most},{text})\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::LINE_BYTES;
    use tokio::sync::mpsc::channel;

    fn said(bytes: &[u8]) -> (Vec<String>, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let (sender, mut arrivals) = channel(4);
            let outbox = Arc::new(Outbox::new(1 << 20));
            let hearer = Arc::clone(&outbox);
            let talk = async {
                let _ = theirs.write_all(bytes).await;
                let _ = theirs.shutdown().await;
                let mut answer = String::new();
                let _ = theirs.read_to_string(&mut answer).await;
                answer
            };
            let hear = async {
                let mut lines = Vec::new();
                while let Some(Arrival::Line(_, line)) = arrivals.recv().await {
                    hearer.forgive();
                    lines.push(String::from_utf8_lossy(&line).into_owned());
                }
                lines
            };
            let ((), answer, lines) =
                tokio::join!(converse(7, ours, (outbox, LINE_BYTES), sender), talk, hear);
            (lines, answer)
        })
    }

    #[test]
    fn lines_arrive_whole_and_empty_ones_do_not() {
        assert_eq!(said(b"a\n\n \nbc\nhalf").0, ["a", "bc"]);
    }

    #[test]
    fn a_line_over_the_limit_is_answered_and_ends_it() {
        for (first, begin) in [(b'{', "{\"jsonrpc\""), (b'1', "0 [] error(109,1048576,")] {
            let (lines, answer) = said(&[first; LINE_BYTES + 2]);
            assert!(lines.is_empty());
            assert!(answer.starts_with(begin), "{answer}");
            assert!(answer.contains("a line is longer than 1048576 bytes"), "{answer}");
        }
    }
}

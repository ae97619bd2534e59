//! A connection: lines in, lines out, until either side closes it.
//!
//! In: a stream, an outbox and a limit. Out: arrivals, one for each line. A line over the limit is
//! answered and ends the connection; nothing longer than the limit is buffered.

use super::outbox::Outbox;
use super::user_shares::{HeldBytes, UserShare};
use bytes::{Bytes, BytesMut};
use monitor_omis::{Status, Value};
use monitor_protocol::call::{Fault, INVALID_REQUEST};
use monitor_protocol::{Conn, reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{ops::Deref, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixStream, unix::OwnedReadHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc::Sender};
use tokio::time::{sleep, timeout};
use tokio_util::codec::{AnyDelimiterCodec, Decoder};

/// How long a line waits for other connections of its user to read what they have.
const SHARE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is seen whether a client with pending replies has left.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Bytes of an unfinished line that are not counted for its user.
const UNCOUNTED_BYTES: usize = 4096;

/// A line, without its line break.
pub struct Line {
    bytes: Bytes,
    /// Held until the line is handled.
    _permit: Option<OwnedSemaphorePermit>,
}

impl From<Bytes> for Line {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, _permit: None }
    }
}

impl Deref for Line {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An input from a connection.
pub enum Arrival {
    /// A line.
    Line(Conn, Line),
    /// It has closed.
    Closed(Conn),
}

/// The daemon's end of a connection.
pub struct LineConn {
    /// Its number.
    pub conn: Conn,
    /// Its send queue.
    pub outbox: Arc<Outbox>,
    /// The share of its user.
    pub share: Arc<UserShare>,
    /// Longest line.
    pub request_bytes: usize,
}

/// The reading half of a connection.
pub trait LineReader: AsyncRead + Unpin {
    /// Whether the other end has closed both directions: it reads no reply.
    fn has_left(&self) -> bool;
}

impl LineReader for OwnedReadHalf {
    fn has_left(&self) -> bool {
        let stream: &UnixStream = self.as_ref();
        let mut fds = [PollFd::new(stream, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).is_ok()
            && fds[0].revents().contains(PollFlags::HUP)
    }
}

/// Reads and writes until the other end closes, or the outbox is closed.
pub async fn serve_lines(
    this: LineConn,
    (mut reader, mut writer): (impl LineReader, impl AsyncWrite + Unpin),
    arrivals: Sender<Arrival>,
) {
    let (conn, outbox) = (this.conn, &this.outbox);
    let read = async {
        this.read_lines(&mut reader, &arrivals).await;
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
        () = read => tokio::select! {
            () = &mut write => {}
            () = has_left(&reader) => {}
        },
    }
    // Fails only if the daemon is shutting down.
    let _ = arrivals.send(Arrival::Closed(conn)).await;
}

/// Waits until the other end, which has closed its sending side, has closed the other one too.
async fn has_left(reader: &impl LineReader) {
    while !reader.has_left() {
        sleep(LOOK_AGAIN).await;
    }
}

impl LineConn {
    async fn read_lines(&self, reader: &mut impl LineReader, arrivals: &Sender<Arrival>) {
        let max = self.request_bytes;
        let mut codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), max);
        let mut buffer = BytesMut::new();
        let mut unfinished = HeldBytes::new(&self.share);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
                Ok(Some(line)) => {
                    if !self.wait_for_room().await {
                        return self.refuse(&line, (self.share.refusal(), 0));
                    }
                    let permit = self.share.admit_line(|| reader.has_left()).await;
                    if permit.is_none() {
                        return;
                    }
                    self.outbox.reserve_reply();
                    let line = Line { bytes: line, _permit: permit };
                    if arrivals.send(Arrival::Line(self.conn, line)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => {
                    if buffer.is_empty() {
                        // A long line leaves a long buffer.
                        buffer = BytesMut::new();
                    }
                    unfinished.set(buffer.len().saturating_sub(UNCOUNTED_BYTES));
                    if buffer.len() > UNCOUNTED_BYTES && self.share.is_over() {
                        return self.refuse(&buffer, (self.share.refusal(), 0));
                    }
                    match reader.read_buf(&mut buffer).await {
                        Ok(0) | Err(_) => return,
                        Ok(_) => {}
                    }
                }
                Err(_) => {
                    let why =
                        format!("a line is longer than {max} bytes, the limit \"request_bytes\"");
                    return self.refuse(&buffer, (why, max));
                }
            }
        }
    }

    /// Waits until the connection and its user have room for a reply. False if only other
    /// connections of the user are in the way, and do not read.
    async fn wait_for_room(&self) -> bool {
        loop {
            self.outbox.wait_for_room().await;
            if !self.share.is_over() {
                return true;
            }
            let waited = timeout(SHARE_TIMEOUT, self.share.wait_for_room()).await;
            if waited.is_err() && self.outbox.bytes() == 0 {
                return false;
            }
        }
    }

    /// Answers a line that is not taken: a JSON error to a call, an OMIS reply to a request.
    fn refuse(&self, line: &[u8], (message, limit): (String, usize)) {
        self.outbox.reserve_reply();
        if !is_request(line) {
            let fault = Fault { tag: None, code: INVALID_REQUEST, message };
            return self.outbox.reply(reply::fault_line(&fault));
        }
        let (Status(status), text) = (Status::LIMIT, Value::from(message.as_str()));
        self.outbox.reply(format!("0 [] error({status},{limit},{text})\n").into_bytes());
    }
}

/// Whether a line is a request of the request language, not a call.
pub fn is_request(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|&first| first != b'{')
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::LINE_BYTES;
    use tokio::sync::mpsc::channel;

    impl LineReader for tokio::io::ReadHalf<tokio::io::DuplexStream> {
        fn has_left(&self) -> bool {
            false
        }
    }

    fn exchange(bytes: &[u8]) -> (Vec<String>, String) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let (sender, mut arrivals) = channel(4);
            let outbox = Arc::new(Outbox::new(1 << 20));
            let receiver = Arc::clone(&outbox);
            let share = UserShare::of_test(usize::MAX);
            let conn = LineConn { conn: 7, outbox, share, request_bytes: LINE_BYTES };
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
                tokio::join!(serve_lines(conn, tokio::io::split(ours), sender), client, server);
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

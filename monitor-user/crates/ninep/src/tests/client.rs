//! The client against the server, in memory.

use super::world::{NAMES, TestTree};
use crate::client::{Client, ClientError};
use crate::frame::FrameBuffer;
use crate::limits::Limits;
use crate::{Connection, stat::QID_DIRECTORY};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// A stream whose other end is a connection of the server.
struct Loopback {
    server: Connection<TestTree>,
    input: FrameBuffer,
}

impl Write for Loopback {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input.extend(bytes);
        while let Some(frame) = self.input.next(self.server.message_bytes()).unwrap() {
            self.server.receive(&frame).unwrap();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Loopback {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // In small pieces: frames arrive in parts.
        let count = into.len().min(5).min(self.server.output().len());
        into[..count].copy_from_slice(&self.server.output()[..count]);
        self.server.output().drain(..count);
        Ok(count)
    }
}

fn client() -> Client<Loopback> {
    let server = Connection::new(TestTree(Arc::default()), Limits::default());
    Client::attach(Loopback { server, input: FrameBuffer::default() }, "bob").unwrap()
}

#[test]
fn the_client_lists_reads_and_stats() {
    let mut it = client();
    let names: Vec<String> = it.list("/").unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, NAMES[1..7]);
    let mut text = Vec::new();
    for path in ["/sub/leaf", "text"] {
        it.read_while(path, |content| {
            text.extend_from_slice(content);
            true
        })
        .unwrap();
    }
    assert_eq!(text, b"hello, world\nhello, world\n");
    let stat = it.stat("sub").unwrap();
    assert_eq!((stat.qid.kind, stat.user.as_str()), (QID_DIRECTORY, "bob"));
}

#[test]
fn a_refusal_leaves_the_client_usable() {
    let mut it = client();
    assert!(matches!(it.read_while("none", |_| true), Err(ClientError::Refused(_))));
    assert!(matches!(it.read_while("sub/none", |_| true), Err(ClientError::NotFound)));
    assert!(matches!(it.write("text", b"x"), Err(ClientError::Refused(_))));
    assert_eq!(it.list("sub").unwrap().len(), 1);
}

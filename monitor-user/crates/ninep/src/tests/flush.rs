//! Tflush before, while and after its request is answered: no reply after Rflush, nothing lost.

use super::world::TestClient;
use crate::limits::Limits;
use crate::tree::Direction;
use crate::{Request, Violation};
use bytes::Bytes;
use std::sync::Arc;

const FLUSH: Request<'static> = Request::Flush { old: 5 };

fn read(count: u32) -> Request<'static> {
    Request::Read { fid: 1, offset: 0, count }
}

fn write(content: &[u8]) -> Request<'_> {
    Request::Write { fid: 1, offset: 0, content }
}

fn reader() -> TestClient {
    let mut it = TestClient::attached("alice");
    assert_eq!(it.open(1, "queue", 0), "8 open 2");
    it
}

#[track_caller]
fn bring(it: &mut TestClient, bytes: &[u8]) {
    let mut world = it.world.lock().unwrap();
    world.queue.extend(bytes);
    world.room += bytes.len();
    world.wake();
}

#[test]
fn flush_of_a_read_that_waits() {
    let mut it = reader();
    assert_eq!(it.ask(5, &read(10)), "");
    assert_eq!(it.ask(6, &FLUSH), "6 flush");
    bring(&mut it, b"abc");
    assert_eq!(it.replies(), [""; 0]);
    assert_eq!(it.world.lock().unwrap().abandoned, [Direction::Read]);
    assert_eq!(it.ask(5, &read(10)), "5 read \"abc\"");
}

#[test]
fn flush_while_the_bytes_of_the_read_arrive() {
    let mut it = reader();
    it.ask(5, &read(10));
    // The wake has happened, and the connection has not run since.
    bring(&mut it, b"abc");
    it.send(6, &FLUSH);
    assert_eq!(it.replies(), ["6 flush"]);
    assert_eq!(it.ask(7, &read(10)), "7 read \"abc\"");
}

#[test]
fn flush_after_the_reply_is_queued() {
    let mut it = reader();
    bring(&mut it, b"abc");
    it.send(5, &read(10));
    it.send(6, &FLUSH);
    assert_eq!(it.replies(), ["5 read \"abc\"", "6 flush"]);
}

#[test]
fn flush_of_the_first_of_two_reads_leaves_the_second() {
    let mut it = reader();
    it.ask(5, &read(10));
    it.ask(4, &read(10));
    assert_eq!(it.ask(6, &FLUSH), "6 flush");
    bring(&mut it, b"abc");
    assert_eq!(it.replies(), ["4 read \"abc\""]);
}

#[test]
fn bytes_of_a_flushed_read_are_for_another_connection() {
    let mut first = reader();
    let mut second = TestClient::with_limits("bob", Limits::default(), &first.world);
    second.open(1, "queue", 0);
    first.ask(5, &read(10));
    second.ask(5, &read(10));
    bring(&mut first, b"abc");
    first.send(6, &FLUSH);
    assert_eq!(first.replies(), ["6 flush"]);
    assert_eq!(second.replies(), ["5 read \"abc\""]);
}

#[test]
fn bytes_for_a_connection_that_is_gone_are_for_another() {
    let mut first = reader();
    let mut second = TestClient::with_limits("bob", Limits::default(), &first.world);
    second.open(1, "queue", 0);
    first.ask(5, &read(10));
    bring(&mut first, b"abc");
    drop(first);
    assert_eq!(second.ask(5, &read(10)), "5 read \"abc\"");
}

#[test]
fn flush_of_a_write_that_waits() {
    let mut it = TestClient::attached("alice");
    it.open(1, "sink", 1);
    it.world.lock().unwrap().room = 1;
    assert_eq!(it.ask(5, &write(b"abc")), "");
    assert_eq!(it.ask(7, &write(b"xyz")), "");
    assert_eq!(it.ask(6, &FLUSH), "6 flush");
    it.world.lock().unwrap().room = 3;
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["7 write 3"]);
    assert_eq!(it.world.lock().unwrap().sink, b"axyz");
    assert_eq!(it.world.lock().unwrap().abandoned, [Direction::Write]);
}

#[test]
fn flush_of_a_write_behind_another_does_not_touch_that() {
    let mut it = TestClient::attached("alice");
    it.open(1, "sink", 1);
    it.world.lock().unwrap().room = 1;
    it.ask(7, &write(b"xyz"));
    it.ask(5, &write(b"abc"));
    assert_eq!(it.ask(6, &FLUSH), "6 flush");
    it.world.lock().unwrap().room = 100;
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["7 write 3"]);
    assert_eq!(it.world.lock().unwrap().sink, b"xyz");
    assert_eq!(it.world.lock().unwrap().abandoned, []);
}

#[test]
fn flush_of_a_write_that_is_answered() {
    let mut it = TestClient::attached("alice");
    it.open(1, "sink", 1);
    it.world.lock().unwrap().room = 3;
    it.send(5, &write(b"abc"));
    it.send(6, &FLUSH);
    assert_eq!(it.replies(), ["5 write 3", "6 flush"]);
}

#[test]
fn flush_of_an_open_that_waits() {
    let mut it = TestClient::attached("alice");
    assert_eq!(it.open(1, "slow", 0), "");
    assert_eq!(it.ask(6, &Request::Flush { old: 8 }), "6 flush");
    it.world.lock().unwrap().open = true;
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), [""; 0]);
    assert_eq!(it.ask(1, &Request::Open { fid: 1, mode: 0 }), "1 open 4");
}

#[test]
fn flush_of_nothing_and_of_itself_is_answered() {
    let mut it = reader();
    assert_eq!(it.ask(6, &FLUSH), "6 flush");
    assert_eq!(it.ask(5, &FLUSH), "5 flush");
    it.ask(5, &read(10));
    assert_eq!(it.ask(5, &FLUSH), "5 flush");
    bring(&mut it, b"abc");
    assert_eq!(it.replies(), [""; 0]);
}

#[test]
fn a_malformed_flush_has_no_reply_and_ends_the_connection() {
    let mut it = TestClient::bare(Limits::default(), &Arc::default());
    let frame = crate::frame::Frame { kind: 108, tag: 3, body: Bytes::from_static(b"x") };
    assert!(matches!(it.connection.receive(&frame), Err(Violation::Flush(_))));
    assert_eq!(it.replies(), [""; 0]);
}

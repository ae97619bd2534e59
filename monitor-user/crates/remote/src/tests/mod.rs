//! The client against a server in the process of the test.

mod server;

use super::call_table::FIDS;
use super::connection::{CALLS, Connection};
use super::{Remote, RemoteError, RemoteFile, RemoteMode};
use monitor_ninep::stat::Qid;
use monitor_ninep::{NO_TAG, Reply};
use server::{LARGE, NAMES, ServedFiles, SharedFiles, serve};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::timeout;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(120);
/// A deadline that one call exceeds, and no other on a busy machine.
const DEADLINE: Duration = Duration::from_secs(1);
/// A time in which nothing happens.
const SHORT: Duration = Duration::from_millis(20);

/// Runs a test on one thread, within a deadline.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(LONG, test).await.expect("within the deadline") });
}

async fn attached(deadline: Duration) -> (Remote, SharedFiles, JoinHandle<()>) {
    let (near, far) = duplex(16 << 10);
    let served = Arc::<std::sync::Mutex<ServedFiles>>::default();
    let server = tokio::spawn(serve(far, Arc::clone(&served)));
    (Remote::over(near, "alice", deadline).await.unwrap(), served, server)
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        yield_now().await;
    }
}

/// Waits until a connection has this many tags and fids in use, and the server as many fids.
async fn in_use(it: &Connection, served: &SharedFiles, (tags, fids): (usize, usize)) {
    until(|| it.table.in_use() == (tags, fids) && served.lock().unwrap().fids == fids).await;
}

#[test]
fn files_are_listed_read_and_written() {
    run(async {
        let (it, served, _server) = attached(LONG).await;
        let names: Vec<_> = it.list("/").await.unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, NAMES);
        assert_eq!(it.read("text", 100).await.unwrap(), b"hello\n");
        assert_eq!(it.read("large", LARGE).await.unwrap(), vec![b'x'; LARGE]);
        assert_eq!(it.read("large", 99).await, Err(RemoteError::TooLarge { most: 99 }));
        // More names than one walk has.
        let deep = "deep/".repeat(40);
        assert!(it.stat(&deep).await.unwrap().qid.is_directory());
        let content: Vec<u8> = (0..=255).cycle().take(LARGE).collect();
        let file = it.open("sink", RemoteMode::Write).await.unwrap();
        file.upload(0, &content).await.unwrap();
        assert_eq!(served.lock().unwrap().sink, content);
        file.write_all(3, b"abc").await.unwrap();
        assert_eq!(served.lock().unwrap().sink[2..7], [2, b'a', b'b', b'c', 6]);
        drop(file);
        in_use(&it.root().connection, &served, (0, 1)).await;
    });
}

#[test]
fn a_refusal_leaves_the_connection_usable() {
    run(async {
        let (it, served, _server) = attached(LONG).await;
        let absent = |path: &'static str| async { it.read(path, 9).await };
        assert_eq!(absent("none").await, Err(RemoteError::NotFound));
        assert_eq!(absent("deep/none").await, Err(RemoteError::NotFound));
        let far: &'static str = "deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/deep/\
                                 deep/deep/deep/deep/none";
        assert_eq!(absent(far).await, Err(RemoteError::NotFound));
        let refused = it.write("queue", b"x").await;
        assert_eq!(refused, Err(RemoteError::Refused { text: "Broken pipe".to_owned() }));
        let denied = it.attach("mallory").await.err();
        assert_eq!(denied, Some(RemoteError::Refused { text: "Permission denied".to_owned() }));
        let other = it.attach("none").await.unwrap();
        assert_eq!(other.read("text", 9).await.unwrap(), b"hello\n");
        drop(other);
        in_use(&it.root().connection, &served, (0, 1)).await;
    });
}

#[test]
fn more_calls_than_may_be_in_flight_wait_and_all_are_answered() {
    run(async {
        let (it, served, _server) = attached(LONG).await;
        let queue = Arc::new(it.open("queue", RemoteMode::ReadWrite).await.unwrap());
        let text = it.open("text", RemoteMode::Read).await.unwrap();
        let mut readers = JoinSet::new();
        let mut read = |count: usize| {
            for _ in 0..count {
                let queue = Arc::clone(&queue);
                readers.spawn(async move { queue.read(0, 10).await.unwrap().len() });
            }
        };
        read(CALLS - 1);
        until(|| served.lock().unwrap().waiting == CALLS - 1).await;
        // Blocked calls hold up no other, while there is room for one.
        assert_eq!(text.read(0, 10).await.unwrap(), "hello\n");
        read(CALLS + 1);
        until(|| served.lock().unwrap().waiting == CALLS).await;
        served.lock().unwrap().push(&vec![b'x'; CALLS * 2]);
        while let Some(count) = readers.join_next().await {
            assert_eq!(count.unwrap(), 1);
        }
        assert_eq!(served.lock().unwrap().most_waiting, CALLS);
    });
}

#[test]
fn a_dropped_call_is_flushed_and_takes_nothing() {
    run(async {
        let (it, served, _server) = attached(LONG).await;
        let queue = it.open("queue", RemoteMode::Read).await.unwrap();
        for _ in 0..10 {
            assert!(timeout(SHORT, queue.read(0, 10)).await.is_err());
        }
        until(|| served.lock().unwrap().waiting == 0).await;
        in_use(&it.root().connection, &served, (0, 2)).await;
        served.lock().unwrap().push(b"abc");
        for want in ["a", "b", "c"] {
            assert_eq!(queue.read(0, 10).await.unwrap(), want);
        }
    });
}

/// Polls a future this many times, and drops it.
async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(future.as_mut().poll(context).is_ready())
        });
        if polled.await {
            return;
        }
        yield_now().await;
    }
}

#[test]
fn a_call_dropped_at_any_point_leaves_no_fid() {
    run(async {
        let (it, served, _server) = attached(LONG).await;
        for polls in 0..20 {
            dropped_after(polls, it.stat("text")).await;
            dropped_after(polls, it.open("queue", RemoteMode::Read)).await;
            dropped_after(polls, it.attach("bob")).await;
        }
        in_use(&it.root().connection, &served, (0, 1)).await;
        assert_eq!(it.read("text", 9).await.unwrap(), b"hello\n");
    });
}

#[test]
fn a_call_without_a_reply_in_time_is_an_error_of_its_own() {
    run(async {
        let (it, served, _server) = attached(DEADLINE).await;
        let late = it.open("slow", RemoteMode::Read).await.err();
        assert_eq!(late, Some(RemoteError::TimedOut { what: "Topen".to_owned(), after: DEADLINE }));
        in_use(&it.root().connection, &served, (0, 1)).await;
    });
}

#[test]
fn files_are_opened_up_to_the_limit() {
    run(async {
        let (it, served, _server) = attached(LONG).await;
        let mut files: Vec<RemoteFile> = Vec::new();
        let refused = loop {
            match it.open("text", RemoteMode::Read).await {
                Ok(file) => files.push(file),
                Err(why) => break why,
            }
        };
        assert_eq!((refused, files.len()), (RemoteError::TooManyFiles { most: FIDS }, FIDS - 1));
        drop(files);
        in_use(&it.root().connection, &served, (0, 1)).await;
    });
}

#[test]
fn the_end_of_a_server_is_the_result_of_each_call() {
    run(async {
        let (it, served, server) = attached(LONG).await;
        let queue = it.open("queue", RemoteMode::Read).await.unwrap();
        let blocked = tokio::spawn(async move { queue.read(0, 10).await });
        until(|| served.lock().unwrap().waiting == 1).await;
        assert_eq!(it.closed(), None);
        server.abort();
        let lost = blocked.await.unwrap().unwrap_err();
        assert!(matches!(lost, RemoteError::Lost { .. }) && !lost.leaves_connection(), "{lost}");
        assert_eq!(it.read("text", 9).await.unwrap_err(), lost);
        assert_eq!(it.closed(), Some(lost));
    });
}

#[test]
fn a_dropped_client_closes_its_stream() {
    run(async {
        let (it, _served, server) = attached(LONG).await;
        let file = it.open("text", RemoteMode::Read).await.unwrap();
        drop(it);
        assert_eq!(file.read(0, 99).await.unwrap(), "hello\n");
        drop(file);
        server.await.unwrap();
    });
}

/// What a client says to a server that answers Tversion with these bytes.
async fn answered(bytes: &[u8]) -> RemoteError {
    let (near, mut far) = duplex(1 << 10);
    let bytes = bytes.to_vec();
    let server = tokio::spawn(async move {
        far.write_all(&bytes).await.unwrap();
        // Until the client closes.
        let _count = far.read_to_end(&mut Vec::new()).await;
    });
    let failed = Remote::over(near, "", LONG).await.unwrap_err();
    server.await.unwrap();
    failed
}

fn message(tag: u16, reply: &Reply<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    reply.put(tag, &mut out);
    out
}

#[test]
fn a_server_that_breaks_the_protocol_is_closed() {
    run(async {
        let huge = u32::MAX.to_le_bytes();
        let other = message(9, &Reply::Clunk);
        let wrong_type = message(NO_TAG, &Reply::Attach { qid: Qid::default() });
        let version = message(NO_TAG, &Reply::Version { msize: 1 << 20, version: "9P2000" });
        for bytes in [&huge[..], &other, &wrong_type, &version, &[7, 0, 0, 0, 101, 255, 255]] {
            let failed = answered(bytes).await;
            assert!(matches!(failed, RemoteError::Protocol { .. }), "{bytes:?}: {failed:?}");
        }
        let unknown = message(NO_TAG, &Reply::Version { msize: 8192, version: "unknown" });
        assert!(matches!(answered(&unknown).await, RemoteError::Protocol { .. }));
        let full = message(NO_TAG, &Reply::Error { text: "Too many users" });
        let refused = RemoteError::Refused { text: "Too many users".to_owned() };
        assert_eq!(answered(&full).await, refused);
    });
}

//! Many readers that block: each is an entry in a table, not a thread.

use super::*;
use crate::lock::lock;
use crate::user_shares::{ShareLimits, UserShares};
use bytes::Bytes;
use monitor_ninep::limits::Limits;
use monitor_ninep::stat::{Attributes, Qid};
use monitor_ninep::tree::{Attached, Deferred, OpenMode, ReadRange};
use monitor_ninep::{FileError, NO_FID, NO_TAG, Request, User};
use monitor_sys::fsuid;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream as Blocking;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use tokio::net::UnixStream;

/// Readers of the test; each has a connection of its own.
const READERS: usize = 512;

/// What every connection waits for.
#[derive(Default)]
struct Event {
    happened: bool,
    waiting: Vec<Waker>,
}

/// A tree whose root is a file that blocks until the event has happened.
struct EventTree(Arc<Mutex<Event>>);

impl Tree for EventTree {
    type Node = ();
    type File = ();

    fn attach(&mut self, _: &str, _: &str) -> Result<Attached<()>, FileError> {
        let user = User { uid: 7, gid: 7, groups: Vec::new(), name: "reader".into() };
        Ok(Attached { user: Arc::new(user), root: () })
    }

    fn walk(&mut self, _: &User, (): &(), _: &str) -> Result<(), FileError> {
        Ok(())
    }

    fn attributes(&self, _: &User, (): &()) -> Attributes {
        Attributes { qid: Qid::file(1), permissions: 0o444, ..Attributes::default() }
    }

    fn entries(&mut self, _: &User, (): &()) -> Result<Vec<Attributes>, FileError> {
        Ok(Vec::new())
    }

    fn open(&mut self, _: &Arc<User>, (): &(), _: OpenMode) -> Deferred<()> {
        Deferred::Now(Ok(()))
    }

    fn read(
        &mut self,
        (): &mut (),
        _: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        let mut event = lock(&self.0);
        if event.happened {
            return Poll::Ready(Ok(Bytes::from_static(b"x")));
        }
        event.waiting.push(context.waker().clone());
        Poll::Pending
    }

    fn user_name(&self, uid: u32) -> String {
        uid.to_string()
    }

    fn group_name(&self, gid: u32) -> String {
        gid.to_string()
    }
}

/// Serves the streams on one thread until all are closed.
fn serve_all(streams: Vec<Blocking>, event: &Arc<Mutex<Event>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut shares = UserShares::new(ShareLimits { bytes: usize::MAX, processor: 1.0 });
        let share = shares.share(fsuid::effective_uid());
        let mut tasks = tokio::task::JoinSet::new();
        for stream in streams {
            stream.set_nonblocking(true).expect("a socket");
            let stream = UnixStream::from_std(stream).expect("a socket");
            let tree = EventTree(Arc::clone(event));
            let (mut it, share) = (Connection::new(tree, Limits::default()), Arc::clone(&share));
            tasks.spawn(async move { serve(stream, &mut it, &share).await });
        }
        while let Some(served) = tasks.join_next().await {
            served.expect("no panic").expect("no violation");
        }
    });
}

/// A client whose read blocks.
fn blocked() -> (Blocking, Blocking) {
    let (mut near, far) = Blocking::pair().expect("a pair");
    let mut bytes = Vec::new();
    Request::Version { msize: 8192, version: "9P2000" }.put(NO_TAG, &mut bytes);
    Request::Attach { fid: 0, afid: NO_FID, user: "", tree: "" }.put(1, &mut bytes);
    Request::Open { fid: 0, mode: 0 }.put(1, &mut bytes);
    Request::Read { fid: 0, offset: 0, count: 9 }.put(2, &mut bytes);
    near.write_all(&bytes).expect("room");
    (near, far)
}

/// Reads the replies of a client up to that of its read.
fn replies(stream: &mut Blocking) {
    // Rversion, Rattach, Ropen and Rread of one byte.
    let mut bytes = [0; 19 + 20 + 24 + 12];
    stream.read_exact(&mut bytes).expect("all replies");
    assert_eq!(bytes.last(), Some(&b'x'));
}

/// How long all readers of an event take to have it.
fn woken_readers() -> Duration {
    let event = Arc::new(Mutex::new(Event::default()));
    let (mut near, far): (Vec<_>, Vec<_>) = (0..READERS).map(|_| blocked()).unzip();
    let server = std::thread::spawn({
        let event = Arc::clone(&event);
        move || serve_all(far, &event)
    });
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while lock(&event).waiting.len() < READERS {
        assert!(std::time::Instant::now() < deadline, "not all readers block");
        std::thread::yield_now();
    }
    let waiting = {
        let mut event = lock(&event);
        event.happened = true;
        std::mem::take(&mut event.waiting)
    };
    let began = std::time::Instant::now();
    waiting.into_iter().for_each(Waker::wake);
    near.iter_mut().for_each(replies);
    let took = began.elapsed();
    drop(near);
    server.join().expect("the server ends with its clients");
    took
}

/// How long as many threads take that read a pipe each.
fn woken_pipes() -> Duration {
    let pipes = (0..READERS).map(|_| std::io::pipe().expect("a pipe"));
    let (readers, mut writers): (Vec<_>, Vec<_>) = pipes.unzip();
    let read = |mut reader: std::io::PipeReader| {
        std::thread::spawn(move || reader.read_exact(&mut [0]).expect("a byte"))
    };
    let threads: Vec<_> = readers.into_iter().map(read).collect();
    let began = std::time::Instant::now();
    writers.iter_mut().for_each(|writer| writer.write_all(b"x").expect("room"));
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    began.elapsed()
}

#[test]
fn blocked_readers_wake_as_fast_as_threads_at_pipes() {
    let tries = std::iter::repeat_with(|| (woken_readers(), woken_pipes()));
    let is_fast =
        |(readers, pipes): (Duration, Duration)| readers <= pipes * 2 + Duration::from_millis(10);
    assert!(tries.take(5).any(is_fast), "{:?}, {:?}", woken_readers(), woken_pipes());
}

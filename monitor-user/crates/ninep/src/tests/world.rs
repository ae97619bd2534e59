//! A tree for tests, and a client that speaks frames.

use crate::error::{Errno, FileError};
use crate::frame::{Frame, FrameBuffer};
use crate::limits::Limits;
use crate::stat::{Attributes, Qid};
use crate::tree::{Attached, Deferred, Direction, OpenMode, ReadRange, Tree};
use crate::{Connection, NO_FID, NO_TAG, Reply, Request, User};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What the files of a test are about, seen by every connection.
#[derive(Default)]
pub struct World {
    /// The bytes of `queue`: a read takes them.
    pub queue: VecDeque<u8>,
    /// What the writes to `sink` have brought.
    pub sink: Vec<u8>,
    /// Bytes that `sink` takes before a write waits.
    pub room: usize,
    /// Whether `slow` can be opened.
    pub open: bool,
    /// Transfers abandoned.
    pub abandoned: Vec<Direction>,
    /// What `err` would say.
    pub errors: Vec<FileError>,
    wakers: Vec<Waker>,
}

impl World {
    /// Wakes everything that waits.
    pub fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// The files, by the number of their qid.
pub const NAMES: [&str; 8] = ["/", "text", "queue", "sink", "slow", "secret", "sub", "leaf"];

pub struct TestTree(pub Arc<Mutex<World>>);

/// An open file.
pub struct TestFile {
    node: usize,
    /// Bytes of the current write that `sink` has.
    written: usize,
}

impl Tree for TestTree {
    type Node = usize;
    type File = TestFile;

    fn attach(&mut self, user: &str, _tree: &str) -> Result<Attached<usize>, FileError> {
        let uid = match user {
            "root" => 0,
            "" | "alice" => 1000,
            "bob" => 1001,
            other => return Err(FileError::new(Errno::UnknownUser, other)),
        };
        let name = user.to_owned();
        let user = Arc::new(User { uid, gid: uid, groups: vec![50], name });
        Ok(Attached { user, root: 0 })
    }

    fn walk(&mut self, _: &User, from: &usize, name: &str) -> Result<usize, FileError> {
        let found = match (from, name) {
            (_, "..") => Some(0),
            (0, name) => NAMES[1..7].iter().position(|it| *it == name).map(|at| at + 1),
            (6, "leaf") => Some(7),
            _ => None,
        };
        found.ok_or_else(|| FileError::new(Errno::NotFound, name))
    }

    fn attributes(&self, _: &User, node: &usize) -> Attributes {
        let qid = match node {
            0 | 6 => Qid::directory(*node as u64),
            _ => Qid::file(*node as u64),
        };
        let permissions = match node {
            0 => 0o555,
            5 => 0o640,
            6 => 0o500,
            3 => 0o622,
            _ => 0o444,
        };
        let gid = if *node == 5 { 50 } else { 0 };
        let name = NAMES[*node].to_owned();
        Attributes { qid, permissions, modified_s: 7, length: 0, name, uid: 1001, gid }
    }

    fn entries(&mut self, user: &User, node: &usize) -> Result<Vec<Attributes>, FileError> {
        let all = if *node == 0 { 1..7 } else { 7..8 };
        Ok(all.map(|it| self.attributes(user, &it)).collect())
    }

    fn open(&mut self, _: &Arc<User>, node: &usize, _: OpenMode) -> Deferred<TestFile> {
        let node = *node;
        let file = TestFile { node, written: 0 };
        if node != 4 {
            return Deferred::Now(Ok(file));
        }
        let (world, mut file) = (Arc::clone(&self.0), Some(file));
        Deferred::Later(Box::pin(std::future::poll_fn(move |context| {
            let mut world = world.lock().unwrap();
            if world.open {
                return Poll::Ready(Ok(file.take().unwrap()));
            }
            world.wakers.push(context.waker().clone());
            Poll::Pending
        })))
    }

    fn read(
        &mut self,
        file: &mut TestFile,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        let mut world = self.0.lock().unwrap();
        match file.node {
            2 if world.queue.is_empty() => {
                world.wakers.push(context.waker().clone());
                Poll::Pending
            }
            2 => {
                let count = range.count.min(world.queue.len());
                Poll::Ready(Ok(world.queue.drain(..count).collect()))
            }
            _ => {
                let text = Bytes::from_static(b"hello, world\n");
                let start = usize::try_from(range.offset).unwrap().min(text.len());
                let end = text.len().min(start + range.count);
                Poll::Ready(Ok(text.slice(start..end)))
            }
        }
    }

    fn write(
        &mut self,
        file: &mut TestFile,
        (_, content): (u64, &[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, FileError>> {
        let mut world = self.0.lock().unwrap();
        let taken = world.room.min(content.len() - file.written);
        world.room -= taken;
        world.sink.extend(&content[file.written..file.written + taken]);
        file.written += taken;
        if file.written < content.len() {
            world.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        file.written = 0;
        Poll::Ready(Ok(content.len()))
    }

    fn abandon(&mut self, file: &mut TestFile, direction: Direction) {
        file.written = 0;
        self.0.lock().unwrap().abandoned.push(direction);
    }

    fn user_name(&self, uid: u32) -> String {
        if uid == 1001 { "bob".into() } else { uid.to_string() }
    }

    fn group_name(&self, gid: u32) -> String {
        gid.to_string()
    }

    fn failed(&mut self, error: &FileError) {
        self.0.lock().unwrap().errors.push(error.clone());
    }
}

/// A client of one connection.
pub struct TestClient {
    pub connection: Connection<TestTree>,
    pub world: Arc<Mutex<World>>,
    replies: FrameBuffer,
}

impl TestClient {
    /// A connection that has agreed on the version, and has attached fid 0.
    pub fn attached(user: &str) -> Self {
        Self::with_limits(user, Limits::default(), &Arc::default())
    }

    pub fn with_limits(user: &str, limits: Limits, world: &Arc<Mutex<World>>) -> Self {
        let mut it = Self::bare(limits, world);
        it.send(NO_TAG, &Request::Version { msize: 8192, version: "9P2000" });
        it.send(1, &Request::Attach { fid: 0, afid: NO_FID, user, tree: "" });
        let replies = it.replies();
        assert_eq!(replies[0], "65535 version 8192 9P2000");
        assert!(replies[1].starts_with("1 attach"), "{replies:?}");
        it
    }

    pub fn bare(limits: Limits, world: &Arc<Mutex<World>>) -> Self {
        Self::from_connection(Connection::new(TestTree(Arc::clone(world)), limits), world)
    }

    pub fn from_connection(connection: Connection<TestTree>, world: &Arc<Mutex<World>>) -> Self {
        Self { connection, world: Arc::clone(world), replies: FrameBuffer::default() }
    }

    /// Sends a request.
    pub fn send(&mut self, tag: u16, request: &Request<'_>) {
        let mut bytes = Vec::new();
        request.put(tag, &mut bytes);
        let mut frames = FrameBuffer::default();
        frames.extend(&bytes);
        let frame = frames.next(u32::MAX).unwrap().unwrap();
        self.connection.receive(&frame).unwrap();
    }

    /// Sends a request, and returns all replies that are due.
    #[track_caller]
    pub fn ask(&mut self, tag: u16, request: &Request<'_>) -> String {
        self.send(tag, request);
        self.replies().join("; ")
    }

    /// Walks fid 0 to a file and opens it as this fid.
    #[track_caller]
    pub fn open(&mut self, fid: u32, name: &str, mode: u8) -> String {
        self.send(8, &Request::Walk { fid: 0, new: fid, names: vec![name] });
        assert!(self.replies()[0].starts_with("8 walk 1"));
        self.ask(8, &Request::Open { fid, mode })
    }

    /// The frames that are due.
    pub fn frames(&mut self) -> Vec<Frame> {
        let context = Context::from_waker(Waker::noop());
        let _ = self.connection.poll_woken(&context);
        let output = std::mem::take(self.connection.output());
        self.replies.extend(&output);
        std::iter::from_fn(|| self.replies.next(u32::MAX).unwrap()).collect()
    }

    /// The replies that are due, each as a short text.
    pub fn replies(&mut self) -> Vec<String> {
        self.frames().iter().map(short).collect()
    }
}

/// A reply as a short text.
fn short(frame: &Frame) -> String {
    let reply = Reply::decode(frame.kind, &frame.body).unwrap();
    let text = match reply {
        Reply::Version { msize, version } => format!("version {msize} {version}"),
        Reply::Auth { .. } => "auth".to_owned(),
        Reply::Attach { .. } => "attach".to_owned(),
        Reply::Error { text } => format!("error {text}"),
        Reply::Flush => "flush".to_owned(),
        Reply::Walk { qids } => format!("walk {}", qids.len()),
        Reply::Open { qid, .. } => format!("open {}", qid.path),
        Reply::Create { .. } => "create".to_owned(),
        Reply::Read { content } => format!("read {:?}", String::from_utf8_lossy(content)),
        Reply::Write { count } => format!("write {count}"),
        Reply::Clunk => "clunk".to_owned(),
        Reply::Remove => "remove".to_owned(),
        Reply::Stat { stat } => format!("stat {} {:o} {}", stat.name, stat.mode, stat.user),
        Reply::WriteStat => "wstat".to_owned(),
    };
    format!("{} {text}", frame.tag)
}

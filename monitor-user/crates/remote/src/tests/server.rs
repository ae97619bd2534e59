//! A server in the process of the test: a tree with files that block, over a stream in memory.

use bytes::Bytes;
use monitor_ninep::frame::FrameBuffer;
use monitor_ninep::limits::Limits;
use monitor_ninep::stat::{Attributes, Qid};
use monitor_ninep::tree::{Attached, Deferred, OpenMode, ReadRange, Tree};
use monitor_ninep::{Connection, Errno, FileError, User};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// The files of the root.
pub const NAMES: [&str; 6] = ["deep", "large", "queue", "sink", "slow", "text"];
/// Bytes of `large`: several messages.
pub const LARGE: usize = 200_000;

/// What the files are about.
#[derive(Default)]
pub struct ServedFiles {
    /// The bytes of `queue`: a read takes at most one, and waits while there is none.
    pub queue: VecDeque<u8>,
    /// What was written to `sink`, at its offsets.
    pub sink: Vec<u8>,
    /// Requests that wait, at the most.
    pub most_waiting: usize,
    /// Requests that wait, and fids.
    pub waiting: usize,
    pub fids: usize,
    wakers: Vec<Waker>,
}

impl ServedFiles {
    /// Adds to `queue`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.queue.extend(bytes);
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

pub type SharedFiles = Arc<Mutex<ServedFiles>>;

struct TestTree(SharedFiles);

/// A path: the names from the root on.
type Path = Vec<String>;

fn absent(name: &str) -> FileError {
    FileError::new(Errno::NotFound, format!("there is no {name}"))
}

impl Tree for TestTree {
    type Node = Path;
    type File = Path;

    fn attach(&mut self, user: &str, _: &str) -> Result<Attached<Path>, FileError> {
        if user == "mallory" {
            return Err(FileError::new(Errno::Denied, "not this user"));
        }
        let user = User { uid: 7, gid: 7, groups: Vec::new(), name: user.to_owned() };
        Ok(Attached { user: Arc::new(user), root: Vec::new() })
    }

    fn walk(&mut self, _: &User, from: &Path, name: &str) -> Result<Path, FileError> {
        let is_known = match from.first() {
            None => NAMES.contains(&name),
            Some(first) => first == "deep" && name == "deep",
        };
        let path = from.iter().cloned().chain([name.to_owned()]).collect();
        if is_known { Ok(path) } else { Err(absent(name)) }
    }

    fn attributes(&self, _: &User, path: &Path) -> Attributes {
        let name = path.last().map_or("/", String::as_str);
        let at =
            u64::try_from(path.len()).unwrap_or(0) << 8 | name.bytes().map(u64::from).sum::<u64>();
        let qid = if matches!(name, "/" | "deep") { Qid::directory(at) } else { Qid::file(at) };
        let permissions = if name == "text" { 0o444 } else { 0o777 };
        Attributes { qid, permissions, name: name.to_owned(), ..Attributes::default() }
    }

    fn entries(&mut self, user: &User, path: &Path) -> Result<Vec<Attributes>, FileError> {
        let names: &[&str] = if path.is_empty() { &NAMES } else { &["deep"] };
        let entry = |name: &&str| {
            let path = path.iter().cloned().chain([(*name).to_owned()]).collect();
            self.attributes(user, &path)
        };
        Ok(names.iter().map(entry).collect())
    }

    fn open(&mut self, _: &Arc<User>, path: &Path, _: OpenMode) -> Deferred<Path> {
        if path[0] == "slow" {
            return Deferred::Later(Box::pin(std::future::pending()));
        }
        Deferred::Now(Ok(path.clone()))
    }

    fn read(
        &mut self,
        path: &mut Path,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        let mut served = self.0.lock().unwrap();
        let content = match path[0].as_str() {
            "queue" => match served.queue.pop_front() {
                Some(byte) => return Poll::Ready(Ok(vec![byte].into())),
                None => {
                    served.wakers.push(context.waker().clone());
                    return Poll::Pending;
                }
            },
            "large" => vec![b'x'; LARGE],
            _ => b"hello\n".to_vec(),
        };
        let start = usize::try_from(range.offset).unwrap().min(content.len());
        let end = content.len().min(start + range.count);
        Poll::Ready(Ok(content[start..end].to_vec().into()))
    }

    fn write(
        &mut self,
        path: &mut Path,
        (offset, content): (u64, &[u8]),
        _: &mut Context<'_>,
    ) -> Poll<Result<usize, FileError>> {
        if path[0] != "sink" {
            return Poll::Ready(Err(FileError::new(Errno::BrokenPipe, "no reader")));
        }
        let sink = &mut self.0.lock().unwrap().sink;
        let start = usize::try_from(offset).unwrap();
        sink.resize(sink.len().max(start + content.len()), 0);
        sink[start..start + content.len()].copy_from_slice(content);
        Poll::Ready(Ok(content.len()))
    }

    fn user_name(&self, uid: u32) -> String {
        uid.to_string()
    }

    fn group_name(&self, gid: u32) -> String {
        gid.to_string()
    }
}

/// Serves a client until it closes the stream.
pub async fn serve(mut stream: DuplexStream, served: SharedFiles) {
    let mut connection = Connection::new(TestTree(Arc::clone(&served)), Limits::default());
    let mut frames = FrameBuffer::default();
    let mut bytes = vec![0; 8 << 10];
    loop {
        while let Some(frame) = frames.next(connection.message_bytes()).unwrap() {
            connection.receive(&frame).unwrap();
        }
        {
            let mut served = served.lock().unwrap();
            (served.waiting, served.fids) = (connection.waiting(), connection.fids());
            served.most_waiting = served.most_waiting.max(served.waiting);
        }
        let output = std::mem::take(connection.output());
        if stream.write_all(&output).await.is_err() {
            return;
        }
        tokio::select! {
            read = stream.read(&mut bytes) => match read {
                Ok(n) if n > 0 => frames.extend(&bytes[..n]),
                _ => return,
            },
            () = poll_fn(|context| connection.poll_woken(context)) => {}
        }
    }
}

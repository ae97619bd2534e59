//! A 9P connection that sends one request, or several before it reads.

use monitor_ninep::frame::{Frame, FrameBuffer};
use monitor_ninep::{NO_FID, NO_TAG, Reply, Request};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes of the largest message.
const MESSAGE_BYTES: u32 = 64 << 10;
/// Bytes of a message beside the content of a write.
const HEADER: usize = 23;

pub struct Connection {
    stream: UnixStream,
    frames: FrameBuffer,
    bytes: Vec<u8>,
}

impl Connection {
    /// Attached as the user of this process.
    pub fn attached(at: &Path) -> Self {
        let stream = UnixStream::connect(at).unwrap();
        let (frames, bytes) = (FrameBuffer::default(), vec![0; 64 << 10]);
        let mut it = Self { stream, frames, bytes };
        it.send(NO_TAG, &Request::Version { msize: MESSAGE_BYTES, version: "9P2000" });
        it.reply();
        let user = format!("#{}", rustix::process::geteuid().as_raw());
        it.ask(&Request::Attach { fid: 0, afid: NO_FID, user: &user, tree: "" });
        it
    }

    pub fn send(&mut self, tag: u16, request: &Request<'_>) {
        let mut bytes = Vec::new();
        request.put(tag, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next reply.
    pub fn reply(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.frames.next(u32::MAX).unwrap() {
                return frame;
            }
            let n = self.stream.read(&mut self.bytes).unwrap();
            assert!(n > 0, "the connection is closed");
            self.frames.extend(&self.bytes[..n]);
        }
    }

    /// Sends a request that succeeds.
    pub fn ask(&mut self, request: &Request<'_>) -> Frame {
        self.send(9, request);
        let frame = self.reply();
        if let Reply::Error { text } = Reply::decode(frame.kind, &frame.body).unwrap() {
            panic!("{request:?}: {text}");
        }
        frame
    }

    pub fn open(&mut self, fid: u32, path: &str, mode: u8) {
        self.ask(&Request::Walk { fid: 0, new: fid, names: path.split('/').collect() });
        self.ask(&Request::Open { fid, mode });
    }

    pub fn clunk(&mut self, fid: u32) {
        self.ask(&Request::Clunk { fid });
    }

    pub fn read(&mut self, fid: u32, offset: u64) -> Vec<u8> {
        let frame = self.ask(&Request::Read { fid, offset, count: MESSAGE_BYTES });
        match Reply::decode(frame.kind, &frame.body).unwrap() {
            Reply::Read { content } => content.to_vec(),
            other => panic!("a reply of type {}", other.kind()),
        }
    }

    /// Writes all of it, in messages of the largest size.
    pub fn write(&mut self, fid: u32, content: &[u8]) {
        for part in content.chunks(MESSAGE_BYTES as usize - HEADER) {
            let mut rest = part;
            while !rest.is_empty() {
                let frame = self.ask(&Request::Write { fid, offset: 0, content: rest });
                match Reply::decode(frame.kind, &frame.body).unwrap() {
                    Reply::Write { count } => rest = &rest[count as usize..],
                    other => panic!("a reply of type {}", other.kind()),
                }
            }
        }
    }

    /// Writes a file as a whole.
    pub fn put(&mut self, path: &str, text: &str) {
        self.open(1, path, 1);
        self.write(1, text.as_bytes());
        self.clunk(1);
    }
}

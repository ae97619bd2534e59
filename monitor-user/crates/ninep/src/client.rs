//! A client that waits for each reply: what a command needs to list and read files.
//!
//! In: a stream to a server, and paths. Out: directories and contents. One request is in flight at
//! a time; a program that reads several files that block uses several clients.

use crate::error::Errno;
use crate::frame::{Frame, FrameBuffer};
use crate::limits::{DIRECTORY_BYTES, MESSAGE_BYTES};
use crate::reply::{READ_HEADER, Reply};
use crate::request::Request;
use crate::stat::{Qid, Stat};
use crate::{NO_FID, NO_TAG, VERSION};
use std::io::{self, Read, Write};

/// The fid of the root.
const ROOT: u32 = 0;
/// The fid of the file that is used.
const FILE: u32 = 1;
/// The tag of every request.
const TAG: u16 = 1;
/// The mode of a file that is written, and the bit that removes its content.
const WRITE: u8 = 1;
const TRUNCATE: u8 = 0x10;
/// Bytes of Twrite beside its content.
const WRITE_HEADER: u32 = 23;

/// Why a client failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The stream failed.
    #[error("the connection failed: {0}")]
    Stream(#[from] io::Error),
    /// The server refused; the text is its own.
    #[error("{0}")]
    Refused(String),
    /// The server sent what is no reply to the request.
    #[error("the server does not follow 9P2000: {0}")]
    Protocol(String),
    /// The path leads through a file that does not exist.
    #[error("No such file or directory")]
    NotFound,
}

/// A client with one connection.
pub struct Client<S> {
    stream: S,
    input: FrameBuffer,
    message_bytes: u32,
    /// Where the next write of the open file begins.
    offset: u64,
}

impl<S: Read + Write> Client<S> {
    /// Agrees on the version, and attaches as this user: a name, `#` and a uid, or nothing for the
    /// user of this process.
    ///
    /// # Errors
    ///
    /// When the stream fails, or the server refuses.
    pub fn attach(stream: S, user: &str) -> Result<Self, ClientError> {
        let mut client =
            Self { stream, input: FrameBuffer::default(), message_bytes: MESSAGE_BYTES, offset: 0 };
        let request = Request::Version { msize: MESSAGE_BYTES, version: VERSION };
        let frame = client.exchange(&request)?;
        match client.decode(&frame)? {
            Reply::Version { msize, version } if version == VERSION => {
                client.message_bytes = msize.min(MESSAGE_BYTES);
            }
            other => return Err(unexpected(&other)),
        }
        client.exchange(&Request::Attach { fid: ROOT, afid: NO_FID, user, tree: "" })?;
        Ok(client)
    }

    /// The attributes of a file.
    ///
    /// # Errors
    ///
    /// When there is none, or the stream fails.
    pub fn stat(&mut self, path: &str) -> Result<Stat, ClientError> {
        self.walk(path)?;
        let frame = self.exchange(&Request::Stat { fid: FILE });
        self.clunk()?;
        match self.decode(&frame?)? {
            Reply::Stat { stat } => Ok(*stat),
            other => Err(unexpected(&other)),
        }
    }

    /// The entries of a directory.
    ///
    /// # Errors
    ///
    /// When it is none, may not be read, or the stream fails.
    pub fn list(&mut self, path: &str) -> Result<Vec<Stat>, ClientError> {
        let mut bytes = Vec::new();
        self.read_while(path, |content| {
            bytes.extend_from_slice(content);
            bytes.len() <= DIRECTORY_BYTES
        })?;
        Stat::entries(&bytes).map_err(|why| ClientError::Protocol(why.to_string()))
    }

    /// The explanation of the last error of this connection; empty if there is none.
    pub fn explanation(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.read_while("err", |content| {
            text.extend_from_slice(content);
            text.len() <= MESSAGE_BYTES as usize
        });
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }

    /// Reads a file to its end, and calls `take` with its content as it arrives, until that returns
    /// false.
    ///
    /// # Errors
    ///
    /// When the file may not be read, or the stream fails.
    pub fn read_while(
        &mut self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ClientError> {
        self.open(path, 0)?;
        let count = self.message_bytes.saturating_sub(READ_HEADER as u32);
        let mut offset = 0;
        loop {
            let frame = match self.exchange(&Request::Read { fid: FILE, offset, count }) {
                Ok(frame) => frame,
                Err(error) => {
                    let _ = self.clunk();
                    return Err(error);
                }
            };
            let Reply::Read { content } = self.decode(&frame)? else {
                return Err(ClientError::Protocol("no reply to Tread".to_owned()));
            };
            if content.is_empty() || !take(content) {
                return self.clunk();
            }
            offset += content.len() as u64;
        }
    }

    /// Writes all of `content` to a file, from its beginning.
    ///
    /// # Errors
    ///
    /// When the file may not be written, or the stream fails.
    pub fn write(&mut self, path: &str, content: &[u8]) -> Result<(), ClientError> {
        self.open(path, WRITE)?;
        self.offset = 0;
        self.write_on(content)?;
        self.close()
    }

    /// Opens a file to be written from its beginning, and removes its content. One that is not
    /// there is created, where the server permits that, with the permission to execute it.
    ///
    /// # Errors
    ///
    /// When the file may not be written or created, or the stream fails.
    pub fn open_to_write(&mut self, path: &str) -> Result<(), ClientError> {
        self.offset = 0;
        let opened = self.open(path, WRITE | TRUNCATE);
        let is_absent = match &opened {
            Err(ClientError::NotFound) => true,
            Err(ClientError::Refused(text)) => text == Errno::NotFound.text(),
            _ => false,
        };
        let (directory, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
        if !is_absent {
            return opened.map(drop);
        }
        self.walk(directory)?;
        let request = Request::Create { fid: FILE, name, permissions: 0o755, mode: WRITE };
        let created = self.exchange(&request).map(drop);
        created.inspect_err(|_| drop(self.clunk()))
    }

    /// Writes all of `content` to the file that is open, behind what was written before.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the stream fails; the file is closed then.
    pub fn write_on(&mut self, content: &[u8]) -> Result<(), ClientError> {
        let written = self.write_all(content);
        written.inspect_err(|_| drop(self.clunk()))
    }

    fn write_all(&mut self, content: &[u8]) -> Result<(), ClientError> {
        let most = self.message_bytes.saturating_sub(WRITE_HEADER).max(1) as usize;
        let mut done = 0;
        while done < content.len() {
            let content = &content[done..content.len().min(done + most)];
            let request = Request::Write { fid: FILE, offset: self.offset, content };
            let frame = self.exchange(&request)?;
            match self.decode(&frame)? {
                Reply::Write { count } if count > 0 => {
                    done += count as usize;
                    self.offset += u64::from(count);
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }

    /// Closes the file that is open.
    ///
    /// # Errors
    ///
    /// When the stream fails.
    pub fn close(&mut self) -> Result<(), ClientError> {
        self.clunk()
    }

    fn open(&mut self, path: &str, mode: u8) -> Result<Qid, ClientError> {
        self.walk(path)?;
        let opened = self.exchange(&Request::Open { fid: FILE, mode });
        let opened = match opened {
            Ok(frame) => frame,
            Err(error) => {
                let _ = self.clunk();
                return Err(error);
            }
        };
        match self.decode(&opened)? {
            Reply::Open { qid, .. } => Ok(qid),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes [`FILE`] the file at this path.
    fn walk(&mut self, path: &str) -> Result<(), ClientError> {
        let names: Vec<&str> = path.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
        let mut from = ROOT;
        let mut parts = names.chunks(crate::limits::WALK_NAMES);
        loop {
            let names = parts.next().unwrap_or_default().to_vec();
            let count = names.len();
            let frame = self.exchange(&Request::Walk { fid: from, new: FILE, names })?;
            match self.decode(&frame)? {
                Reply::Walk { qids } if qids.len() == count => {}
                Reply::Walk { .. } => {
                    if from == FILE {
                        self.clunk()?;
                    }
                    return Err(ClientError::NotFound);
                }
                other => return Err(unexpected(&other)),
            }
            from = FILE;
            if parts.len() == 0 {
                return Ok(());
            }
        }
    }

    fn clunk(&mut self) -> Result<(), ClientError> {
        self.exchange(&Request::Clunk { fid: FILE }).map(drop)
    }

    /// Sends a request and waits for its reply; an Rerror is an error.
    fn exchange(&mut self, request: &Request<'_>) -> Result<Frame, ClientError> {
        let tag = if matches!(request, Request::Version { .. }) { NO_TAG } else { TAG };
        let mut out = Vec::new();
        request.put(tag, &mut out);
        let sent = self.stream.write_all(&out).and_then(|()| self.stream.flush());
        let frame = match (sent, self.next_frame()) {
            (Ok(()), frame) => frame?,
            // A server that takes no connection says why, and closes it before it reads.
            (Err(_), Ok(frame)) => frame,
            (Err(why), Err(_)) => return Err(why.into()),
        };
        match self.decode(&frame)? {
            Reply::Error { text } => Err(ClientError::Refused(text.to_owned())),
            _ if frame.tag == tag => Ok(frame),
            _ => Err(ClientError::Protocol(format!("a reply with tag {}", frame.tag))),
        }
    }

    fn next_frame(&mut self) -> Result<Frame, ClientError> {
        let mut bytes = [0; 16 << 10];
        loop {
            let frame = self.input.next(self.message_bytes);
            match frame.map_err(|why| ClientError::Protocol(why.to_string()))? {
                Some(frame) => return Ok(frame),
                None => match self.stream.read(&mut bytes)? {
                    0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    n => self.input.extend(&bytes[..n]),
                },
            }
        }
    }

    fn decode<'f>(&self, frame: &'f Frame) -> Result<Reply<'f>, ClientError> {
        Reply::decode(frame.kind, &frame.body).map_err(|why| ClientError::Protocol(why.to_string()))
    }
}

fn unexpected(reply: &Reply<'_>) -> ClientError {
    ClientError::Protocol(format!("an unexpected reply of type {}", reply.kind()))
}

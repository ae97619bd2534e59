//! A connection of the server as a state machine.
//!
//! In: frames, and wakes of files. Out: bytes of replies, in the order in which they are due. Waits
//! for nothing: `wants_input` says when to read on, and `poll_woken` when something can go on.
//!
//! A reply is queued in the call that takes its request out of the table of tags, and so is Rflush:
//! no reply to a request follows its Rflush, and what a read took was queued with its reply.

mod attributes;
mod transfer;
mod walk;

use crate::error::{Errno, FileError};
use crate::fid::{Fid, FidTable};
use crate::fid_quota::FidQuota;
use crate::frame::Frame;
use crate::limits::{Limits, OUTPUT_BYTES, SMALLEST_MESSAGE_BYTES};
use crate::pending::{PendingTable, WakeQueue};
use crate::reply::Reply;
use crate::request::{FLUSH, Request};
use crate::stat::{Attributes, Stat};
use crate::tree::{Attached, Tree};
use crate::{Malformed, NO_FID, VERSION};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Why a connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A Tflush that is malformed: it has no reply but Rflush, and no request that it names.
    #[error("a malformed Tflush: {0}")]
    Flush(Malformed),
}

/// The server's end of a connection.
pub struct Connection<T: Tree> {
    tree: T,
    limits: Limits,
    /// The largest message; `None` before Tversion.
    message_bytes: Option<u32>,
    fids: FidTable<T>,
    pending: PendingTable<T::File>,
    woken: Arc<WakeQueue>,
    output: Vec<u8>,
    /// What was refused, by the text of the error.
    refused: BTreeMap<&'static str, u64>,
    /// Whether an attach has succeeded.
    attached: bool,
}

impl<T: Tree> Connection<T> {
    /// A new connection to a tree, with limits of its own alone.
    pub fn new(tree: T, limits: Limits) -> Self {
        let quota = Arc::new(FidQuota::new(limits.fids, "this client"));
        Self::with_quota(tree, limits, quota)
    }

    /// A new connection to a tree, whose fids count in a quota of several.
    pub fn with_quota(tree: T, limits: Limits, quota: Arc<FidQuota>) -> Self {
        Self {
            tree,
            limits,
            message_bytes: None,
            fids: FidTable::new(limits, quota),
            pending: PendingTable::new(),
            woken: Arc::default(),
            output: Vec::new(),
            refused: BTreeMap::new(),
            attached: false,
        }
    }

    /// Bytes of the largest message that may arrive now.
    pub fn message_bytes(&self) -> u32 {
        self.message_bytes.unwrap_or(SMALLEST_MESSAGE_BYTES)
    }

    /// Whether a further request may be received: the client reads its replies.
    pub const fn wants_input(&self) -> bool {
        self.output.len() < OUTPUT_BYTES
    }

    /// Whether an attach has succeeded since the connection was opened.
    pub const fn is_attached(&self) -> bool {
        self.attached
    }

    /// Replies to be sent; remove what is sent from the front.
    pub const fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The number of fids.
    pub fn fids(&self) -> usize {
        self.fids.len()
    }

    /// The number of requests that wait.
    pub const fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// What was refused since the last call, by the text of the error ([`Errno::is_refusal`]).
    pub fn take_refused(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.refused)
    }

    /// The tree.
    pub const fn tree(&mut self) -> &mut T {
        &mut self.tree
    }

    /// Handles a message of the client.
    ///
    /// # Errors
    ///
    /// When no reply is possible: the connection must be closed.
    pub fn receive(&mut self, frame: &Frame) -> Result<(), Violation> {
        let tag = frame.tag;
        match Request::decode(frame.kind, &frame.body) {
            Err(malformed) if frame.kind == FLUSH => return Err(Violation::Flush(malformed)),
            Err(malformed) => {
                let why = format!("a message of type {} is malformed: {malformed}", frame.kind);
                self.error(tag, &FileError::new(Errno::Protocol, why));
            }
            Ok(Request::Version { msize, version }) => self.version(tag, msize, version),
            // Its own tag is never refused: the client must learn that the other is free.
            Ok(Request::Flush { old }) => self.flush(tag, old),
            Ok(request) => {
                let body = &frame.body;
                let result = self.check(tag).and_then(|()| self.request(tag, request, body));
                if let Err(error) = result {
                    self.error(tag, &error);
                }
            }
        }
        Ok(())
    }

    /// Continues what was woken, as far as its replies have room; `Pending` when nothing was.
    pub fn poll_woken(&mut self, context: &Context<'_>) -> Poll<()> {
        let mut result = Poll::Pending;
        while self.wants_input() {
            let Poll::Ready(fid) = self.woken.poll_next(context) else { break };
            self.resume(fid);
            result = Poll::Ready(());
        }
        result
    }

    /// Whether a request with this tag can be executed.
    fn check(&self, tag: u16) -> Result<(), FileError> {
        if self.message_bytes.is_none() {
            return Err(FileError::new(Errno::Protocol, "the first message must be Tversion"));
        }
        if self.pending.has(tag) {
            let why = format!("a request with tag {tag} is still waiting");
            return Err(FileError::new(Errno::Protocol, why));
        }
        Ok(())
    }

    /// Executes a request; `message` has its bytes.
    fn request(
        &mut self,
        tag: u16,
        request: Request<'_>,
        message: &Bytes,
    ) -> Result<(), FileError> {
        match request {
            // Both are handled before the tag is checked.
            Request::Version { .. } | Request::Flush { .. } => Ok(()),
            Request::Auth { .. } => Err(FileError::new(
                Errno::NoAuthentication,
                "the kernel says which user a connection has: attach without Tauth",
            )),
            Request::Attach { fid, afid, user, tree } => {
                self.attach(tag, (fid, afid), (user, tree))
            }
            Request::Walk { fid, new, names } => self.walk(tag, (fid, new), &names),
            Request::Open { fid, mode } => self.open(tag, fid, mode),
            Request::Create { fid, name, permissions, mode } => {
                self.create(tag, fid, (name, permissions, mode))
            }
            Request::Read { fid, offset, count } => self.read(tag, fid, (offset, count)),
            Request::Write { fid, offset, content } => {
                self.write(tag, fid, (offset, content), message)
            }
            Request::Clunk { fid } => self.clunk(tag, fid),
            Request::Remove { fid } => self.remove(tag, fid),
            Request::Stat { fid } => self.stat(tag, fid),
            Request::WriteStat { fid, stat } => self.write_stat(tag, fid, &stat),
        }
    }

    /// Begins a session: all requests and fids of the previous one end.
    fn version(&mut self, tag: u16, msize: u32, version: &str) {
        self.pending.clear();
        self.fids.clear();
        self.message_bytes = None;
        let agreed = msize.min(self.limits.message_bytes);
        if agreed < SMALLEST_MESSAGE_BYTES {
            let why = format!("msize is {msize}; at least {SMALLEST_MESSAGE_BYTES} is needed");
            return self.error(tag, &FileError::new(Errno::Invalid, why));
        }
        // Variants have a suffix (`9P2000.L`), and the answer without it is their common part.
        let is_known = version.starts_with(VERSION);
        let version = if is_known { VERSION } else { "unknown" };
        self.message_bytes = is_known.then_some(agreed);
        self.reply(tag, &Reply::Version { msize: agreed, version });
    }

    /// Abandons a request, if it still waits.
    fn flush(&mut self, tag: u16, old: u16) {
        let abandoned = self.pending.remove(old);
        self.reply(tag, &Reply::Flush);
        if let Some(pending) = abandoned {
            self.abandoned(&pending);
        }
    }

    fn attach(
        &mut self,
        tag: u16,
        (fid, afid): (u32, u32),
        (user, tree): (&str, &str),
    ) -> Result<(), FileError> {
        if afid != NO_FID {
            let why = "nothing is authenticated here: attach with afid NOFID";
            return Err(FileError::new(Errno::BadFidUse, why));
        }
        self.fids.check_new(fid)?;
        let Attached { user, root } = self.tree.attach(user, tree)?;
        let qid = self.tree.attributes(&user, &root).qid;
        self.fids.insert(fid, Fid::closed(user, root))?;
        self.attached = true;
        self.reply(tag, &Reply::Attach { qid });
        Ok(())
    }

    /// Attributes as a message carries them.
    fn stat_of(&self, it: Attributes) -> Stat {
        let (user, group) = (self.tree.user_name(it.uid), self.tree.group_name(it.gid));
        Stat::new(it, user, group)
    }

    fn reply(&mut self, tag: u16, reply: &Reply<'_>) {
        reply.put(tag, &mut self.output);
    }

    fn error(&mut self, tag: u16, error: &FileError) {
        if error.errno.is_refusal() {
            *self.refused.entry(error.errno.text()).or_default() += 1;
        }
        self.tree.failed(error);
        self.reply(tag, &Reply::Error { text: error.errno.text() });
    }
}

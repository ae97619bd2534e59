//! Topen, Tread and Twrite, and those of them that wait.

use super::Connection;
use crate::directory::DirectoryCursor;
use crate::error::{Errno, FileError};
use crate::fid::FidState;
use crate::limits::{DIRECTORY_BYTES, WAITING_BYTES};
use crate::pending::{Operation, Pending};
use crate::reply::{READ_HEADER, Reply};
use crate::stat::Attributes;
use crate::tree::{Deferred, Direction, OpenMode, ReadRange, Tree};
use crate::user::{Access, User};
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The low bits of a mode: read, write, both, execute.
const ACCESS_BITS: u8 = 3;
/// Bytes of a write from which on they are not copied.
const SHARED_BYTES: usize = 16 << 10;
/// Remove the content first.
const TRUNCATE: u8 = 0x10;

/// The mode of Topen and Tcreate.
pub(super) fn open_mode(mode: u8) -> Result<OpenMode, FileError> {
    if mode & !(ACCESS_BITS | TRUNCATE) != 0 {
        let why = format!("mode {mode:#x}: only read, write, both, execute and truncate are known");
        return Err(FileError::new(Errno::IllegalMode, why));
    }
    let access = mode & ACCESS_BITS;
    Ok(OpenMode {
        read: access != 1,
        write: matches!(access, 1 | 2),
        truncate: mode & TRUNCATE != 0,
    })
}

/// Whether the permission bits allow this mode.
fn check_mode(user: &User, file: &Attributes, mode: OpenMode) -> Result<(), FileError> {
    let name = &file.name;
    let writes = mode.write || mode.truncate;
    if file.qid.is_directory() && writes {
        return Err(FileError::new(Errno::IsDirectory, format!("{name} is a directory")));
    }
    let is_allowed =
        (!mode.read || user.may(Access::Read, file)) && (!writes || user.may(Access::Write, file));
    if is_allowed {
        return Ok(());
    }
    let what = if writes { "write" } else { "read" };
    let why = format!("user {} may not {what} {name}", user.name);
    Err(FileError::new(Errno::Denied, why))
}

impl<T: Tree> Connection<T> {
    pub(super) fn open(&mut self, tag: u16, number: u32, mode: u8) -> Result<(), FileError> {
        let fid = self.fids.get(number)?;
        if !matches!(fid.state, FidState::Closed) {
            let why = format!("fid {number} is open already");
            return Err(FileError::new(Errno::BadFidUse, why));
        }
        let (user, node) = (Arc::clone(&fid.user), fid.node.clone());
        let mode = open_mode(mode)?;
        let file = self.tree.attributes(&user, &node);
        check_mode(&user, &file, mode)?;
        if file.qid.is_directory() {
            let cursor = self.list(&user, &node)?;
            self.fids.get(number)?.state = FidState::Directory(Box::new(cursor));
            self.reply(tag, &Reply::Open { qid: file.qid, iounit: 0 });
            return Ok(());
        }
        match self.tree.open(&user, &node, mode) {
            Deferred::Now(opened) => self.opened(tag, number, opened.map(|it| (it, mode))),
            Deferred::Later(later) => {
                self.wait(Pending::new(tag, number, Operation::Open(later, mode)))?;
                self.fids.get(number)?.state = FidState::Opening;
                Ok(())
            }
        }
    }

    fn opened(
        &mut self,
        tag: u16,
        number: u32,
        opened: Result<(T::File, OpenMode), FileError>,
    ) -> Result<(), FileError> {
        let fid = self.fids.get(number)?;
        fid.state = FidState::Closed;
        let (file, mode) = opened?;
        fid.state = FidState::File(Box::new(file), mode);
        let qid = self.tree.attributes(&fid.user, &fid.node).qid;
        self.reply(tag, &Reply::Open { qid, iounit: 0 });
        Ok(())
    }

    /// The entries of a directory as they are now.
    pub(super) fn list(
        &mut self,
        user: &User,
        node: &T::Node,
    ) -> Result<DirectoryCursor, FileError> {
        let entries = self.tree.entries(user, node)?;
        let room = DIRECTORY_BYTES.saturating_sub(self.fids.directory_bytes());
        DirectoryCursor::new(entries.into_iter().map(|it| self.stat_of(it)), room)
    }

    pub(super) fn read(
        &mut self,
        tag: u16,
        number: u32,
        (offset, count): (u64, u32),
    ) -> Result<(), FileError> {
        let room = usize::try_from(self.message_bytes()).unwrap_or(usize::MAX) - READ_HEADER;
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(room);
        let fid = self.fids.get(number)?;
        match &fid.state {
            FidState::File(_, OpenMode { read: true, .. }) => {
                let range = ReadRange { offset, count };
                self.transfer(Pending::new(tag, number, Operation::Read(range)))
            }
            FidState::Directory(_) => self.read_directory(tag, number, (offset, count)),
            _ => Err(not_open(number, "reading")),
        }
    }

    fn read_directory(
        &mut self,
        tag: u16,
        number: u32,
        (offset, count): (u64, usize),
    ) -> Result<(), FileError> {
        if offset == 0 {
            let fid = self.fids.get(number)?;
            let (user, node) = (Arc::clone(&fid.user), fid.node.clone());
            fid.state = FidState::Directory(Box::default());
            let cursor = self.list(&user, &node)?;
            self.fids.get(number)?.state = FidState::Directory(Box::new(cursor));
        }
        if let FidState::Directory(cursor) = &mut self.fids.get(number)?.state {
            let content = cursor.read(offset, count)?;
            Reply::Read { content }.put(tag, &mut self.output);
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        tag: u16,
        number: u32,
        (offset, content): (u64, &[u8]),
        message: &Bytes,
    ) -> Result<(), FileError> {
        let fid = self.fids.get(number)?;
        let FidState::File(_, OpenMode { write: true, .. }) = &fid.state else {
            return Err(not_open(number, "writing"));
        };
        // A part of the message keeps all that arrived with it, which is too much for a few bytes.
        let content = match content.len() {
            SHARED_BYTES.. => message.slice_ref(content),
            _ => Bytes::copy_from_slice(content),
        };
        self.transfer(Pending::new(tag, number, Operation::Write { offset, content }))
    }

    /// Executes a transfer now, unless an earlier one of its fid waits.
    fn transfer(&mut self, pending: Pending<T::File>) -> Result<(), FileError> {
        if self.pending.must_queue(pending.fid, &pending.operation) {
            return self.wait(pending);
        }
        match self.attempt(pending) {
            Some(pending) => {
                let room = self.check_waiting(&pending.operation);
                room.inspect_err(|_| self.abandon_transfer(&pending))?;
                self.pending.add(pending);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Checks that this request may wait too.
    fn check_waiting(&self, operation: &Operation<T::File>) -> Result<(), FileError> {
        if self.pending.len() >= self.limits.tags {
            let most = self.limits.tags;
            let why = format!("{most} requests wait, the limit of a connection: flush some");
            return Err(FileError::new(Errno::TryAgain, why));
        }
        if self.pending.bytes() + operation.bytes() > WAITING_BYTES {
            let why = format!("writes of {WAITING_BYTES} bytes wait, the limit of a connection");
            return Err(FileError::new(Errno::TryAgain, why));
        }
        Ok(())
    }

    /// Adds a request that is not begun to those that wait.
    pub(super) fn wait(&mut self, pending: Pending<T::File>) -> Result<(), FileError> {
        self.check_waiting(&pending.operation)?;
        if matches!(pending.operation, Operation::Open(..) | Operation::Stat(_)) {
            // A future has not been polled yet: nothing would wake it.
            self.woken.add(pending.fid);
        }
        self.pending.add(pending);
        Ok(())
    }

    /// Executes what waits on a fid, in order, as far as it goes and its replies have room.
    pub(super) fn resume(&mut self, fid: u32) {
        let mut place = 0;
        while let Some((at, pending)) = self.pending.take_next(fid, place) {
            if !self.wants_input() {
                self.pending.put_back(at, pending);
                self.woken.add(fid);
                return;
            }
            place = at;
            if let Some(pending) = self.attempt(pending) {
                self.pending.put_back(at, pending);
                place += 1;
            }
        }
    }

    /// What a flushed request leaves behind is undone, and what waited behind it goes on.
    pub(super) fn abandoned(&mut self, pending: &Pending<T::File>) {
        if let Ok(fid) = self.fids.get(pending.fid)
            && let Operation::Open(..) = pending.operation
        {
            fid.state = FidState::Closed;
        }
        self.abandon_transfer(pending);
        self.woken.add(pending.fid);
    }

    fn abandon_transfer(&mut self, pending: &Pending<T::File>) {
        let direction = match pending.operation {
            Operation::Read(_) => Direction::Read,
            Operation::Write { .. } => Direction::Write,
            Operation::Open(..) | Operation::Stat(_) => return,
        };
        if let Ok(fid) = self.fids.get(pending.fid)
            && let FidState::File(file, _) = &mut fid.state
            && pending.begun
        {
            self.tree.abandon(file, direction);
        }
    }

    /// Executes a request and queues its reply; returns it if it must wait.
    fn attempt(&mut self, mut pending: Pending<T::File>) -> Option<Pending<T::File>> {
        pending.begun = true;
        let (tag, number) = (pending.tag, pending.fid);
        let result = match &mut pending.operation {
            Operation::Open(later, mode) => {
                let mode = *mode;
                let waker = self.waker(number)?;
                match later.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Pending => return Some(pending),
                    Poll::Ready(it) => self.opened(tag, number, it.map(|file| (file, mode))),
                }
            }
            Operation::Stat(later) => {
                let waker = self.waker(number)?;
                match later.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Pending => return Some(pending),
                    Poll::Ready(result) => result.map(|attributes| {
                        let stat = Box::new(self.stat_of(attributes));
                        self.reply(tag, &Reply::Stat { stat });
                    }),
                }
            }
            operation => match self.move_bytes((tag, number), operation) {
                Poll::Pending => return Some(pending),
                Poll::Ready(result) => result,
            },
        };
        if let Err(error) = result {
            self.error(tag, &error);
        }
        None
    }

    /// Reads or writes, and queues the reply.
    fn move_bytes(
        &mut self,
        (tag, number): (u16, u32),
        operation: &Operation<T::File>,
    ) -> Poll<Result<(), FileError>> {
        let fid = match self.fids.get(number) {
            Ok(fid) => fid,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let waker = fid.waker(number, &self.woken);
        let context = &mut Context::from_waker(&waker);
        let FidState::File(file, _) = &mut fid.state else {
            return Poll::Ready(Err(not_open(number, "this")));
        };
        match operation {
            Operation::Read(range) => self.tree.read(file, *range, context).map(|read| {
                let content = read?;
                let content = &content[..content.len().min(range.count)];
                Reply::Read { content }.put(tag, &mut self.output);
                Ok(())
            }),
            Operation::Write { offset, content } => {
                self.tree.write(file, (*offset, content), context).map(|written| {
                    let count = u32::try_from(written?.min(content.len())).unwrap_or(u32::MAX);
                    Reply::Write { count }.put(tag, &mut self.output);
                    Ok(())
                })
            }
            Operation::Open(..) | Operation::Stat(_) => Poll::Ready(Ok(())),
        }
    }

    /// What wakes the requests of a fid. All that wait are removed with their fid, so it is there.
    fn waker(&mut self, number: u32) -> Option<std::task::Waker> {
        let queue = Arc::clone(&self.woken);
        self.fids.get(number).ok().map(|fid| fid.waker(number, &queue))
    }
}

fn not_open(fid: u32, what: &str) -> FileError {
    FileError::new(Errno::BadFidUse, format!("fid {fid} is not open for {what}"))
}

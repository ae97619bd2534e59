//! The calls of a connection by their tags, and the bytes that are to be sent for them.
//!
//! In: requests, replies, calls and fids that are dropped. Out: bytes for the server, and a reply
//! for each call. A tag is used again only when the server cannot mean the old call by it: after
//! its reply, or after Rflush (flush(5) of Plan 9). A fid that a dropped call has made is clunked.

use super::error::RemoteError;
use monitor_ninep::frame::Frame;
use monitor_ninep::{NO_TAG, Reply, Request};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// Fids of a connection; the server has its own limit.
pub const FIDS: usize = 1024;

/// Room for a call and its bytes, until the tag is free again.
pub type Permits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// A fid that a call makes if it succeeds.
#[derive(Clone, Copy, Debug)]
pub struct NewFid {
    /// Its number.
    pub fid: u32,
    /// The number of names of the walk that makes it; none for an attach.
    pub names: usize,
}

/// All calls of a connection.
#[derive(Debug, Default)]
pub struct CallTable {
    state: Mutex<State>,
    has_output: Notify,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<u16, TagUse>,
    last_tag: u16,
    fids: FidNumbers,
    output: Vec<u8>,
    /// Why the connection has ended.
    closed: Option<RemoteError>,
}

/// What a tag is used for.
#[derive(Debug)]
enum TagUse {
    /// A call without a reply.
    Waiting { waker: Option<Waker>, makes: Option<NewFid>, _permits: Permits },
    /// A call whose reply was not taken yet.
    Replied { frame: Frame, makes: Option<NewFid>, _permits: Permits },
    /// A call that was dropped: its reply may come until Rflush.
    Dropped { makes: Option<NewFid>, is_made: bool, _permits: Permits },
    /// The Tflush of a dropped call.
    Flush { old: u16 },
    /// The Tclunk of a dropped fid.
    Clunk { fid: u32 },
}

/// The numbers of fids that are in use.
#[derive(Debug, Default)]
struct FidNumbers {
    next: u32,
    free: Vec<u32>,
    used: usize,
}

impl CallTable {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each entry is consistent after each change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new fid; [`CallTable::begin`] takes it on.
    ///
    /// # Errors
    ///
    /// When as many are in use as may be.
    pub fn new_fid(&self) -> Result<u32, RemoteError> {
        self.lock().fids.take().ok_or(RemoteError::TooManyFiles { most: FIDS })
    }

    /// Queues a request, and returns its tag.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn begin(
        &self,
        request: &Request<'_>,
        makes: Option<NewFid>,
        permits: Permits,
    ) -> Result<u16, RemoteError> {
        let mut state = self.lock();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        let tag = match request {
            Request::Version { .. } => NO_TAG,
            _ => state.free_tag(),
        };
        request.put(tag, &mut state.output);
        state.calls.insert(tag, TagUse::Waiting { waker: None, makes, _permits: permits });
        drop(state);
        self.has_output.notify_one();
        Ok(tag)
    }

    /// The reply of a call, and the number of the fid that it has made.
    pub fn poll_reply(
        &self,
        tag: u16,
        context: &Context<'_>,
    ) -> Poll<Result<(Frame, Option<u32>), RemoteError>> {
        let mut state = self.lock();
        match state.calls.get_mut(&tag) {
            Some(TagUse::Replied { .. }) => {
                let Some(TagUse::Replied { frame, makes, .. }) = state.calls.remove(&tag) else {
                    return Poll::Pending;
                };
                let made = makes.filter(|it| it.is_made_by(&frame)).map(|it| it.fid);
                if let (Some(NewFid { fid, .. }), None) = (makes, made) {
                    state.fids.release(fid);
                }
                Poll::Ready(Ok((frame, made)))
            }
            Some(TagUse::Waiting { waker, .. }) => match &mut *waker {
                Some(known) if known.will_wake(context.waker()) => Poll::Pending,
                known => {
                    *known = Some(context.waker().clone());
                    Poll::Pending
                }
            },
            _ => Poll::Ready(Err(state.reason())),
        }
    }

    /// The call is dropped: its reply is not waited for any longer.
    pub fn abandon(&self, tag: u16) {
        let mut state = self.lock();
        match state.calls.remove(&tag) {
            Some(TagUse::Replied { frame, makes: Some(makes), .. }) => {
                let is_made = makes.is_made_by(&frame);
                state.end_fid(makes.fid, is_made);
            }
            Some(TagUse::Waiting { makes, _permits, .. }) => {
                state.calls.insert(tag, TagUse::Dropped { makes, is_made: false, _permits });
                state.send(&Request::Flush { old: tag }, TagUse::Flush { old: tag });
            }
            _ => return,
        }
        drop(state);
        self.has_output.notify_one();
    }

    /// The fid is dropped: the server forgets it.
    pub fn clunk(&self, fid: u32) {
        self.lock().end_fid(fid, true);
        self.has_output.notify_one();
    }

    /// The fid is gone on the server.
    pub fn release(&self, fid: u32) {
        self.lock().fids.release(fid);
    }

    /// A message of the server has arrived.
    ///
    /// # Errors
    ///
    /// When it is no reply to a request: the connection must be closed.
    pub fn receive(&self, frame: Frame) -> Result<(), RemoteError> {
        let mut state = self.lock();
        let tag = frame.tag;
        match state.calls.remove(&tag) {
            Some(TagUse::Waiting { waker, makes, _permits }) => {
                state.calls.insert(tag, TagUse::Replied { frame, makes, _permits });
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Some(TagUse::Dropped { makes, is_made: false, _permits }) => {
                let is_made = makes.is_some_and(|it| it.is_made_by(&frame));
                state.calls.insert(tag, TagUse::Dropped { makes, is_made, _permits });
            }
            Some(TagUse::Flush { old }) => {
                if frame.kind != Reply::Flush.kind() {
                    return Err(RemoteError::unexpected(frame.kind));
                }
                if let Some(TagUse::Dropped { makes: Some(makes), is_made, .. }) =
                    state.calls.remove(&old)
                {
                    state.end_fid(makes.fid, is_made);
                }
                drop(state);
                self.has_output.notify_one();
            }
            // Also after Rerror the fid is gone (clunk(5)).
            Some(TagUse::Clunk { fid }) => state.fids.release(fid),
            _ => {
                let why = format_args!("a reply with tag {tag}, which no request has");
                return Err(RemoteError::protocol(why));
            }
        }
        Ok(())
    }

    /// Bytes that are to be sent, when there are some.
    pub async fn output(&self) -> Vec<u8> {
        loop {
            let output = std::mem::take(&mut self.lock().output);
            if !output.is_empty() {
                return output;
            }
            self.has_output.notified().await;
        }
    }

    /// The connection has ended: the result of each call without a reply.
    pub fn close(&self, why: RemoteError) {
        let mut state = self.lock();
        state.closed.get_or_insert(why);
        state.output = Vec::new();
        let mut ended = Vec::new();
        state.calls.retain(|_, call| match call {
            TagUse::Replied { .. } => true,
            TagUse::Waiting { waker, .. } => {
                ended.extend(waker.take());
                false
            }
            TagUse::Dropped { .. } | TagUse::Flush { .. } | TagUse::Clunk { .. } => false,
        });
        drop(state);
        ended.into_iter().for_each(Waker::wake);
    }

    /// Why the connection has ended, if it has.
    pub fn closed(&self) -> Option<RemoteError> {
        self.lock().closed.clone()
    }

    /// The number of tags and of fids in use.
    #[cfg(test)]
    pub fn in_use(&self) -> (usize, usize) {
        let state = self.lock();
        (state.calls.len(), state.fids.used)
    }
}

impl State {
    /// A tag that is not in use. There are more than calls, flushes and fids may be.
    fn free_tag(&mut self) -> u16 {
        loop {
            self.last_tag = self.last_tag.wrapping_add(1);
            if self.last_tag != NO_TAG && !self.calls.contains_key(&self.last_tag) {
                return self.last_tag;
            }
        }
    }

    fn send(&mut self, request: &Request<'_>, tag_use: TagUse) {
        if self.closed.is_some() {
            return;
        }
        let tag = self.free_tag();
        request.put(tag, &mut self.output);
        self.calls.insert(tag, tag_use);
    }

    /// Clunks a fid that the server has, or frees its number.
    fn end_fid(&mut self, fid: u32, is_made: bool) {
        if is_made {
            self.send(&Request::Clunk { fid }, TagUse::Clunk { fid });
        } else {
            self.fids.release(fid);
        }
    }

    fn reason(&self) -> RemoteError {
        let ended = || RemoteError::Lost { why: "the call has ended".to_owned() };
        self.closed.clone().unwrap_or_else(ended)
    }
}

impl NewFid {
    /// Whether the reply says that the server has the fid now.
    fn is_made_by(self, frame: &Frame) -> bool {
        match Reply::decode(frame.kind, &frame.body) {
            Ok(Reply::Attach { .. }) => true,
            // A walk that ends before its last name makes none.
            Ok(Reply::Walk { qids }) => qids.len() == self.names,
            _ => false,
        }
    }
}

impl FidNumbers {
    fn take(&mut self) -> Option<u32> {
        if self.used >= FIDS {
            return None;
        }
        self.used += 1;
        Some(self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        }))
    }

    fn release(&mut self, fid: u32) {
        self.used -= 1;
        self.free.push(fid);
    }
}

//! The watchpoints that gdb has inserted, each some stored requests: the processor watches 1, 2, 4
//! or 8 bytes at a multiple of that.
//!
//! gdb removes and inserts them as it does breakpoints: a removed one is deleted only when threads
//! continue without it.

use crate::session::{CallError, Session};
use gdbstub::target::ext::breakpoints::WatchKind;
use std::collections::BTreeMap;

/// The watchpoints.
#[derive(Debug, Default)]
pub struct Watchpoints(BTreeMap<Watched, Watchpoint>);

/// What gdb watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub length: u64,
    /// Whether reads are reported too.
    pub has_reads: bool,
}

#[derive(Debug)]
struct Watchpoint {
    requests: Vec<u64>,
    /// Whether gdb has it inserted.
    is_inserted: bool,
}

/// Most bytes that the four breakpoints of the processor watch.
const MAX_LENGTH: u64 = 32;

impl Watched {
    /// As gdb names it.
    pub const fn kind(self) -> WatchKind {
        if self.has_reads { WatchKind::ReadWrite } else { WatchKind::Write }
    }
}

impl Watchpoints {
    /// Inserts a watchpoint.
    ///
    /// # Errors
    /// If the processor cannot watch that: there are too many bytes, or it watches others already.
    pub fn insert(&mut self, session: &Session, watched: Watched) -> Result<bool, CallError> {
        if let Some(known) = self.0.get_mut(&watched) {
            known.is_inserted = true;
            return Ok(true);
        }
        if !(1..=MAX_LENGTH).contains(&watched.length) {
            return Ok(false);
        }
        let access = if watched.has_reads { "rw" } else { "w" };
        let mut requests = Vec::new();
        for (address, length) in pieces(watched) {
            let event = format!("watchpoint([{}],{address},{length},\"{access}\")", session.pid());
            match session.watch(&event, "print(REQUEST,$thread,$pc)") {
                Ok(request) => requests.push(request),
                Err(why) => {
                    requests.iter().for_each(|request| session.delete(*request));
                    return Err(why);
                }
            }
        }
        let _none = self.0.insert(watched, Watchpoint { requests, is_inserted: true });
        Ok(true)
    }

    /// Removes a watchpoint; whether there was one.
    pub fn remove(&mut self, watched: Watched) -> bool {
        let known = self.0.get_mut(&watched).filter(|it| it.is_inserted);
        known.map(|it| it.is_inserted = false).is_some()
    }

    /// Deletes the requests of removed watchpoints: threads are about to continue.
    pub fn delete_removed(&mut self, session: &Session) {
        for (_, removed) in self.0.extract_if(.., |_, it| !it.is_inserted) {
            removed.requests.iter().for_each(|request| session.delete(*request));
        }
    }

    /// Deletes all of them: the process has executed another program.
    pub fn delete_all(&mut self, session: &Session) {
        self.0.values_mut().for_each(|it| it.is_inserted = false);
        self.delete_removed(session);
    }

    /// What the request watches.
    pub fn of_request(&self, request: u64) -> Option<Watched> {
        let its = self.0.iter().find(|(_, it)| it.requests.contains(&request));
        its.map(|(watched, _)| *watched)
    }

    /// Whether a watchpoint is inserted.
    pub fn is_inserted(&self, watched: Watched) -> bool {
        self.0.get(&watched).is_some_and(|it| it.is_inserted)
    }
}

/// The parts that the processor can watch: addresses and lengths.
fn pieces(watched: Watched) -> Vec<(u64, u64)> {
    let end = watched.address.saturating_add(watched.length);
    let mut pieces = Vec::new();
    let mut at = watched.address;
    while at < end {
        let fits = |it: &u64| at.is_multiple_of(*it) && at + it <= end;
        let length = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        pieces.push((at, length));
        at += length;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_watched_in_aligned_parts() {
        let of = |address, length| pieces(Watched { address, length, has_reads: false });
        assert_eq!(of(16, 8), [(16, 8)]);
        assert_eq!(of(16, 16), [(16, 8), (24, 8)]);
        assert_eq!(of(18, 7), [(18, 2), (20, 4), (24, 1)]);
    }
}

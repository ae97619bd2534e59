//! Admission of connections: a limited number, shared by users, of which silent ones give way.
//!
//! In: connections as they open, send requests and close. Out: a slot, or none. A user has a
//! quarter of the slots. When these or all slots are taken, the connection that has been silent
//! longest is closed; if none is silent, one of the user that has most of them, if that is another.
//! Refused and closed connections are counted by kind.

use crate::lock::lock;
use monitor_protocol::status::HttpStatus;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::task::AbortHandle;

/// Fewest slots of a user, if there are as many.
const MIN_SHARE: usize = 16;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpPeer {
    /// A user of this machine.
    User(u32),
    /// Another machine, or a process of which nothing else is known.
    Address(IpAddr),
}

/// The slots.
#[derive(Clone)]
pub struct Admission {
    max: usize,
    state: Arc<Mutex<AdmissionState>>,
}

#[derive(Default)]
struct AdmissionState {
    next: u64,
    /// Open connections, the oldest first.
    open: BTreeMap<u64, OpenConnection>,
    requests: u64,
    refused: BTreeMap<&'static str, u64>,
}

struct OpenConnection {
    peer: HttpPeer,
    /// Whether it has sent no request.
    is_silent: bool,
    /// Closes it; absent until it is served, and once it is being closed.
    end: Option<AbortHandle>,
}

/// A slot; free again when dropped.
pub struct AdmissionSlot {
    /// The number of the connection.
    pub number: u64,
    admission: Admission,
}

impl AdmissionState {
    /// The number of these connections.
    fn count(&self, is_meant: impl Fn(&OpenConnection) -> bool) -> usize {
        self.open.values().filter(|it| is_meant(it)).count()
    }

    /// Closes the oldest of these; whether there was one.
    fn close(&mut self, why: &'static str, is_meant: impl Fn(&OpenConnection) -> bool) -> bool {
        let found = self.open.iter().find(|(_, it)| it.end.is_some() && is_meant(it));
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        if let Some(end) = self.open.remove(&number).and_then(|it| it.end) {
            end.abort();
        }
        *self.refused.entry(why).or_default() += 1;
        true
    }

    /// The peer with most connections, and how many these are.
    fn largest(&self) -> Option<(HttpPeer, usize)> {
        let mut counts: BTreeMap<HttpPeer, usize> = BTreeMap::new();
        for it in self.open.values() {
            *counts.entry(it.peer).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, n)| *n)
    }
}

impl Admission {
    /// `max` free slots.
    pub fn new(max: usize) -> Self {
        Self { max, state: Arc::default() }
    }

    /// A slot for a new connection of a peer, if one is or becomes free.
    pub fn admit(&self, peer: HttpPeer) -> Option<AdmissionSlot> {
        let mut state = lock(&self.state);
        let n_own = state.count(|it| it.peer == peer);
        let share = match peer {
            HttpPeer::User(0) => self.max,
            _ => self.max.div_ceil(4).max(MIN_SHARE).min(self.max),
        };
        let silent = "silent connection";
        let has_room = if n_own >= share {
            state.close(silent, |it| it.is_silent && it.peer == peer)
        } else if state.open.len() >= self.max {
            let largest = state.largest().filter(|(_, n)| *n > n_own + 1);
            state.close(silent, |it| it.is_silent)
                || largest.is_some_and(|(largest, _)| {
                    state.close("connection of the user with most", |it| it.peer == largest)
                })
        } else {
            true
        };
        if !has_room {
            *state.refused.entry("too many connections").or_default() += 1;
            return None;
        }
        state.next += 1;
        let number = state.next;
        let _none = state.open.insert(number, OpenConnection { peer, is_silent: true, end: None });
        Some(AdmissionSlot { number, admission: self.clone() })
    }

    /// Notes the handle that closes a connection.
    pub fn set_end(&self, number: u64, end: AbortHandle) {
        if let Some(it) = lock(&self.state).open.get_mut(&number) {
            it.end = Some(end);
        }
    }

    /// Counts a request: the connection is not silent.
    pub fn request_received(&self, number: u64) {
        let mut state = lock(&self.state);
        state.requests += 1;
        if let Some(it) = state.open.get_mut(&number) {
            it.is_silent = false;
        }
    }

    /// Counts a refusal.
    pub fn count(&self, kind: &'static str) {
        *lock(&self.state).refused.entry(kind).or_default() += 1;
    }

    /// The counts.
    pub fn counts(&self) -> HttpStatus {
        let state = lock(&self.state);
        HttpStatus {
            connections: state.open.len() as u64,
            requests: state.requests,
            refused: state.refused.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            ..HttpStatus::default()
        }
    }
}

impl Drop for AdmissionSlot {
    fn drop(&mut self) {
        let _open = lock(&self.admission.state).open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_silent_connection_gives_way_and_active_ones_stay() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
        runtime.block_on(async {
            let admission = Admission::new(2);
            let come = || {
                let place = admission.admit(HttpPeer::User(1000))?;
                let number = place.number;
                let task = tokio::spawn(async move {
                    let _place = place;
                    std::future::pending::<()>().await;
                });
                admission.set_end(number, task.abort_handle());
                Some((number, task))
            };
            let (first, speaker) = come().expect("a place");
            admission.request_received(first);
            let (_, silent) = come().expect("a place");
            let (third, _task) = come().expect("the place of the silent one");
            assert!(silent.await.is_err_and(|it| it.is_cancelled()));
            admission.request_received(third);
            assert!(come().is_none() && !speaker.is_finished());
            let counts = admission.counts();
            assert_eq!((counts.connections, counts.requests), (2, 2));
            assert_eq!(counts.refused.values().sum::<u64>(), 2);
        });
    }

    #[test]
    fn a_user_has_a_share_and_root_gets_in_when_all_slots_are_taken() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
        runtime.block_on(async {
            let admission = Admission::new(64);
            let mut tasks = Vec::new();
            let mut come = |user: u32| {
                let place = admission.admit(HttpPeer::User(user))?;
                let number = place.number;
                let task = tokio::spawn(async move {
                    let _place = place;
                    std::future::pending::<()>().await;
                });
                admission.set_end(number, task.abort_handle());
                // A feed that is not read.
                admission.request_received(number);
                tasks.push(task);
                Some(number)
            };
            let n_admitted = |user: u32, come: &mut dyn FnMut(u32) -> Option<u64>| {
                (0..300).filter(|_| come(user).is_some()).count()
            };
            assert_eq!(n_admitted(1000, &mut come), 16);
            assert_eq!(n_admitted(1001, &mut come), 16);
            assert_eq!(n_admitted(1002, &mut come), 16);
            assert_eq!(n_admitted(1003, &mut come), 16);
            assert!(come(1004).is_some(), "one of another user gives way");
            assert!((0..8).all(|_| come(0).is_some()));
            assert_eq!(admission.counts().connections, 64);
        });
    }
}

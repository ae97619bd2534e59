//! Admission of connections: a limited number, of which silent ones give way to new ones.
//!
//! In: connections as they open, send requests and close. Out: a slot, or none. When all slots are
//! taken, the connection that has been silent longest is closed; if none is silent, the new one
//! is. Refused and closed connections are counted by kind.

use crate::lock::lock;
use monitor_protocol::status::HttpStatus;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::task::AbortHandle;

/// The slots.
#[derive(Clone)]
pub struct Admission {
    max: usize,
    state: Arc<Mutex<AdmissionState>>,
}

#[derive(Default)]
struct AdmissionState {
    next: u64,
    /// Open connections.
    open: usize,
    /// Open connections that have sent no request, the oldest first.
    silent: BTreeMap<u64, AbortHandle>,
    requests: u64,
    refused: BTreeMap<&'static str, u64>,
}

/// A slot; free again when dropped.
pub struct AdmissionSlot {
    /// The number of the connection.
    pub number: u64,
    admission: Admission,
}

impl Admission {
    /// `max` free slots.
    pub fn new(max: usize) -> Self {
        Self { max, state: Arc::default() }
    }

    /// A slot for a new connection, if one is or becomes free.
    pub fn admit(&self) -> Option<AdmissionSlot> {
        let mut state = lock(&self.state);
        if state.open >= self.max {
            match state.silent.pop_first() {
                Some((_, oldest)) => {
                    oldest.abort();
                    *state.refused.entry("silent connection").or_default() += 1;
                }
                None => {
                    *state.refused.entry("too many connections").or_default() += 1;
                    return None;
                }
            }
        }
        state.open += 1;
        state.next += 1;
        Some(AdmissionSlot { number: state.next, admission: self.clone() })
    }

    /// Notes a connection without a request, and the handle that closes it.
    pub fn add_silent(&self, number: u64, end: AbortHandle) {
        if !end.is_finished() {
            lock(&self.state).silent.insert(number, end);
        }
    }

    /// Counts a request: the connection is not silent.
    pub fn request_received(&self, number: u64) {
        let mut state = lock(&self.state);
        state.requests += 1;
        state.silent.remove(&number);
    }

    /// Counts a refusal.
    pub fn count(&self, kind: &'static str) {
        *lock(&self.state).refused.entry(kind).or_default() += 1;
    }

    /// The counts.
    pub fn counts(&self) -> HttpStatus {
        let state = lock(&self.state);
        HttpStatus {
            connections: state.open as u64,
            requests: state.requests,
            refused: state.refused.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            ..HttpStatus::default()
        }
    }
}

impl Drop for AdmissionSlot {
    fn drop(&mut self) {
        let mut state = lock(&self.admission.state);
        state.silent.remove(&self.number);
        state.open -= 1;
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
                let place = admission.admit()?;
                let number = place.number;
                let task = tokio::spawn(async move {
                    let _place = place;
                    std::future::pending::<()>().await;
                });
                admission.add_silent(number, task.abort_handle());
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
}

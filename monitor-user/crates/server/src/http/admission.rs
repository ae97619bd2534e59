//! Who may come in: so many connections at once, and none that says nothing keeps others out.
//!
//! In: connections as they come, speak and go. Out: a place, or none. Where every place is taken,
//! the connection that has been silent for the longest has to go; where all have spoken, the new
//! one does. What was turned away is counted by kind.

use monitor_protocol::status::Http;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// The places.
#[derive(Clone)]
pub struct Admission {
    most: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Connections that are there.
    there: usize,
    /// Those of them that have said nothing, the oldest first.
    silent: BTreeMap<u64, AbortHandle>,
    requests: u64,
    refused: BTreeMap<&'static str, u64>,
}

/// A place; free again when dropped.
pub struct Place {
    /// Of which connection.
    pub number: u64,
    admission: Admission,
}

impl Admission {
    /// So many places.
    pub fn new(most: usize) -> Self {
        Self { most, state: Arc::default() }
    }

    /// A connection has come.
    pub fn enter(&self) -> Option<Place> {
        let mut state = self.lock();
        if state.there >= self.most {
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
        state.there += 1;
        state.next += 1;
        Some(Place { number: state.next, admission: self.clone() })
    }

    /// It has not spoken yet; this ends it.
    pub fn silent(&self, number: u64, end: AbortHandle) {
        if !end.is_finished() {
            self.lock().silent.insert(number, end);
        }
    }

    /// It speaks.
    pub fn spoke(&self, number: u64) {
        let mut state = self.lock();
        state.requests += 1;
        state.silent.remove(&number);
    }

    /// Something was turned away.
    pub fn count(&self, kind: &'static str) {
        *self.lock().refused.entry(kind).or_default() += 1;
    }

    /// What it counted.
    pub fn counts(&self) -> Http {
        let state = self.lock();
        Http {
            connections: state.there as u64,
            requests: state.requests,
            refused: state.refused.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            ..Http::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole, whatever became of who made it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.admission.lock();
        state.silent.remove(&self.number);
        state.there -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_silent_one_makes_room_and_who_has_spoken_stays() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
        runtime.block_on(async {
            let admission = Admission::new(2);
            let come = || {
                let place = admission.enter()?;
                let number = place.number;
                let task = tokio::spawn(async move {
                    let _place = place;
                    std::future::pending::<()>().await;
                });
                admission.silent(number, task.abort_handle());
                Some((number, task))
            };
            let (first, speaker) = come().expect("a place");
            admission.spoke(first);
            let (_, silent) = come().expect("a place");
            let (third, _task) = come().expect("the place of the silent one");
            assert!(silent.await.is_err_and(|it| it.is_cancelled()));
            admission.spoke(third);
            assert!(come().is_none() && !speaker.is_finished());
            let counts = admission.counts();
            assert_eq!((counts.connections, counts.requests), (2, 2));
            assert_eq!(counts.refused.values().sum::<u64>(), 2);
        });
    }
}

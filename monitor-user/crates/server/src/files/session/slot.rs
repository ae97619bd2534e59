//! How many sessions there are, with those that end, and those that clients still have open files
//! of: each has a process, descriptors, or kept output.

use crate::lock::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The sessions of each user.
#[derive(Debug, Default)]
pub struct SessionSlots(Mutex<BTreeMap<u32, usize>>);

/// The place of a session, until it is dropped.
#[derive(Debug)]
pub struct SessionSlot {
    slots: Arc<SessionSlots>,
    uid: u32,
}

impl SessionSlots {
    /// A place for a session of a user; none, if the user has `most` of them, or all users except
    /// root have `most_of_all`.
    pub fn take(
        self: &Arc<Self>,
        uid: u32,
        (most, most_of_all): (usize, usize),
    ) -> Option<SessionSlot> {
        let mut all = lock(&self.0);
        let others: usize = all.iter().filter(|(it, _)| **it != 0).map(|(_, n)| n).sum();
        let own = all.entry(uid).or_default();
        if *own >= most || (uid != 0 && others >= most_of_all) {
            return None;
        }
        *own += 1;
        Some(SessionSlot { slots: Arc::clone(self), uid })
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut all = lock(&self.slots.0);
        if let Some(own) = all.get_mut(&self.uid) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_session_is_gone() {
        let slots = Arc::new(SessionSlots::default());
        let take = |uid| slots.take(uid, (2, 3));
        let (first, _second) = (take(7).unwrap(), take(7).unwrap());
        assert!(take(7).is_none());
        let _third = take(8).unwrap();
        assert!(take(8).is_none() && take(9).is_none());
        let _of_root = take(0).unwrap();
        drop(first);
        assert!(take(7).is_some() && take(9).is_some());
    }
}

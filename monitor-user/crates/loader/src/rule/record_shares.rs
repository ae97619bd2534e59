//! Shares of the ring of records, by user.
//!
//! In: the users of programs, and of processes that programs run for. Out: the share of each, and
//! the records that it has lost. When all are used, those of users without programs are taken
//! away; a user that gets none shares one with others.

use super::map;
use crate::object::Object;
use aya::maps::{HashMap, MapData};
use monitor_backend::Error;
use monitor_ebpf::abi::rule::record_share::{FIRST_OF_USER, LOST, MAX_SHARES, OTHERS, READ, WORDS};
use monitor_ebpf::abi::rule::{RECORD_SHARES, USER_SHARES};
use monitor_sys::mmapped_array::MmappedArray;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The counts of all shares: bytes written and read, records lost.
pub struct ShareCounts(MmappedArray);

impl ShareCounts {
    /// Counts bytes that were read from the ring.
    pub fn add_read(&self, share: u16, bytes: u64) {
        // The reader is the only one that writes this word.
        let read = self.0.at(usize::from(share) * WORDS + READ);
        _ = read.map(|read| read.fetch_add(bytes, Relaxed));
    }

    fn lost(&self, share: u8) -> u64 {
        self.0.at(usize::from(share) * WORDS + LOST).map_or(0, |lost| lost.load(Relaxed))
    }
}

/// The share of one user.
struct UserShare {
    share: u8,
    /// Records that it had lost when the user got it.
    lost_before: u64,
}

/// The shares of all users.
pub struct RecordShares {
    counts: Arc<ShareCounts>,
    users: BTreeMap<u32, UserShare>,
}

impl RecordShares {
    /// None has a share yet.
    pub fn from_object(object: &Object) -> Result<Self, Error> {
        let counts = map::mmapped(object, RECORD_SHARES, MAX_SHARES as usize * WORDS)?;
        Ok(Self { counts: Arc::new(ShareCounts(counts)), users: BTreeMap::new() })
    }

    /// The counts, for the reader.
    pub fn counts(&self) -> Arc<ShareCounts> {
        Arc::clone(&self.counts)
    }

    /// The share of a user, which it gets if it has none. Those of `used` are not taken away.
    pub fn share(&mut self, object: &mut Object, uid: u32, used: &BTreeSet<u8>) -> u8 {
        if let Some(user) = self.users.get(&uid) {
            return user.share;
        }
        if self.users.len() >= usize::from(u8::MAX - FIRST_OF_USER) {
            for (uid, _) in self.users.extract_if(.., |_, user| !used.contains(&user.share)) {
                _ = users(object).map(|mut table| table.remove(&uid));
            }
        }
        let taken: BTreeSet<u8> = self.users.values().map(|user| user.share).collect();
        let Some(share) = (FIRST_OF_USER..u8::MAX).find(|share| !taken.contains(share)) else {
            return OTHERS;
        };
        // Fails only without memory: then its processes are among those of others.
        _ = users(object).map(|mut table| table.insert(uid, u32::from(share), 0));
        let lost_before = self.counts.lost(share);
        _ = self.users.insert(uid, UserShare { share, lost_before });
        share
    }

    /// Records that each user has lost; none: those of other users.
    pub fn lost(&self) -> BTreeMap<Option<u32>, u64> {
        let lost = |user: &UserShare| self.counts.lost(user.share).saturating_sub(user.lost_before);
        let users = self.users.iter().map(|(uid, user)| (Some(*uid), lost(user)));
        users.chain([(None, self.counts.lost(OTHERS))]).collect()
    }
}

fn users(object: &mut Object) -> Option<HashMap<&mut MapData, u32, u32>> {
    HashMap::try_from(object.ebpf.map_mut(USER_SHARES)?).ok()
}

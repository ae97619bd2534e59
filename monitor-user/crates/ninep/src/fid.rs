//! The fids of a connection: what each names, for which user, and whether it is open.

use crate::directory::DirectoryCursor;
use crate::error::{Errno, FileError};
use crate::fid_quota::FidQuota;
use crate::limits::Limits;
use crate::tree::{OpenMode, Tree};
use crate::user::User;
use crate::{NO_FID, pending::WakeQueue};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::Waker;

/// A fid.
pub struct Fid<T: Tree> {
    /// The user whose rights it has.
    pub user: Arc<User>,
    /// What it names.
    pub node: T::Node,
    /// Whether it is open.
    pub state: FidState<T::File>,
    /// Wakes what waits on it; made when something first does.
    waker: Option<Waker>,
}

/// Whether a fid is open. A connection may have many fids that are not, so what an open one has is
/// beside the table.
pub enum FidState<F> {
    /// It is not.
    Closed,
    /// Its open waits for the tree.
    Opening,
    /// It is an open directory.
    Directory(Box<DirectoryCursor>),
    /// It is an open file.
    File(Box<F>, OpenMode),
}

impl<T: Tree> Fid<T> {
    /// A fid that is not open.
    pub const fn closed(user: Arc<User>, node: T::Node) -> Self {
        Self { user, node, state: FidState::Closed, waker: None }
    }

    /// What wakes the requests that wait on it.
    pub fn waker(&mut self, number: u32, queue: &Arc<WakeQueue>) -> Waker {
        self.waker.get_or_insert_with(|| WakeQueue::waker(queue, number)).clone()
    }
}

/// All fids of a connection.
pub struct FidTable<T: Tree> {
    all: HashMap<u32, Fid<T>>,
    limits: Limits,
    /// Those of other connections too; what the limits leave to count does so until it is removed.
    quota: Arc<FidQuota>,
    /// How many count there.
    counted: usize,
}

impl<T: Tree> Drop for FidTable<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<T: Tree> FidTable<T> {
    /// No fids, of at most what the limits and the quota leave.
    pub fn new(limits: Limits, quota: Arc<FidQuota>) -> Self {
        Self { all: HashMap::new(), limits, quota, counted: 0 }
    }

    /// The fid of this number.
    pub fn get(&mut self, number: u32) -> Result<&mut Fid<T>, FileError> {
        self.all.get_mut(&number).ok_or_else(|| {
            FileError::new(Errno::UnknownFid, format!("fid {number} names no file here"))
        })
    }

    /// All fids.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Fid<T>> {
        self.all.values_mut()
    }

    /// Checks that a further fid can have this number.
    pub fn check_new(&self, number: u32) -> Result<(), FileError> {
        if number == NO_FID {
            return Err(FileError::new(Errno::UnknownFid, "the new fid is NOFID"));
        }
        if self.all.contains_key(&number) {
            let why = format!("fid {number} names a file: clunk it first");
            return Err(FileError::new(Errno::FidInUse, why));
        }
        if self.all.len() >= self.limits.fids {
            let why = format!("{} fids, the limit of a connection: clunk some", self.limits.fids);
            return Err(FileError::new(Errno::TooManyFids, why));
        }
        Ok(())
    }

    /// Adds or replaces a fid; a further one needs room in the quota.
    pub fn insert(&mut self, number: u32, fid: Fid<T>) -> Result<(), FileError> {
        let is_counted = self.all.len() >= self.limits.uncounted_fids;
        match self.all.entry(number) {
            Entry::Occupied(mut there) => drop(there.insert(fid)),
            Entry::Vacant(place) => {
                if is_counted {
                    self.quota.take()?;
                    self.counted += 1;
                }
                place.insert(fid);
            }
        }
        Ok(())
    }

    /// Removes a fid.
    pub fn remove(&mut self, number: u32) -> Option<Fid<T>> {
        let removed = self.all.remove(&number)?;
        if self.counted > 0 {
            self.counted -= 1;
            self.quota.give_back(1);
        }
        Some(removed)
    }

    /// Removes all fids.
    pub fn clear(&mut self) {
        self.quota.give_back(std::mem::take(&mut self.counted));
        self.all = HashMap::new();
    }

    /// Bytes of the entries of open directories.
    pub fn directory_bytes(&self) -> usize {
        let bytes = self.all.values().map(|fid| match &fid.state {
            FidState::Directory(cursor) => cursor.bytes(),
            FidState::Closed | FidState::Opening | FidState::File(..) => 0,
        });
        bytes.sum()
    }

    /// The number of fids.
    pub fn len(&self) -> usize {
        self.all.len()
    }
}

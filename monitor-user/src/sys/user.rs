//! The name of a user, from wherever the host keeps it.

use nix::unistd::{Uid, User};

/// The name of a user; absent where the host knows none, or cannot be asked.
pub fn name(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

//! The users of commands, by number, with their groups on this host.
//!
//! In: numbers. Out: users, as the host's name service has them. A lookup may wait for that, and is
//! done on a thread of its own; what it found is kept for a short time, because a tool sends many
//! commands.

use crate::lock::lock;
use crate::policy::Peer;
use monitor_model::Ns;
use monitor_sys::{clock, users};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The group of a user that this host does not know: one that no process has (setresgid(2)).
const NO_GROUP: u32 = u32::MAX;
/// How long a user is kept: other groups of it are known after that.
const KEPT: Ns = Ns(5_000_000_000);

/// The users that were looked up; clones share them.
#[derive(Clone, Default)]
pub struct CommandUsers(Arc<Mutex<HashMap<u32, KnownUser>>>);

struct KnownUser {
    peer: Peer,
    since: Ns,
}

impl CommandUsers {
    /// A user by its number.
    ///
    /// # Errors
    /// The lookup has failed.
    pub async fn find(&self, uid: u32) -> Result<Peer, String> {
        let now = clock::boot();
        if let Some(peer) = self.known(uid, now) {
            return Ok(peer);
        }
        let peer = tokio::task::spawn_blocking(move || look_up(uid)).await;
        let peer = peer.map_err(|_| "the user cannot be looked up".to_owned())?;
        let mut known = lock(&self.0);
        known.retain(|_, user| is_kept(user, now));
        known.insert(uid, KnownUser { peer: peer.clone(), since: now });
        Ok(peer)
    }

    fn known(&self, uid: u32, now: Ns) -> Option<Peer> {
        let known = lock(&self.0);
        known.get(&uid).filter(|user| is_kept(user, now)).map(|user| user.peer.clone())
    }
}

fn is_kept(user: &KnownUser, now: Ns) -> bool {
    now.since(user.since) < KEPT
}

fn look_up(uid: u32) -> Peer {
    let pid = std::process::id();
    match users::primary_group(uid) {
        Some(gid) => Peer { uid, gid, pid, groups: users::groups(uid, gid) },
        None => Peer { uid, gid: NO_GROUP, pid, groups: Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_looked_up_again_after_a_time() {
        let users = CommandUsers::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let root = runtime.block_on(users.find(0)).expect("it can be looked up");
        assert_eq!((root.uid, root.gid), (0, 0));
        let since = lock(&users.0)[&0].since;
        assert_eq!(users.known(0, since), Some(root));
        assert_eq!(users.known(0, Ns(since.0 + KEPT.0)), None);
    }

    #[test]
    fn a_user_that_the_host_does_not_know_has_no_group() {
        let unknown = look_up(u32::MAX - 7);
        assert_eq!((unknown.gid, unknown.groups), (NO_GROUP, Vec::new()));
    }
}

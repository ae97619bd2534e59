//! How many connections there are, of each client and of all, and how many fids these have.
//!
//! In: the user of a process of this machine, or the address of another one. Out: a slot, or the
//! limit that is reached. A slot counts until it is dropped.

use crate::lock::lock;
use monitor_ninep::FidQuota;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Whose connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotOwner {
    /// A user of this machine. Root is not counted among all.
    User(u32),
    /// A machine; the network of 64 bits of an address of IPv6, because a machine may have all of
    /// them.
    Address(IpAddr),
}

/// Fids of one client, and of all but root: a fid takes about 160 bytes of memory, and an open file
/// more.
const FIDS_OF_ONE: usize = 16_384;
const FIDS_OF_ALL: usize = 131_072;

/// The connections of a listener.
#[derive(Clone, Debug)]
pub struct ConnectionSlots {
    open: Arc<Mutex<BTreeMap<SlotOwner, OwnedSlots>>>,
    most_of_one: usize,
    most_of_all: usize,
    /// Those of all clients but root.
    fids: Arc<FidQuota>,
}

/// What one client has.
#[derive(Debug)]
struct OwnedSlots {
    connections: usize,
    fids: Arc<FidQuota>,
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    owner: SlotOwner,
    open: Arc<Mutex<BTreeMap<SlotOwner, OwnedSlots>>>,
    fids: Arc<FidQuota>,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimit {
    /// What it limits, as it is counted.
    pub name: &'static str,
    /// Its value.
    pub most: usize,
}

impl SlotOwner {
    /// The machine at an address.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(it) => {
                let network = u128::from(it) & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
            address => address,
        })
    }

    /// Whether it counts among all: root must always get in.
    fn is_counted(self) -> bool {
        self != Self::User(0)
    }
}

impl Display for SlotOwner {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(out, "user {uid}"),
            Self::Address(address) => write!(out, "{address}"),
        }
    }
}

impl ConnectionSlots {
    /// None yet; at most these, of one client and of all.
    pub fn new(most_of_one: usize, most_of_all: usize) -> Self {
        let fids = Arc::new(FidQuota::new(FIDS_OF_ALL, "all users except root"));
        Self { open: Arc::default(), most_of_one, most_of_all, fids }
    }

    /// A slot for a further connection.
    ///
    /// # Errors
    ///
    /// When a limit is reached.
    pub fn take(&self, owner: SlotOwner) -> Result<ConnectionSlot, SlotLimit> {
        let mut open = lock(&self.open);
        let own = open.get(&owner).map_or(0, |it| it.connections);
        let counted = open.iter().filter(|it| it.0.is_counted());
        let others: usize = counted.map(|it| it.1.connections).sum();
        if own >= self.most_of_one {
            let name = match owner {
                SlotOwner::User(_) => "connections of a user",
                SlotOwner::Address(_) => "connections of an address",
            };
            return Err(SlotLimit { name, most: self.most_of_one });
        }
        if owner.is_counted() && others >= self.most_of_all {
            return Err(SlotLimit { name: "connections", most: self.most_of_all });
        }
        let owned = open
            .entry(owner)
            .or_insert_with(|| OwnedSlots { connections: 0, fids: Arc::new(self.fids_of(owner)) });
        owned.connections += 1;
        let fids = Arc::clone(&owned.fids);
        Ok(ConnectionSlot { owner, open: Arc::clone(&self.open), fids })
    }

    fn fids_of(&self, owner: SlotOwner) -> FidQuota {
        let own = FidQuota::new(FIDS_OF_ONE, owner.to_string());
        if owner.is_counted() { own.within(&self.fids) } else { own }
    }
}

impl ConnectionSlot {
    /// The fids of all connections of its client.
    pub const fn fids(&self) -> &Arc<FidQuota> {
        &self.fids
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(owned) = open.get_mut(&self.owner) {
            owned.connections -= 1;
            if owned.connections == 0 {
                open.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_limit_and_all_but_root_have_one() {
        let slots = ConnectionSlots::new(2, 3);
        let user = |uid| slots.take(SlotOwner::User(uid)).map_err(|it| it.name);
        let at = |text: &str| {
            let owner = SlotOwner::at(text.parse().expect("an address"));
            slots.take(owner).map_err(|it| it.name)
        };
        let (first, _second) =
            (at("2001:db8::1").expect("room"), at("2001:db8::ff").expect("room"));
        assert_eq!(at("2001:db8::2:1").err(), Some("connections of an address"));
        let _third = at("::ffff:10.0.0.1").expect("room");
        assert_eq!(at("10.0.0.2").err(), Some("connections"));
        assert_eq!(user(7).err(), Some("connections"));
        let _of_root = (user(0).expect("room"), user(0).expect("room"));
        assert_eq!(user(0).err(), Some("connections of a user"));
        drop(first);
        let _again = at("10.0.0.1").expect("room");
    }

    #[test]
    fn fids_are_those_of_all_connections_of_a_client() {
        let slots = ConnectionSlots::new(9, 99);
        let of = |uid| slots.take(SlotOwner::User(uid)).expect("room");
        let (one, same, other, root) = (of(7), of(7), of(8), of(0));
        for it in [&one, &same, &other, &root] {
            it.fids().take().expect("room");
        }
        let used = [&one, &other, &root].map(|it| it.fids().used());
        assert_eq!((used, slots.fids.used()), ([2, 1, 1], 3));
        let fill = || (0..).find_map(|_| one.fids().take().err()).expect("a limit");
        let why = fill().explanation;
        assert_eq!(why, "16384 fids, the limit of all connections of user 7: clunk some");
        other.fids().take().expect("it is another user");
    }
}

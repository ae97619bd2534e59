//! How many connections there are, of each client and of all.
//!
//! In: the user of a process of this machine, or the address of another one. Out: a slot, or the
//! limit that is reached. A slot counts until it is dropped.

use crate::lock::lock;
use std::collections::BTreeMap;
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

/// The connections of a listener.
#[derive(Clone, Debug)]
pub struct ConnectionSlots {
    open: Arc<Mutex<BTreeMap<SlotOwner, usize>>>,
    most_of_one: usize,
    most_of_all: usize,
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    owner: SlotOwner,
    open: Arc<Mutex<BTreeMap<SlotOwner, usize>>>,
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
}

impl ConnectionSlots {
    /// None yet; at most these, of one client and of all.
    pub fn new(most_of_one: usize, most_of_all: usize) -> Self {
        Self { open: Arc::default(), most_of_one, most_of_all }
    }

    /// A slot for a further connection.
    ///
    /// # Errors
    ///
    /// When a limit is reached.
    pub fn take(&self, owner: SlotOwner) -> Result<ConnectionSlot, SlotLimit> {
        let mut open = lock(&self.open);
        let own = open.get(&owner).copied().unwrap_or(0);
        let counted = |it: &SlotOwner| *it != SlotOwner::User(0);
        let others: usize = open.iter().filter(|it| counted(it.0)).map(|it| it.1).sum();
        if own >= self.most_of_one {
            let name = match owner {
                SlotOwner::User(_) => "connections of a user",
                SlotOwner::Address(_) => "connections of an address",
            };
            return Err(SlotLimit { name, most: self.most_of_one });
        }
        if counted(&owner) && others >= self.most_of_all {
            return Err(SlotLimit { name: "connections", most: self.most_of_all });
        }
        open.insert(owner, own + 1);
        Ok(ConnectionSlot { owner, open: Arc::clone(&self.open) })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
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
}

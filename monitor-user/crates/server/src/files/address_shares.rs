//! The processor time of TLS handshakes, for each machine that connects.
//!
//! In: the machine of a connection, and its handshake. Out: the same, when the machine has not
//! taken more than its share. A handshake costs this service more than the other end, which needs
//! no certificate to begin one.

use super::connection_slots::SlotOwner;
use crate::user_shares::{ShareLimits, UserShare};
use monitor_sys::clock;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// The shares of machines that have connected; one that has all it may save up is forgotten.
pub struct AddressShares {
    limits: ShareLimits,
    all: BTreeMap<SlotOwner, Arc<UserShare>>,
}

impl AddressShares {
    /// No machines yet; each may take this much.
    pub const fn new(limits: ShareLimits) -> Self {
        Self { limits, all: BTreeMap::new() }
    }

    /// The share of a machine.
    pub fn share(&mut self, of: SlotOwner) -> Arc<UserShare> {
        if let Some(share) = self.all.get(&of) {
            return Arc::clone(share);
        }
        let now = clock::boot();
        self.all.retain(|_, it| Arc::strong_count(it) > 1 || !it.has_saved_all(now));
        let share = Arc::new(UserShare::of_address(self.limits));
        self.all.insert(of, Arc::clone(&share));
        share
    }
}

/// Waits until the share allows a handshake, and charges its processor time.
pub async fn charged<T>(share: &UserShare, handshake: impl Future<Output = T>) -> T {
    // Not held meanwhile: a client that stalls does not hold up others of its machine.
    drop(share.admit_line(|| false).await);
    let mut handshake = pin!(handshake);
    poll_fn(|context| {
        let began = clock::thread_cpu();
        let polled = handshake.as_mut().poll(context);
        share.charge_socket(began);
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Duration;
    use tokio::time::timeout;

    fn at(address: &str) -> SlotOwner {
        SlotOwner::at(address.parse().expect("an address"))
    }

    /// Takes processor time, as a handshake does.
    async fn work(milliseconds: u64) {
        let began = clock::thread_cpu();
        while clock::thread_cpu().since(began).0 < milliseconds * 1_000_000 {
            black_box(());
        }
    }

    #[tokio::test]
    async fn a_machine_that_took_more_than_its_share_waits_and_others_do_not() {
        let mut shares = AddressShares::new(ShareLimits { bytes: 0, processor: 0.01 });
        let first = shares.share(at("10.0.0.1"));
        charged(&first, work(150)).await;
        // It has taken 0.3 s of the 0.2 s that it may save up, and gets 10 ms a second.
        drop(first);
        let again = shares.share(at("10.0.0.1"));
        let waits = timeout(Duration::from_millis(50), charged(&again, work(0))).await;
        assert!(waits.is_err());
        charged(&shares.share(at("10.0.0.2")), work(1)).await;
        drop(again);
        assert_eq!(shares.all.len(), 2);
    }
}

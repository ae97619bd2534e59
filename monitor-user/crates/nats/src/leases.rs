//! Leases: keys that one port at a time writes.

use super::failure::{Failed, failed};
use super::server::Server;
use super::subject;
use monitor_cluster::bus::LeaseGrant;
use monitor_model::Ns;
use monitor_sys::clock;
use std::collections::BTreeMap;

/// What a released lease holds.
const FREE: &str = "";

/// The leases that a port has asked for.
///
/// A lease of another holder has ended when its key did not change for its duration, measured
/// here: that begins after the holder wrote it, so its own count ends earlier.
#[derive(Default)]
pub struct Leases {
    seen: BTreeMap<String, SeenLease>,
}

struct SeenLease {
    revision: u64,
    since: Ns,
    /// The token, if this port has the lease.
    own: Option<u64>,
}

impl Leases {
    /// Takes a lease, or renews it.
    pub async fn request(
        &mut self,
        server: &Server,
        (name, holder): (&str, &str),
        (now, duration): (Ns, Ns),
    ) -> Result<Option<LeaseGrant>, Failed> {
        let question = "lease";
        let Some(leases) = &server.leases else {
            return Err(failed(question)("only a node with cluster.removes_dead may take one"));
        };
        let key = subject::token(name);
        let entry = leases.entry(&key).await.map_err(failed(question))?;
        let written = || format!("{holder} {}", duration.0).into();
        let seen = self
            .seen
            .get(name)
            .filter(|it| Some(it.revision) == entry.as_ref().map(|e| e.revision));
        let is_own = seen.is_some_and(|it| it.own.is_some() && now.since(it.since) < duration);
        let revision = match &entry {
            None => leases.create(&key, written()).await.ok(),
            Some(entry) => {
                let text = String::from_utf8_lossy(&entry.value);
                let lasts =
                    text.rsplit(' ').next().and_then(|ns| ns.parse().ok()).map_or(duration, Ns);
                let is_over = seen.is_some_and(|it| now.since(it.since) >= lasts);
                if !is_own && !is_over && text != FREE {
                    if seen.is_none() {
                        let (revision, since) = (entry.revision, clock::boot());
                        self.seen.insert(name.to_owned(), SeenLease { revision, since, own: None });
                    }
                    return Ok(None);
                }
                // Fails if another one was faster.
                leases.update(&key, written(), entry.revision).await.ok()
            }
        };
        let Some(revision) = revision else { return Ok(None) };
        let token = seen.filter(|_| is_own).and_then(|it| it.own).unwrap_or(revision);
        let lease = SeenLease { revision, since: now, own: Some(token) };
        self.seen.insert(name.to_owned(), lease);
        Ok(Some(LeaseGrant { token, until: Ns(now.0.saturating_add(duration.0)) }))
    }

    /// Releases a lease that this port has.
    pub async fn release(&mut self, server: &Server, name: &str) -> Result<(), Failed> {
        let lease = self.seen.remove(name).filter(|it| it.own.is_some());
        let Some((lease, leases)) = lease.zip(server.leases.as_ref()) else { return Ok(()) };
        let key = subject::token(name);
        let updated = leases.update(&key, FREE.into(), lease.revision).await;
        updated.map(drop).map_err(failed("release of the lease"))
    }
}

//! The streams of a cluster: their names, limits, and whose they are.
//!
//! In: on how many servers they are kept, the name of the cluster. Out: their configuration, or why
//! one that exists is not that of this cluster. Makes none.

use super::failure::{Failed, failed};
use super::subject;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use monitor_cluster::bus::{DUPLICATE_WINDOW, RETENTION, RETENTION_BYTES};
use std::time::Duration;

/// The stream of the order.
pub const STREAM: &str = "MONCMD";
/// A key for each node, which it writes to know the stream's clock.
pub const MEMBER_KEYS: &str = "mon_members";
/// A key for each lease.
pub const LEASE_KEYS: &str = "mon_lease";
/// Consumers of the stream: a node has one. nats-server 2.15 takes 1,000 if it is not set.
const MAX_CONSUMERS: i32 = 20_000;
/// What is before the name of the cluster in the description of the stream.
const OWNER: &str = "cluster ";

/// The streams, as a node opens them.
#[derive(Clone, Debug)]
pub struct Streams {
    /// On how many servers they are kept, if they have to be made.
    pub n_replicas: usize,
    /// Whether this node makes those that do not exist.
    pub makes: bool,
    /// The name of the cluster; empty if it has none.
    pub cluster: String,
}

impl Streams {
    /// The stream of the order.
    pub fn order(&self) -> Config {
        Config {
            name: STREAM.to_owned(),
            description: (!self.cluster.is_empty()).then(|| format!("{OWNER}{}", self.cluster)),
            subjects: vec![subject::ORDER.to_owned()],
            max_bytes: i64::try_from(RETENTION_BYTES).unwrap_or(i64::MAX),
            max_age: Duration::from_nanos(RETENTION.0),
            max_consumers: MAX_CONSUMERS,
            duplicate_window: Duration::from_nanos(DUPLICATE_WINDOW.0),
            num_replicas: self.n_replicas,
            ..Config::default()
        }
    }

    /// A bucket of keys: a stream with a subject for each key. The function of the client library
    /// for it cannot read what nats-server 2.9.10 says of the account.
    pub fn keys(&self, bucket: &str) -> Config {
        Config {
            name: format!("KV_{bucket}"),
            subjects: vec![format!("$KV.{bucket}.>")],
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            num_replicas: self.n_replicas,
            ..Config::default()
        }
    }

    /// Refuses the stream of another cluster.
    pub fn check_cluster(&self, found: &Config) -> Result<(), Failed> {
        let owner = found.description.as_deref().and_then(|text| text.strip_prefix(OWNER));
        match owner {
            Some(owner) if !self.cluster.is_empty() && owner != self.cluster => {
                let own = &self.cluster;
                let why = format!(
                    "it is that of the cluster {owner:?}, and cluster.name is {own:?}: give each \
                     cluster an account or a server of its own"
                );
                Err(failed("stream MONCMD")(why))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_another_cluster_is_refused() {
        let streams = |name: &str| Streams { n_replicas: 1, makes: true, cluster: name.into() };
        let check = |own: &str, other: &str| {
            streams(own).check_cluster(&streams(other).order()).map_err(|why| why.to_string())
        };
        assert_eq!(check("a", "a"), Ok(()));
        assert_eq!(check("", "a"), Ok(()));
        assert_eq!(check("a", ""), Ok(()));
        let why = check("a", "b").expect_err("another cluster");
        assert!(why.contains("that of the cluster \"b\", and cluster.name is \"a\""), "{why}");
    }
}
